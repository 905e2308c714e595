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

/// Draws the overlay, if any.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    match &model.mode {
        Mode::Tree | Mode::Filter => {}
        Mode::Help => {
            let columns = usize::from(area.width.min(HELP_WIDTH)).saturating_sub(2);
            show(frame, area, HELP_WIDTH, " keys ".to_owned(), help(columns).into_iter().map(Line::raw).collect());
        }
        Mode::Nodes => {
            let lines = model.seen.nodes.iter().map(|line| Line::raw(format!(" {line}"))).collect();
            show(frame, area, area.width.saturating_sub(4).max(84), " all processes of the store ".to_owned(), lines);
        }
        Mode::Confirm(asked) => {
            let what = match asked {
                Confirmable::Cancel(session) => format!(" cancel what runs in {}?", clean(session, 48)),
                Confirmable::Restart(server) => format!(" restart the tool server {}?", clean(server, 36)),
            };
            let lines = vec![Line::raw(what), Line::raw(" y confirms, any other key goes back")];
            show(frame, area, 72, " confirm ".to_owned(), lines);
        }
        Mode::Events { session, records, scrolled } => {
            let title = format!(" {} ", clean(session, 60));
            let room = usize::from(area.height.saturating_sub(4));
            let lines = match records {
                None => vec![Line::raw(" reading the session …")],
                Some(records) => {
                    let last = records.len().saturating_sub(*scrolled);
                    records[last.saturating_sub(room)..last].iter().map(|entry| record(entry, area.width)).collect()
                }
            };
            show(frame, area, area.width.saturating_sub(4), title, lines);
        }
    }
}

fn record(entry: &JournalEntry, width: u16) -> Line<'static> {
    let time = jiff::Timestamp::from_millisecond(entry.at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let text = clean(&entry.text, usize::from(width.saturating_sub(30)));
    Line::raw(format!(" {} {:<12} {text}", time.strftime("%H:%M:%S"), entry.kind))
}

/// A box in the middle, as high as its lines.
fn show(frame: &mut Frame<'_>, area: Rect, width: u16, title: String, lines: Vec<Line<'static>>) {
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).min(area.height);
    let width = width.min(area.width);
    let middle = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, middle);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(Line::styled(title, bold()))), middle);
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
