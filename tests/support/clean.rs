//! Characters allowed in output: text, newlines and tabs.

/// Fails if the text contains a character that controls a terminal or changes the text direction: C0 controls other
/// than newline and tab, DEL, C1 controls, and bidirectional controls. The message has the character and its
/// position.
#[track_caller]
pub(crate) fn assert_clean(text: &str) {
    if let Some((at, letter)) = text.char_indices().find(|(_, letter)| steers(*letter)) {
        let around: String = text[..at].chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
        panic!("control character U+{:04X} at byte {at}, after {around:?}", u32::from(letter));
    }
}

fn steers(letter: char) -> bool {
    let control = letter.is_control() && !matches!(letter, '\n' | '\t');
    let bidi =
        matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    control || bidi
}
