//! What lies over the picture for a moment: help, a question, a session's last records.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use super::figures::bold;
use super::model::{Mode, Model, Serious};
use super::rows::clean;
use crate::control::wire::Entry;

const HELP: &str = "\
 up, down, k, j     the line before, the next one
 PgUp PgDn Home End further
 c                  cancel what runs in the selected session
 e, Enter           the last records of the selected session
 r                  start the selected tool server again
 / or f             show only names and states with this; Esc: all
 q, Ctrl-C          leave; the process goes on

 age: how long it has been in its state; queue: what waits for it.
 Latencies are those of the last 10 to 20 s; with * since the
 beginning, when there were none lately. door: the wait for a place
 among runtime.max_concurrent_turns. turns: inputs with an outcome.";

/// Draws what lies over the picture, if anything does.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    match &model.mode {
        Mode::Tree | Mode::Filter => {}
        Mode::Help => {
            let lines = HELP.lines().map(Line::raw).collect();
            show(frame, area, 72, " keys ".to_owned(), lines);
        }
        Mode::Confirm(asked) => {
            let what = match asked {
                Serious::Cancel(session) => format!(" cancel what runs in {}?", clean(session, 48)),
                Serious::Restart(server) => format!(" start the tool server {} again?", clean(server, 36)),
            };
            let lines = vec![Line::raw(what), Line::raw(" y does it, any other key does not")];
            show(frame, area, 72, " sure? ".to_owned(), lines);
        }
        Mode::Events { session, records, scrolled } => {
            let title = format!(" {} ", clean(session, 60));
            let room = usize::from(area.height.saturating_sub(4));
            let lines = match records {
                None => vec![Line::raw(" its journal is read …")],
                Some(records) => {
                    let last = records.len().saturating_sub(*scrolled);
                    records[last.saturating_sub(room)..last].iter().map(|entry| record(entry, area.width)).collect()
                }
            };
            show(frame, area, area.width.saturating_sub(4), title, lines);
        }
    }
}

fn record(entry: &Entry, width: u16) -> Line<'static> {
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
