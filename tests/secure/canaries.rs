//! Finds leaked secrets in any encoding.

use std::fs;
use std::path::Path;

/// The beginning that all canaries share. No spelling of a text changes it but those below.
pub(crate) const CORE: &str = "sk-cAnAry";

/// The canary of this number, with characters that every spelling writes differently.
pub(crate) fn canary(number: usize) -> String {
    format!("{CORE}{number}\"/+%q")
}

/// A text in base64, without characters that depend on adjacent bytes.
fn base64(text: &[u8], before: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let padded = [&vec![0; before], text].concat();
    let whole = &padded[..padded.len() / 3 * 3];
    let letters = whole.chunks(3).flat_map(|three| {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(LETTERS[bits >> shift & 63]))
    });
    letters.skip(if before == 0 { 0 } else { before + 1 }).collect()
}

/// Every spelling in which a canary's beginning is looked for, in lower case where case means nothing.
pub(crate) fn spellings() -> Vec<String> {
    let bytes = CORE.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
    let escaped: String = bytes.iter().map(|byte| format!("\\u{byte:04x}")).collect();
    let list = format!("{bytes:?}");
    let numbers = list.trim_matches(['[', ']']).to_owned();
    let reversed: String = CORE.chars().rev().collect();
    let plain = [CORE.to_owned(), CORE.replace('-', "%2d"), hex, percent, escaped, numbers, reversed];
    let plain = plain.into_iter().map(|spelling| spelling.to_lowercase());
    plain.chain((0..3).map(|before| base64(bytes, before))).collect()
}

/// The first canary in a text: its encoding, and its context.
fn found_in(text: &[u8]) -> Option<(String, String)> {
    let exact = String::from_utf8_lossy(text);
    let lowered = exact.to_lowercase();
    spellings().into_iter().find_map(|spelling| {
        let at = lowered.find(&spelling).or_else(|| exact.find(&spelling))?;
        let from = exact.floor_char_boundary(at.saturating_sub(120).min(exact.len()));
        let to = exact.ceil_char_boundary((at + 60).min(exact.len()));
        Some((spelling, exact[from..to].to_owned()))
    })
}

/// Fails when a text holds a canary.
#[track_caller]
pub(crate) fn assert_no_canary(what: &str, text: &[u8]) {
    if let Some((spelling, around)) = found_in(text) {
        panic!("{what}: a canary as {spelling:?} in …{around:?}…");
    }
}

/// Every file below a folder, with its content.
pub(crate) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() => {
                    let content = fs::read(&path).unwrap_or_default();
                    found.push((path.display().to_string(), content));
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn g3_a_canary_is_found_in_every_spelling() {
    let core = CORE.as_bytes();
    let told = |text: &str| found_in(text.as_bytes()).is_some();
    for (before, after) in [("", ""), ("a", "b"), ("ab", "c"), ("abc", "de"), ("Bearer ", "\"/+%q")] {
        let text = format!("{before}{CORE}{after}");
        let whole = base64(&[text.as_bytes(), &[0; 3]].concat(), 0);
        assert!(told(&format!("x{whole}x")), "{text} as {whole}");
        assert!(told(&text) && told(&text.to_uppercase()) && told(&format!("{text:?}")), "{text}");
    }
    assert!(told(&format!("{core:?}")) && told(&core.iter().map(|byte| format!("%{byte:02X}")).collect::<String>()));
    assert!(!told("nothing of the kind, sk-canister"));
}
