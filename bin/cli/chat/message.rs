//! Messages of several lines: a line that ends in a backslash continues, and so does text between two fences of three
//! quotation marks.

const FENCE: &str = "\"\"\"";

/// Whether more lines belong to this message.
pub(super) fn is_open(typed: &str) -> bool {
    match typed.trim_start().strip_prefix(FENCE) {
        Some(fenced) => !fenced.contains(FENCE),
        None => goes_on(typed),
    }
}

/// The message that was meant: without the fences, and without the backslashes at ends of lines.
pub(super) fn meant(typed: &str) -> String {
    if let Some(fenced) = typed.trim_start().strip_prefix(FENCE) {
        let (inside, after) = fenced.split_once(FENCE).unwrap_or((fenced, ""));
        let inside = inside.strip_prefix('\n').unwrap_or(inside);
        let inside = inside.strip_suffix('\n').unwrap_or(inside);
        return format!("{inside}{after}");
    }
    let mut meant = String::with_capacity(typed.len());
    for line in typed.split_inclusive('\n') {
        let body = line.strip_suffix('\n');
        match body {
            Some(body) if goes_on(body) => meant.extend([&body[..body.len() - 1], "\n"]),
            Some(_) | None => meant.push_str(line),
        }
    }
    meant
}

/// Whether a line ends in a backslash that is not itself the end of a pair.
fn goes_on(line: &str) -> bool {
    !(line.len() - line.trim_end_matches('\\').len()).is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_goes_on_and_two_do_not() {
        assert!(is_open("one\\") && !is_open("one\\\ntwo") && is_open("one\\\ntwo\\") && !is_open("C:\\dir\\\\"));
        assert_eq!(meant("one\\\ntwo\\\nthree"), "one\ntwo\nthree");
        assert_eq!(meant("C:\\dir"), "C:\\dir");
        assert_eq!(meant("pasted\nlines"), "pasted\nlines");
    }

    #[test]
    fn between_fences_everything_is_meant_as_it_is() {
        assert!(is_open("\"\"\"") && is_open("\"\"\"\none\\\n\ntwo") && !is_open("\"\"\"\none\n\"\"\""));
        assert_eq!(meant("\"\"\"\none\\\n\n  two\n\"\"\""), "one\\\n\n  two");
        assert_eq!(meant("\"\"\"short\"\"\""), "short");
        assert_eq!(meant("\"\"\"\ncode\n\"\"\" what is it?"), "code what is it?");
        assert_eq!(meant("she said \"\"\""), "she said \"\"\"");
    }
}
