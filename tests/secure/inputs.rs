//! Unusual input: stored unchanged, or refused in one line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::secure::fixture::{Fixture, LONG};
use crate::support::clean::assert_clean;
use crate::support::program::Run;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

fn home() -> Fixture {
    let fixture = Fixture::new(
        "[runtime]\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[store]\nkind = \"json\"\n",
    );
    fixture.scratch.write("s.json", json!([{ "replies": [{ "text": "hello" }] }]).to_string());
    fixture
}

#[track_caller]
fn assert_refused(run: &Run, names: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.stderr.contains(names) && run.stderr.len() < 1000, "{names:?} is not in {:?}", run.stderr);
    assert_clean(&run.stderr);
}

#[test]
fn b2_text_of_any_kind_is_kept_to_the_byte_and_never_cut() {
    let fixture = home();
    let most = 1 << 20;
    let marks = "e".to_owned() + &"\u{301}".repeat((most - 1) / 2);
    let texts = [
        ("NUL", "a\0b\0".to_owned()),
        ("controls", (0..32_u8).map(char::from).chain(['\u{7f}', '\u{80}', '\u{9f}']).collect()),
        ("right to left", "שלום \u{202e}evil\u{202c} مرحبا\u{2067}x\u{2069}".to_owned()),
        ("joined", "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f} می\u{200c}خواهم".to_owned()),
        ("line ends", "one\r\ntwo\rthree\n\n\u{2028}four".to_owned()),
        ("invisible", "a\u{200b}b\u{feff}c\u{e0041}d\u{ffff}e\u{fffd}f".to_owned()),
        ("four bytes each", "😀".repeat(most / 4)),
        ("a megabyte of marks", marks),
    ];
    for (name, text) in texts {
        let session = name.replace(' ', "-");
        let run = fixture.agent(["run", "--session", &session]).stdin(&text).run();
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{name}: {}", run.stderr);
        let exported = fixture.run(["sessions", "export", &session]);
        assert_clean(&exported.stdout);
        let is_kept = exported.stdout.lines().any(|line| {
            let record: Value = serde_json::from_str(line).expect("a record");
            holds(&record, &text)
        });
        // What is large is kept beside the journal.
        let is_beside = || {
            let list = fixture.run(["artifacts", "list", &session, "--json"]);
            let list: Value = serde_json::from_str(&list.stdout).expect("JSON");
            let ids: Vec<_> = list["artifacts"].as_array().into_iter().flatten().map(|one| one["id"].clone()).collect();
            let [Value::String(id)] = &ids[..] else { return false };
            fixture.run(["artifacts", "export", &session, id]).stdout == text
        };
        assert!(is_kept || is_beside(), "{name} is not kept as it was said");
        assert_clean(&fixture.run(["sessions", "show", &session]).stdout);
    }
}

/// Whether a value contains a text.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(held) => held == text,
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(fields) => fields.values().any(|field| holds(field, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[test]
fn b2_too_much_is_refused_with_the_number_before_it_is_read() {
    let fixture = home();
    let hundred = vec![b'a'; 100 << 20];
    let run = fixture.agent(["run"]).stdin(&hundred).run();
    assert_refused(&run, "1048576");
    println!("figure: B2 100 MiB refused in {} ms", run.millis);
    let marks = "e\u{301}".repeat(1 << 20);
    assert_refused(&fixture.agent(["run"]).stdin(&marks).run(), "1048576");
    // In a conversation and in a batch the next one is taken.
    let run = fixture.agent(["chat"]).stdin([&hundred[..3 << 20], b"\nhi\n"].concat()).run();
    assert!(run.stderr.contains("1048576") && run.stdout.contains("hello"), "{run:?}");
    let line = format!("{}\n", json!({"session": "s", "prompt": "hi"}));
    let run = fixture.agent(["batch", "-"]).stdin([&hundred[..3 << 20], b"\n", line.as_bytes()].concat()).run();
    assert_eq!((run.code, run.stdout.lines().count()), (Some(2), 2), "{}", run.stderr);
    assert!(run.stdout.contains("1048576") && run.stdout.contains("hello"), "{}", run.stdout);
}

#[test]
fn b5_lines_of_a_batch_that_are_no_text_or_too_deep_fail_alone() {
    let fixture = home();
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        [
            format!("{open}{close}"),
            open.clone(),
            format!(r#"{{"session":"s","prompt":{open}{close}}}"#),
            format!(r#"{{"session":"s","prompt":"hi","labels":{{"a":{open}{close}}}}}"#),
        ]
    };
    let mut bad: Vec<Vec<u8>> =
        [128, 129, 100_000, 500_000].into_iter().flat_map(deep).map(String::into_bytes).collect();
    bad.push("[".repeat((1 << 20) - 1).into_bytes());
    for text in [
        &br#"{"session":"s","prompt":"\ud800"}"#[..],
        br#"{"session":"s","prompt":"\udc00"}"#,
        br#"{"session":"s","prompt":"\udc00\ud800"}"#,
        br#"{"session":"s","prompt":"\ud800\u0041"}"#,
        br#"{"session":"s\ud800","prompt":"hi"}"#,
        b"{\"session\":\"s\",\"prompt\":\"caf\xe9\"}",
        b"{\"session\":\"s\",\"prompt\":\"\xed\xa0\x80\"}",
        b"\xff\xfe{\0\"\0",
        br#"{"session":"s","prompt":"a","prompt":"b"}"#,
        br#"{"session":"s","session":"t","prompt":"b"}"#,
        br#"{"session":"s","prompt":"a"}{"session":"s","prompt":"b"}"#,
        br#"{"session":"s","prompt":NaN}"#,
        br#"{"session":"../s","prompt":"hi"}"#,
        br#"{"session":"CON/","prompt":"hi"}"#,
    ] {
        bad.push(text.to_vec());
    }
    let good = [
        r#"{"session":"s","prompt":"\ud83d\ude00"}"#.to_owned(),
        // Unknown keys are skipped at any depth.
        format!(r#"{{"session":"s","prompt":"hi","theirs":{}{}}}"#, "[".repeat(100), "]".repeat(100)),
    ];
    let count = bad.len();
    let lines: Vec<Vec<u8>> = bad.into_iter().chain(good.into_iter().map(String::into_bytes)).collect();
    let run = fixture.agent(["batch", "--quiet", "-"]).stdin(lines.join(&b'\n')).deadline(LONG).run();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let results: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(results.len(), count + 2);
    for result in &results {
        let is_bad = result["line"].as_u64().is_some_and(|line| line as usize <= count);
        assert_eq!(result["error"]["kind"] == "invalid", is_bad, "{result}");
        assert!(result["error"]["message"].as_str().is_none_or(|message| message.len() < 500), "{result}");
    }
    assert_clean(&run.stdout);
}

#[test]
fn b5_b6_what_a_model_sends_is_an_answer_or_an_error() {
    let deep = |levels: usize| Reply::call("c", "local__read_file", &format!("{{\"path\":{}", "[".repeat(levels)));
    let piece = |bytes: &[u8]| {
        let event = [&b"data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\""[..], bytes,
            b"\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"];
        Reply::Pieces(vec![event.concat()])
    };
    let nested = |levels: usize| {
        let body = format!("data: {{\"choices\":{}{}}}\n\n", "[".repeat(levels), "]".repeat(levels));
        Reply::Pieces(vec![body.into_bytes()])
    };
    let mut told = String::new();
    for (name, replies) in [
        ("128 levels", vec![deep(128), deep(128)]),
        ("100,000 levels", vec![deep(100_000), deep(100_000)]),
        ("an event of 200,000 levels", vec![nested(200_000)]),
        ("bytes that are no text", vec![piece(b"caf\xe9")]),
        ("half a character", vec![piece(b"\xf0\x9f\x98")]),
        ("a surrogate", vec![piece(b"\xed\xa0\x80")]),
        ("a lone surrogate in JSON", vec![piece(b"\\ud800")]),
        ("an overlong form", vec![piece(b"\xc0\xaf")]),
    ] {
        let provider = FakeProvider::start(replies);
        let fixture = Fixture::served_by(&provider, "[store]\nkind = \"json\"\n");
        let run = fixture.run(["run", "--session", "s", "hi"]);
        // Only display output may have replacement characters.
        let is_shown = run.code == Some(0) && run.stdout.contains('\u{fffd}');
        assert!(run.code == Some(5) || is_shown, "{name}: {run:?}");
        assert!(!run.stderr.contains("panicked") && run.stderr.lines().count() <= 4, "{name}: {run:?}");
        told.push_str(&format!("{name}: {:?} {}\n", run.code, run.stderr.lines().next().unwrap_or_default()));
        assert_eq!(fixture.run(["sessions", "show", "s"]).code, Some(0), "{name}: the session can be read");
    }
    println!("{told}");
}

#[test]
fn b6_bytes_that_are_no_text_are_refused_where_text_is_meant() {
    let fixture = home();
    let bad = OsStr::from_bytes(b"caf\xe9");
    assert_refused(&fixture.agent(["run"]).arg(bad).run(), "UTF-8");
    assert_refused(&fixture.agent(["run"]).stdin(b"caf\xe9").run(), "UTF-8");
    assert_eq!(fixture.agent(["run", "--session"]).arg(bad).arg("hi").run().code, Some(2));
    let run = fixture.agent(["run", "hi"]).env("BOB__RUNTIME__MAX_STEPS", bad).run();
    assert_refused(&run, "BOB__RUNTIME__MAX_STEPS");
    fixture.scratch.agent_toml(&format!("{}[prompt]\nbootstrap = \"${{ODD}}\"\n", fixture.scratch.read("agent.toml")));
    assert_refused(&fixture.agent(["run", "hi"]).env("ODD", bad).run(), "`ODD` is not valid UTF-8");
    // Unknown values may contain anything.
    let fine = home();
    let run = fine.agent(["run", "hi"]).env("THEIRS", bad).env("LC_NAME", bad).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{}", run.stderr);
}

#[test]
fn b6_a_file_that_is_no_text_is_said_to_be_none() {
    let provider = FakeProvider::start([
        Reply::call("c1", "local__read_file", r#"{"path":"bytes.txt"}"#),
        Reply::call("c2", "local__list_dir", r#"{"path":"."}"#),
        Reply::text("done"),
    ]);
    let fixture = Fixture::served_by(&provider, "[store]\nkind = \"json\"\n");
    fixture.scratch.write("bytes.txt", b"caf\xff\xfe\xfd\xfc");
    std::fs::write(fixture.scratch.path().join(OsStr::from_bytes(b"n\xe9.txt")), "x").expect("a file with an odd name");
    let run = fixture.run(["run", "--session", "s", "read"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let body = provider.requests().last().expect("requests").body.to_string();
    assert!(body.contains("is not a text file") && body.contains("byte 3 is not UTF-8"), "{body}");
    assert!(body.contains("bytes.txt") && body.contains("n\u{fffd}.txt"), "{body}");
}
