//! The state of `top`: updated by snapshots of the process and by keys.

use std::collections::VecDeque;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rows::{self, Kind, Row};
use crate::control::wire::{Hello, JournalEntry, Look, Request, Response};
use crate::exit::{Exit, Failure};

/// How many looks are remembered: two minutes.
const REMEMBERED: usize = 120;

/// How many records of a session are requested.
const RECORDS: usize = 100;

/// The longest filter, characters.
const LONGEST_FILTER: usize = 40;

/// How far a page goes, lines.
const PAGE: usize = 10;

/// Everything on the screen.
pub(crate) struct Model {
    /// Whose picture it is.
    pub(crate) hello: Hello,
    /// The latest snapshot.
    pub(crate) look: Option<Look>,
    /// What its store knows of all processes and messages.
    pub(crate) seen: Seen,
    /// Its tree as lines, filtered.
    pub(crate) rows: Vec<Row>,
    /// The text that lines must contain.
    pub(crate) filter: String,
    /// The overlay or input mode.
    pub(crate) mode: Mode,
    /// The result of the last action.
    pub(crate) note: String,
    /// The process has ended.
    pub(crate) is_gone: bool,
    pub(crate) is_plain: bool,
    /// Columns and lines of the screen.
    pub(crate) size: (u16, u16),
    /// The first line that the box shows where it is scrolled to its end.
    pub(crate) last_first_line: usize,
    /// Turns that ended between two looks, for each second, and memory in bytes; the newest last.
    pub(crate) past: VecDeque<Sample>,
    all: Vec<Row>,
    selected: Option<String>,
}

/// What a store knows of all processes and messages, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// In one line; `None` when that is nothing.
    pub(crate) line: Option<String>,
    /// A line for each process, and what they counted.
    pub(crate) nodes: Vec<String>,
}

/// One look in the past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    uptime_ms: u64,
    ended: u64,
    /// Turns that ended in a second, since the look before.
    pub(crate) turns_per_s: f64,
    /// Memory of the process, in bytes.
    pub(crate) rss_bytes: u64,
}

/// Meaning of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Tree,
    /// The filter is typed.
    Filter,
    /// The keys are explained, from this line on.
    Help(usize),
    /// What the store knows of all processes, from this line on.
    Nodes(usize),
    /// Whether that is meant.
    Confirm(Confirmable),
    /// A session's last records, and how many of the newest are scrolled away.
    Events {
        session: String,
        /// Its records, the oldest first; `None` while they are on their way.
        records: Option<Vec<JournalEntry>>,
        /// How many of the newest are not shown.
        scrolled: usize,
    },
}

/// An action that needs confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Confirmable {
    /// Cancel the running turn of this session.
    Cancel(String),
    /// Start this server again.
    Restart(String),
}

/// A request of a key to the owner of the terminal and the connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UserAction {
    Leave,
    /// A question to the process.
    Request(Request),
}

impl Model {
    /// A picture of nothing yet.
    pub(crate) fn new(hello: Hello, is_plain: bool) -> Self {
        let clean = |text: String| rows::clean(&text, 200);
        let hello = Hello {
            command: clean(hello.command),
            config: clean(hello.config),
            store: clean(hello.store),
            version: clean(hello.version),
            ..hello
        };
        Self {
            hello,
            look: None,
            seen: Seen::default(),
            rows: Vec::new(),
            filter: String::new(),
            mode: Mode::Tree,
            note: String::new(),
            is_gone: false,
            is_plain,
            size: (80, 24),
            last_first_line: 0,
            past: VecDeque::new(),
            all: Vec::new(),
            selected: None,
        }
    }

    /// The process was looked at.
    pub(crate) fn take(&mut self, look: Look) {
        let (uptime_ms, ended) = (look.metrics.uptime_ms, look.metrics.turns.ended());
        let before = self.past.back().copied().unwrap_or(Sample { uptime_ms, ended, turns_per_s: 0.0, rss_bytes: 0 });
        let passed_ms = uptime_ms.saturating_sub(before.uptime_ms);
        // Two responses within a moment may have one snapshot.
        if passed_ms > 0 || self.past.is_empty() {
            let more = ended.saturating_sub(before.ended);
            let turns_per_s = if passed_ms == 0 { 0.0 } else { more as f64 * 1_000.0 / passed_ms as f64 };
            let rss_bytes = look.process.rss_bytes.unwrap_or(0);
            self.past.push_back(Sample { uptime_ms, ended, turns_per_s, rss_bytes });
        }
        if self.past.len() > REMEMBERED {
            self.past.pop_front();
        }
        self.all = rows::rows(&look.tree, &look.metrics.servers);
        self.look = Some(look);
        self.sift();
    }

    /// Handles a response.
    pub(crate) fn told(&mut self, said: Result<Response, Failure>) {
        match said {
            Ok(Response::Look(look)) => self.take(*look),
            Ok(Response::Cancelled { was_running: true }) => self.note = "cancelled".to_owned(),
            Ok(Response::Cancelled { was_running: false }) => self.note = "nothing is running there".to_owned(),
            Ok(Response::Restarted) => self.note = "restarting it".to_owned(),
            Ok(Response::Records { records }) => {
                if let Mode::Events { records: shown, .. } = &mut self.mode {
                    let clean = |entry: JournalEntry| JournalEntry {
                        kind: rows::clean(&entry.kind, 40),
                        text: rows::clean(&entry.text, 400),
                        ..entry
                    };
                    *shown = Some(records.into_iter().map(clean).collect());
                }
            }
            Ok(
                Response::Hello(_) | Response::Draining { .. } | Response::Reloaded { .. } | Response::Refused { .. },
            ) => {}
            Err(failure) => {
                self.is_gone |= failure.exit == Exit::TryLater;
                self.note = rows::clean(&failure.message, 200);
                if matches!(self.mode, Mode::Events { records: None, .. }) {
                    self.mode = Mode::Tree;
                }
            }
        }
    }

    /// A key was pressed.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<UserAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(UserAction::Leave);
        }
        let last = self.last_first_line;
        match &mut self.mode {
            Mode::Tree => return self.tree_key(key.code),
            Mode::Filter => self.filter_key(key.code),
            Mode::Help(first) | Mode::Nodes(first) => match scrolled(key.code, *first, last) {
                Some(line) => *first = line,
                None => self.mode = Mode::Tree,
            },
            Mode::Confirm(asked) => {
                let asked = asked.clone();
                self.mode = Mode::Tree;
                if key.code != KeyCode::Char('y') {
                    return None;
                }
                return Some(UserAction::Request(match asked {
                    Confirmable::Cancel(session) => Request::Cancel { session },
                    Confirmable::Restart(server) => Request::RestartServer { server },
                }));
            }
            Mode::Events { scrolled: away, .. } => match scrolled(key.code, last.saturating_sub(*away), last) {
                Some(line) => *away = last - line,
                None => self.mode = Mode::Tree,
            },
        }
        None
    }

    fn tree_key(&mut self, key: KeyCode) -> Option<UserAction> {
        self.note.clear();
        let selected = self.selected().cloned();
        match (key, selected.map(|row| row.kind)) {
            (KeyCode::Char('q'), _) => return Some(UserAction::Leave),
            (KeyCode::Up | KeyCode::Char('k'), _) => self.step(|at| at.saturating_sub(1)),
            (KeyCode::Down | KeyCode::Char('j'), _) => self.step(|at| at + 1),
            (KeyCode::PageUp, _) => self.step(|at| at.saturating_sub(PAGE)),
            (KeyCode::PageDown, _) => self.step(|at| at + PAGE),
            (KeyCode::Home, _) => self.step(|_at| 0),
            (KeyCode::End, _) => self.step(|_at| usize::MAX),
            (KeyCode::Char('/' | 'f'), _) => self.mode = Mode::Filter,
            (KeyCode::Esc, _) => {
                self.filter.clear();
                self.sift();
            }
            (KeyCode::Char('?' | 'h'), _) => self.mode = Mode::Help(0),
            (KeyCode::Char('n'), _) if self.seen.nodes.is_empty() => {
                self.note = "the store knows of no other processes".to_owned();
            }
            (KeyCode::Char('n'), _) => self.mode = Mode::Nodes(0),
            (KeyCode::Char('c'), Some(Kind::Session(session))) => {
                self.mode = Mode::Confirm(Confirmable::Cancel(session));
            }
            (KeyCode::Char('r'), Some(Kind::Server(server))) => self.mode = Mode::Confirm(Confirmable::Restart(server)),
            (KeyCode::Char('e') | KeyCode::Enter, Some(Kind::Session(session))) => {
                self.mode = Mode::Events { session: session.clone(), records: None, scrolled: 0 };
                return Some(UserAction::Request(Request::Records { session, most: RECORDS }));
            }
            (KeyCode::Char('c' | 'e'), _) => self.note = "select a session for that".to_owned(),
            (KeyCode::Char('r'), _) => self.note = "select a tool server for that".to_owned(),
            _nothing_of_ours => {}
        }
        None
    }

    fn filter_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.mode = Mode::Tree,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Tree;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(typed) if self.filter.chars().count() < LONGEST_FILTER => self.filter.push(typed),
            _nothing_of_ours => {}
        }
        self.sift();
    }

    fn sift(&mut self) {
        let wanted = self.filter.to_lowercase();
        let fits = |row: &&Row| {
            wanted.is_empty() || row.path.to_lowercase().contains(&wanted) || row.state.contains(wanted.as_str())
        };
        self.rows = self.all.iter().filter(fits).cloned().collect();
    }

    /// The selected line; the first one if the selected one is gone.
    pub(crate) fn at(&self) -> usize {
        let selected = self.selected.as_ref();
        selected.and_then(|path| self.rows.iter().position(|row| row.path == *path)).unwrap_or(0)
    }

    /// The line that is selected.
    pub(crate) fn selected(&self) -> Option<&Row> {
        self.rows.get(self.at())
    }

    fn step(&mut self, to: impl FnOnce(usize) -> usize) {
        let last = self.rows.len().saturating_sub(1);
        self.selected = self.rows.get(to(self.at()).min(last)).map(|row| row.path.clone());
    }
}

/// The first line that a box shows after this key, between none and the last one; `None` if the key does not scroll.
fn scrolled(key: KeyCode, first: usize, last: usize) -> Option<usize> {
    let first = first.min(last);
    let to = match key {
        KeyCode::Up | KeyCode::Char('k') => first.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => first + 1,
        KeyCode::PageUp => first.saturating_sub(PAGE),
        KeyCode::PageDown => first + PAGE,
        KeyCode::Home => 0,
        KeyCode::End => last,
        _another => return None,
    };
    Some(to.min(last))
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
