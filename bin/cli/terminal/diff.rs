//! Changes of files as unified differences, in the form of `diff -u`.
//!
//! Text of files is foreign: each line is cleaned before it is coloured.

use std::time::Duration;

use anstyle::AnsiColor;
use bob::tools::FileChange;
use bob_config::sanitise;
use similar::{ChangeTag, TextDiff};

use crate::terminal::screen::look::{Look, cut};

/// How long the smallest difference is looked for; after that a larger one is shown.
const LOOKED_FOR: Duration = Duration::from_millis(200);

/// How many lines around a change are shown.
const CONTEXT: usize = 3;

/// How many changed lines of one call are shown in the transcript.
const MOST_BESIDE: usize = 16;

/// Two texts compared line by line, in a bounded time: a model may replace a large file by another one.
pub(crate) fn difference<'t>(before: &'t str, after: &'t str) -> TextDiff<'t, 't, str> {
    TextDiff::configure().timeout(LOOKED_FOR).diff_lines(before, after)
}

pub(crate) fn unified(file: &FileChange) -> String {
    let FileChange { path, is_rough, .. } = file;
    if *is_rough {
        let text = format!("{path} changed; what it held before is not shown: not text, or over 1 MiB\n");
        return sanitise::clean(&text).into_owned();
    }
    sanitise::clean(&raw(file)).into_owned()
}

/// The difference of two texts of a file, which may hold anything.
pub(crate) fn raw(file: &FileChange) -> String {
    let FileChange { path, before, after, .. } = file;
    let name = |side: char, text: &Option<String>| match text {
        Some(_) => format!("{side}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let diff = difference(before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
    let (a, b) = (name('a', before), name('b', after));
    diff.unified_diff().context_radius(CONTEXT).header(&a, &b).to_string()
}

/// A difference with its colours, where they are wanted. It was cleaned before.
pub(crate) fn coloured(diff: &str, look: Look) -> String {
    let style = |line: &str| match line {
        _ if line.starts_with("+++") || line.starts_with("---") => look.dimmed(),
        _ if line.starts_with("@@") => look.coloured(AnsiColor::Cyan),
        _ if line.starts_with('+') => look.coloured(AnsiColor::Green),
        _ if line.starts_with('-') => look.coloured(AnsiColor::Red),
        _ => anstyle::Style::new(),
    };
    diff.lines().map(|line| (style(line), line)).map(|(style, line)| format!("{style}{line}{style:#}\n")).collect()
}

/// A line of [`beside`], cleaned, cut to the terminal and coloured.
pub(crate) fn line(line: &str, look: Look) -> String {
    let style = match line.trim_start().chars().next() {
        Some('+') => look.coloured(AnsiColor::Green),
        Some('-') => look.coloured(AnsiColor::Red),
        _ => look.dimmed(),
    };
    format!("{style}{}{style:#}\n", cut(&sanitise::clean(line), look.columns))
}

/// What a call changed, in a few lines for the transcript: each file with its counts, and the first changed lines.
pub(crate) fn beside(changes: &[FileChange]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = MOST_BESIDE;
    for file in changes {
        if file.is_rough {
            lines.push(format!("  {}: replaced, and not shown", file.path));
            continue;
        }
        let (before, after) = (file.before.as_deref().unwrap_or_default(), file.after.as_deref().unwrap_or_default());
        if before.contains('\0') || after.contains('\0') {
            lines.push(format!("  {}: binary, {} bytes", file.path, after.len()));
            continue;
        }
        let diff = difference(before, after);
        let changed: Vec<String> = diff
            .iter_all_changes()
            .filter_map(|change| {
                let sign = match change.tag() {
                    ChangeTag::Insert => '+',
                    ChangeTag::Delete => '-',
                    ChangeTag::Equal => return None,
                };
                Some(format!("  {sign} {}", change.value().trim_end_matches(['\r', '\n'])))
            })
            .collect();
        let count = |sign: &str| changed.iter().filter(|line| line[2..].starts_with(sign)).count();
        let what = match (&file.before, &file.after) {
            (None, _) => "new, ",
            (_, None) => "deleted, ",
            (Some(_), Some(_)) => "",
        };
        lines.push(format!("  {}: {what}+{} -{}", file.path, count("+"), count("-")));
        let shown = changed.len().min(left);
        let more = changed.len() - shown;
        left -= shown;
        lines.extend(changed.into_iter().take(shown));
        if more > 0 {
            lines.push(format!("  [{more} more changed lines; /diff shows all]"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: Option<&str>, after: Option<&str>) -> FileChange {
        let text = |text: Option<&str>| text.map(str::to_owned);
        FileChange { path: "src/a.rs".to_owned(), before: text(before), after: text(after), ..FileChange::default() }
    }

    #[test]
    fn a_difference_is_that_of_diff_u() {
        let file = change(Some("one\ntwo\nthree\n"), Some("one\n2\nthree\n"));
        let expected = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
        assert_eq!(unified(&file), expected);
        assert_eq!(unified(&change(None, Some("x\n"))), "--- /dev/null\n+++ b/src/a.rs\n@@ -0,0 +1 @@\n+x\n");
        let coloured = coloured(expected, Look { columns: 80, colour: true });
        assert!(
            coloured.contains("\u{1b}[31m-two\u{1b}[0m") && coloured.contains("\u{1b}[32m+2\u{1b}[0m"),
            "{coloured:?}"
        );
    }

    #[test]
    fn of_large_files_without_a_line_in_common_all_lines_are_told() {
        let text = |from: u32| (from..from + 60_000).map(|number| format!("{number}\n")).collect::<String>();
        let file = change(Some(&text(0)), Some(&text(1_000_000)));
        let diff = unified(&file);
        let count = |sign: char| diff.lines().skip(2).filter(|line| line.starts_with(sign)).count();
        assert_eq!((count('-'), count('+')), (60_000, 60_000));
        assert_eq!(beside(&[file])[0], "  src/a.rs: +60000 -60000");
    }

    #[test]
    fn what_is_in_a_file_steers_no_terminal() {
        let file = change(Some(""), Some("\u{1b}[2Jgone\n"));
        assert!(!unified(&file).contains('\u{1b}'));
    }

    #[test]
    fn the_transcript_has_the_counts_and_the_first_lines() {
        let file = change(Some("one\ntwo\n"), Some("one\n2\n"));
        assert_eq!(beside(&[file]), ["  src/a.rs: +1 -1", "  - two", "  + 2"]);
        let many: String = (0..30).map(|number| format!("{number}\n")).collect();
        let lines = beside(&[change(None, Some(&many)), change(Some("x\n"), Some("y\n"))]);
        assert_eq!(lines[0], "  src/a.rs: new, +30 -0");
        assert_eq!(lines[1 + MOST_BESIDE], "  [14 more changed lines; /diff shows all]");
        assert_eq!(lines[2 + MOST_BESIDE..], ["  src/a.rs: +1 -1", "  [2 more changed lines; /diff shows all]"]);
    }
}
