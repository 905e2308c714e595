//! A canary in every spelling, whole and in pieces.

use super::*;
use serde_json::json;

const CANARY: &str = "sk-cAnAry1\"/+%q";

fn redactor() -> Redactor {
    Redactor::new(["Bearer sk-other-one".into(), CANARY.into(), "short".into()])
}

#[track_caller]
fn gone(text: &str) {
    let kept = redactor().text(text);
    assert!(kept.contains(MARK), "{text} stays {kept}");
    assert_eq!(redactor().text(&kept), kept, "twice is once");
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut padded = text.as_bytes().to_vec();
    padded.resize(text.len().div_ceil(3) * 3, 0);
    let letters = padded.chunks(3).flat_map(|three| {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(LETTERS[bits >> shift & 63]))
    });
    letters.collect()
}

#[test]
fn g15_a_canary_is_found_in_every_spelling() {
    let bytes = CANARY.as_bytes();
    let percent: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    let some = CANARY.replace('"', "%22").replace('/', "%2f").replace('+', "%2B");
    let json = serde_json::to_string(CANARY).unwrap();
    let escaped: String = bytes.iter().map(|byte| format!("\\u{byte:04x}")).collect();
    let html = CANARY.replace('"', "&quot;").replace('+', "&#43;");
    let twice = serde_json::to_string(&json).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    for text in [CANARY, &CANARY.to_uppercase(), &percent, &some, &json, &escaped, &html, &twice] {
        gone(text);
        gone(&format!("before {text} and after"));
    }
    for text in [hex, format!("{CANARY:?}"), some.replace('%', "%25")] {
        gone(&text);
    }
    for before in ["", "a", "ab", "abc", "Bearer "] {
        let text = base64(&format!("{before}{CANARY} and more"));
        gone(&text);
        gone(&text.replace('+', "-").replace('/', "_"));
    }
}

#[test]
fn g15_a_canary_in_pieces_is_found() {
    let (one, two) = CANARY.split_at(7);
    let mut value = json!({"parts": [{"type": "text", "text": one}, {"type": "text", "text": format!("{two} rest")}]});
    redactor().value(&mut value);
    assert_eq!(value["parts"], json!([{"type": "text", "text": MARK}, {"type": "text", "text": "[redacted] rest"}]));
    let mut list = json!(["key", one, two, 7]);
    redactor().value(&mut list);
    assert_eq!(list, json!(["key", MARK, MARK, 7]));
}

#[test]
fn names_and_numbers_hide_nothing() {
    let redactor = Redactor::new(["87654321".into(), CANARY.into()]);
    let mut value = json!({"id": 187_654_321, CANARY: "named", "small": 12});
    redactor.value(&mut value);
    assert_eq!(value, json!({"id": MARK, MARK: "named", "small": 12}));
}

#[test]
fn what_is_no_secret_stays_as_it_is() {
    let text = "Bearer of news; short, 100 % sure, a\\nb \\u00e9 &amp; sk-canister";
    assert_eq!(redactor().text(text), text);
    assert_eq!(redactor().text("sk-other-one, Bearer sk-other-one"), "[redacted], [redacted]");
    assert_eq!(Redactor::default().text(CANARY), CANARY);
}

#[test]
fn the_working_folder_is_the_replays_own() {
    let (there, here) = (Redactor::default().at("/home/one/"), Redactor::default().at("/srv/other"));
    let mut value = json!({"text": "in /home/one/docs", "list": ["/home/one", "/home"]});
    there.value(&mut value);
    assert_eq!(value, json!({"text": "in [folder]/docs", "list": ["[folder]", "/home"]}));
    here.with_folder(&mut value);
    assert_eq!(value, json!({"text": "in /srv/other/docs", "list": ["/srv/other", "/home"]}));
    assert_eq!(Redactor::default().at("/").text("/a/b"), "/a/b");
}

#[test]
fn g15_a_canary_that_comes_later_is_found_from_then_on() {
    let before = Redactor::new(["sk-other-one".into()]).at("/srv/here");
    let after = before.clone().with(["sk-later-one".into(), "sk-other-one".into()]);
    assert_eq!(before.text("sk-later-one"), "sk-later-one");
    assert_eq!(after.text("sk-later-one sk-other-one /srv/here"), format!("{MARK} {MARK} {FOLDER}"));
    assert_eq!(format!("{after:?}"), "Redactor { secrets: 2 }", "each is looked for once");
}
