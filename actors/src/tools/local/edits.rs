//! What edits make of a text: all of them, or an error that says what to do.
//!
//! Pure. Line endings do not matter for finding a text, and are kept: what is put there gets the ending of the lines it
//! replaces, else the one that most lines of the file have.

use schemars::JsonSchema;
use serde::Deserialize;
use std::borrow::Cow;

const MAX_TOLD: usize = 8;
/// The longest text, in lines, that is looked for with other white space.
const MAX_LIKE_LINES: usize = 100;

/// One edit of a text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// Text to replace; it must be in the file once
    pub(super) old: String,
    /// Text to put there
    pub(super) new: String,
    /// Replace it wherever it is
    #[serde(default)]
    pub(super) replace_all: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edited {
    pub(super) text: String,
    pub(super) count: usize,
    /// The lines of the first of them, in order.
    pub(super) lines: Vec<usize>,
}

/// Makes the edits one after the other, each in the text that the one before has made.
/// Errors: when one cannot be made, for the model: then none is.
pub(super) fn apply(before: &str, edits: &[Edit]) -> Result<Edited, String> {
    let mut text = before.to_owned();
    let (mut count, mut places) = (0, Vec::new());
    for (number, edit) in edits.iter().enumerate() {
        let which = if edits.len() == 1 { String::new() } else { format!("edit {} of {}: ", number + 1, edits.len()) };
        let spans = spans(&text, edit).map_err(|reason| {
            let is_gone = number > 0 && spans(before, edit).is_ok();
            let reason = if is_gone { "an edit before it changed the text in `old`".to_owned() } else { reason };
            format!("{which}{reason}; nothing was changed")
        })?;
        count += spans.len();
        text = replaced(&text, &spans, &mut places);
    }
    places.sort_unstable();
    places.truncate(MAX_TOLD);
    let mut lines: Vec<_> = places.into_iter().map(|at| line_of(&text, at)).collect();
    lines.dedup();
    Ok(Edited { text, count, lines })
}

struct Span {
    from: usize,
    to: usize,
    new: String,
}

fn replaced(text: &str, spans: &[Span], places: &mut Vec<usize>) -> String {
    let mut result = String::with_capacity(text.len());
    let (mut copied, mut made) = (0, Vec::new());
    for Span { from, to, new } in spans {
        result.push_str(&text[copied..*from]);
        if made.len() < MAX_TOLD {
            made.push(result.len());
        }
        result.push_str(new);
        copied = *to;
    }
    result.push_str(&text[copied..]);
    // What was replaced before stands elsewhere now.
    for place in places.iter_mut() {
        let moved = spans.iter().take_while(|span| span.to <= *place);
        let (grown, shrunk) =
            moved.fold((0, 0), |(grown, shrunk), span| (grown + span.new.len(), shrunk + span.to - span.from));
        *place = (*place + grown).saturating_sub(shrunk).min(result.len());
    }
    places.extend(made);
    result
}

/// A text in which every line ends in a line feed alone.
struct Unix<'a> {
    text: Cow<'a, str>,
    /// Where a line feed is that had a carriage return before it.
    returns: Vec<usize>,
}

impl<'a> Unix<'a> {
    fn new(text: &'a str) -> Self {
        let returns: Vec<_> = text.match_indices("\r\n").enumerate().map(|(before, (at, _))| at - before).collect();
        let text = if returns.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(text.replace("\r\n", "\n")) };
        Self { text, returns }
    }

    /// Where a position is in the text itself: before the carriage return, when there is one.
    fn original(&self, at: usize) -> usize {
        at + self.returns.partition_point(|line_feed| *line_feed < at)
    }
}

fn spans(text: &str, edit: &Edit) -> Result<Vec<Span>, String> {
    let unix = Unix::new(text);
    let (old, new) = (edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n"));
    if old.is_empty() {
        return Err("`old` is empty; give the text to replace, or write the whole file".to_owned());
    }
    if old == new {
        return Err("`old` and `new` are the same".to_owned());
    }
    let starts: Vec<usize> = match edit.replace_all {
        true => unix.text.match_indices(&old).map(|(at, _)| at).collect(),
        false => overlapping(&unix.text, &old),
    };
    match starts.as_slice() {
        [] => return Err(not_found(&unix.text, &old)),
        [_] => {}
        _ if edit.replace_all => {}
        many => return Err(found_often(&unix.text, many)),
    }
    let (feeds, returns) = (unix.text.matches('\n').count(), unix.returns.len());
    let spans = starts.into_iter().map(|start| {
        let (from, to) = (unix.original(start), unix.original(start + old.len()));
        let new = match (text[from..to].contains("\r\n"), text[from..to].contains('\n')) {
            _ if feeds == 0 => edit.new.clone(),
            (true, _) => new.replace('\n', "\r\n"),
            (false, true) => new.clone(),
            (false, false) if 2 * returns > feeds => new.replace('\n', "\r\n"),
            (false, false) => new.clone(),
        };
        Span { from, to, new }
    });
    Ok(spans.collect())
}

/// Where a text is; places that overlap count each.
fn overlapping(text: &str, wanted: &str) -> Vec<usize> {
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let next = |from: usize| text[from..].find(wanted).map(|at| from + at);
    std::iter::successors(next(0), |at| next(at + step)).collect()
}

fn found_often(text: &str, starts: &[usize]) -> String {
    let lines: Vec<_> = starts.iter().take(MAX_TOLD).map(|at| line_of(text, *at).to_string()).collect();
    let more = if starts.len() > MAX_TOLD { " and more" } else { "" };
    format!(
        "the text in `old` is there {} times, at lines {}{more}; add lines around it until it is there once, or set \
         `replace_all`",
        starts.len(),
        lines.join(", ")
    )
}

/// What is wrong with a text that is not there, as far as it can be told.
fn not_found(text: &str, old: &str) -> String {
    let bare: Option<Vec<_>> = old.lines().map(without_number).collect();
    if bare.is_some_and(|lines| text.contains(&lines.join("\n"))) {
        return "the text in `old` has the line numbers that read_file shows; leave them out".to_owned();
    }
    let wanted: Vec<_> = old.trim().lines().map(str::trim).collect();
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    if let Some(first) = wanted.first().filter(|_| wanted.len() <= MAX_LIKE_LINES) {
        if let Some(at) = lines.windows(wanted.len()).position(|lines| lines == wanted) {
            return format!("the text in `old` is not there, but with other white space at line {}; copy it", at + 1);
        }
        if let Some(at) = lines.iter().position(|line| line == first).filter(|_| wanted.len() > 1) {
            return format!(
                "the text in `old` is not there; its first line is line {}, and what follows is different; read it \
                 again",
                at + 1
            );
        }
    }
    "the text in `old` is not there; read the file again".to_owned()
}

/// A line of `read_file` without its number.
fn without_number(line: &str) -> Option<&str> {
    let (number, line) = line.split_once('\t')?;
    let is_number = !number.is_empty() && number.trim_start().bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(line)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
#[path = "edits_tests.rs"]
mod tests;
