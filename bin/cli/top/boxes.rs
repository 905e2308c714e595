//! Overlays: help, the processes of the store, a question, a session's last records.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use super::figures::bold;
use super::model::{Confirmable, Mode, Model};
use super::rows::clean;
use crate::control::wire::JournalEntry;

/// How wide the help is at most, columns.
const HELP_WIDTH: u16 = 72;

const KEYS: [(&str, &str); 8] = [
    ("up, down, k, j", "previous line, next line"),
    ("PgUp PgDn Home End", "scroll"),
    ("c", "cancel what runs in the selected session"),
    ("e, Enter", "the last records of the selected session"),
    ("r", "restart the selected tool server"),
    ("n", "all processes of the store, and what they counted"),
    ("/ or f", "filter by name or state; Esc shows all"),
    ("q, Ctrl-C", "quit; the process continues"),
];

const WORDS: &str = "age: time in the current state; queue: messages that wait for it. Latencies are those of the last 10 \
    to 20 s; with * since the beginning, if there were none lately. Latency queue: wait for one of \
    runtime.max_concurrent_turns. turns: inputs with an outcome.";

/// The help, wrapped to this many columns.
fn help(columns: usize) -> Vec<String> {
    let room = columns.saturating_sub(1).max(8);
    // Beside its keys what they do would have too few columns.
    let (first, rest) = if columns >= 60 { (18, " ".repeat(20)) } else { (10, "   ".to_owned()) };
    let key = |(key, does): &(&str, &str)| {
        let begin = format!(" {key:first$} ");
        let options = textwrap::Options::new(room).initial_indent(&begin).subsequent_indent(&rest);
        textwrap::wrap(does, options).into_iter().map(std::borrow::Cow::into_owned).collect::<Vec<_>>()
    };
    let options = textwrap::Options::new(room).initial_indent(" ").subsequent_indent(" ");
    let words = textwrap::wrap(WORDS, options).into_iter().map(std::borrow::Cow::into_owned);
    KEYS.iter().flat_map(key).chain([String::new()]).chain(words).collect()
}

/// How many lines a box has room for: around it something of the picture is left.
fn room(model: &Model) -> usize {
    usize::from(model.size.1.saturating_sub(4).max(1))
}

/// The width, the title and all lines of the overlay, if any, and which of them it shows first.
fn content(model: &Model) -> Option<(u16, String, Vec<String>, usize)> {
    let columns = model.size.0;
    Some(match &model.mode {
        Mode::Tree | Mode::Filter => return None,
        Mode::Help(first) => {
            let lines = help(usize::from(columns.min(HELP_WIDTH)).saturating_sub(2));
            (HELP_WIDTH, " keys ".to_owned(), lines, *first)
        }
        Mode::Nodes(first) => {
            let lines = model.seen.nodes.iter().map(|line| format!(" {line}")).collect();
            (columns.saturating_sub(4).max(84), " all processes of the store ".to_owned(), lines, *first)
        }
        Mode::Confirm(asked) => {
            let what = match asked {
                Confirmable::Cancel(session) => format!(" cancel what runs in {}?", clean(session, 48)),
                Confirmable::Restart(server) => format!(" restart the tool server {}?", clean(server, 36)),
            };
            let lines = vec![what, " y confirms, any other key goes back".to_owned()];
            (72, " confirm ".to_owned(), lines, 0)
        }
        Mode::Events { session, records, scrolled } => {
            let lines = match records {
                None => vec![" reading the session …".to_owned()],
                Some(records) => records.iter().map(|entry| record(entry, columns)).collect(),
            };
            let first = lines.len().saturating_sub(room(model)).saturating_sub(*scrolled);
            (columns.saturating_sub(4), format!(" {} ", clean(session, 60)), lines, first)
        }
    })
}

/// The first line that the overlay shows where it is scrolled to its end.
pub(super) fn last_first_line(model: &Model) -> usize {
    content(model).map_or(0, |(_, _, lines, _)| lines.len().saturating_sub(room(model)))
}

/// Draws the overlay, if any: a box in the middle, as high as its lines.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some((width, title, lines, first)) = content(model) else { return };
    let height = u16::try_from(lines.len().min(room(model)) + 2).unwrap_or(u16::MAX).min(area.height);
    let width = width.min(area.width);
    let middle = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let room = usize::from(height.saturating_sub(2));
    let first = first.min(lines.len().saturating_sub(room));
    let more = match (first, lines.len().saturating_sub(first + room)) {
        (0, 0) => String::new(),
        (0, below) => format!(" {below} more below "),
        (above, 0) => format!(" {above} more above "),
        (above, below) => format!(" {above} more above, {below} below "),
    };
    let shown: Vec<_> = lines.into_iter().skip(first).take(room).map(Line::raw).collect();
    let block = Block::bordered().title(Line::styled(title, bold())).title_bottom(more);
    frame.render_widget(Clear, middle);
    frame.render_widget(Paragraph::new(shown).block(block), middle);
}

fn record(entry: &JournalEntry, width: u16) -> String {
    let time = jiff::Timestamp::from_millisecond(entry.at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let text = clean(&entry.text, usize::from(width.saturating_sub(30)));
    format!(" {} {:<12} {text}", time.strftime("%H:%M:%S"), entry.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_loses_no_word_where_there_are_few_columns() {
        for columns in [38, 60, 70, 100] {
            let help = help(columns);
            assert!(help.iter().all(|line| line.chars().count() <= columns), "{columns}: {help:#?}");
            let said: Vec<String> = help.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
            let all = KEYS.iter().flat_map(|(key, does)| [*key, *does]).chain([WORDS]);
            let all: Vec<String> = all.flat_map(str::split_whitespace).map(str::to_owned).collect();
            assert_eq!(said, all, "{columns}");
        }
    }
}
