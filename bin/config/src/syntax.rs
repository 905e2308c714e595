//! Rewords the errors of the TOML parser.

use std::ops::Range;

use super::problem::Findings;

/// Adds the errors of the parser to the complaints: of a line the first one, which is the cause of the others. Returns
/// whether there were any. Their messages speak about characters and forms, never about values.
pub(super) fn take(text: &str, errors: &[toml::de::Error], findings: &mut Findings) -> bool {
    let mut last_line = None;
    for error in errors {
        let span = place(text, error);
        let line = line_start(text, span.start);
        if last_line == Some(line) {
            continue;
        }
        last_line = Some(line);
        let is_header = text.get(line..).is_some_and(|line| line.trim_start().starts_with('['));
        match error.message() {
            "duplicate key" if is_header => {
                let header = line + text[line..].find('[').unwrap_or_default();
                findings.add(header..span.end, "this table is opened twice");
            }
            "duplicate key" => findings.add(span, "this key is set twice"),
            message if message.contains("recurs") => findings.add(span, "nested too deeply"),
            message => findings.add(span, message.trim_end_matches(", expected nothing")),
        }
    }
    !errors.is_empty()
}

/// Where an error is. Of a key of too many parts the parser does not say it.
pub(super) fn place(text: &str, error: &toml::de::Error) -> Range<usize> {
    let many_parts = || {
        let line = text.lines().find(|line| line.matches('.').count() >= MOST_PARTS)?;
        let start = line.as_ptr().addr() - text.as_ptr().addr();
        Some(start..start + line.len())
    };
    let span = error.span().or_else(many_parts).unwrap_or_default();
    let span = if error.message() == NO_VALUE { behind_key(text, span) } else { span };
    // The parser may point at one byte of a character.
    let start = text.floor_char_boundary(span.start.min(text.len()));
    start..text.ceil_char_boundary(span.end.clamp(start, text.len()))
}

/// The parser's message for a key without a valid value.
const NO_VALUE: &str = "key with no value, expected `=`";

/// The first character of a line that belongs to no key, where that comes before this place.
fn behind_key(text: &str, span: Range<usize>) -> Range<usize> {
    let at = text.floor_char_boundary(span.start.min(text.len()));
    let start = line_start(text, at);
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || "_-. \t\"'".contains(c);
    match text[start..at].char_indices().find(|(_, character)| !is_of_key(*character)) {
        Some((offset, character)) => start + offset..start + offset + character.len_utf8(),
        None => span,
    }
}

/// The tokens that the parser accepts in a key.
const MOST_PARTS: usize = 79;

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |at| at + 1)
}
