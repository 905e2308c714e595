//! Text of others, cut to a length.

/// A text of at most so many bytes, with a mark where it was cut.
pub(super) fn clip(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes)])
}
