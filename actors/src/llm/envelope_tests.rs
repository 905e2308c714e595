//! What is shown of an envelope is its content, whole, and only a final one's.

use super::*;

fn shown(pieces: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut envelope = GrowingEnvelope::default();
    let mut all = String::new();
    for piece in pieces {
        all.extend(envelope.push(piece.as_ref()));
    }
    all.extend(envelope.finish());
    all
}

/// Escapes, a surrogate pair, letters of several bytes, and braces that are only text.
const CONTENT: &str = "a \"quoted\" line\n\ttab \\ 🦀 grüße {\"type\":1} ``` end";

#[test]
fn the_content_is_shown_wherever_the_pieces_end() {
    let escaped = serde_json::json!({"type": "final", "content": CONTENT}).to_string().replace('🦀', "\\ud83e\\udd80");
    for size in 1..escaped.len() {
        let letters: Vec<char> = escaped.chars().collect();
        let pieces: Vec<String> = letters.chunks(size).map(|piece| piece.iter().collect()).collect();
        assert_eq!(shown(pieces), CONTENT, "in pieces of {size}");
    }
}

#[test]
fn a_fence_around_the_envelope_is_not_shown() {
    assert_eq!(shown(["```json\n{\"type\":\"final\",", "\"content\":\"hi\"}\n", "```"]), "hi");
}

#[test]
fn nothing_is_shown_of_a_call_or_a_question_or_of_other_text() {
    for text in [
        r#"{"type":"tool_call","name":"local/read","arguments":{"content":"secret"}}"#,
        r#"{"type":"ask_user","question":"which?","content":"x"}"#,
        r#"{"content":"no type yet"#,
        r#"{"content":"no type at all"}"#,
        "Sure! {\"type\":\"final\",\"content\":\"hi\"}",
        "plain words",
        "[1, 2]",
    ] {
        assert_eq!(shown(text.chars().map(String::from)), "", "{text}");
    }
}

#[test]
fn content_before_the_type_waits_for_it() {
    let mut envelope = GrowingEnvelope::default();
    assert_eq!(envelope.push(r#"{"content":"hello","#), None);
    assert_eq!(envelope.push(r#""type":"final"}"#).as_deref(), Some("hello"));
    assert_eq!(envelope.finish(), None);
}

#[test]
fn a_long_envelope_in_small_pieces_is_read_a_bounded_number_of_times() {
    let content = "x".repeat(256 * 1024);
    let text = serde_json::json!({"type": "final", "content": content}).to_string();
    let mut envelope = GrowingEnvelope::default();
    let mut readings = 0;
    let mut all = String::new();
    for piece in text.as_bytes().chunks(4) {
        let before = envelope.next;
        all.extend(envelope.push(std::str::from_utf8(piece).unwrap()));
        readings += usize::from(envelope.next != before);
    }
    all.extend(envelope.finish());
    assert_eq!(all, content);
    assert!(readings < 1_000, "{readings} readings of {} pieces", text.len() / 4);
}

#[test]
fn the_content_is_shown_as_far_as_it_has_come() {
    let escaped = serde_json::json!({"type": "final", "n": [{"a": "]"}], "content": CONTENT, "rest": {"x": 1}});
    let escaped = escaped.to_string().replace('🦀', "\\ud83e\\udd80");
    let (mut seen, mut last) = (0, String::new());
    for end in (0..=escaped.len()).filter(|end| escaped.is_char_boundary(*end)) {
        let mut envelope = GrowingEnvelope { text: escaped[..end].to_owned(), ..GrowingEnvelope::default() };
        let now = envelope.finish().unwrap_or_default();
        assert!(CONTENT.starts_with(&now) && now.len() >= last.len(), "{now:?} of {:?}", &escaped[..end]);
        seen += usize::from(now.len() > last.len());
        last = now;
    }
    assert_eq!((last.as_str(), seen), (CONTENT, CONTENT.chars().count()));
}
