//! What is said over a control socket: one JSON object a line, and one answer for each question.
//!
//! Whoever connects is greeted first. An [`Ask`] carries a number of the asker's choice, which its answer repeats. Both
//! sides ignore keys they do not know; a question of another version is refused.

use bob::{MetricsSnapshot, NodeState};
use serde::{Deserialize, Serialize};

/// The version of all of this.
pub(crate) const VERSION: u32 = 1;

/// The longest line a process takes, bytes.
pub(crate) const LONGEST_QUESTION: usize = 64 * 1024;

/// The longest line a client takes, bytes.
pub(crate) const LONGEST_ANSWER: usize = 16 * 1024 * 1024;

/// The most records of a session that are told at once.
pub(crate) const MOST_RECORDS: usize = 200;

/// A line to the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ask {
    /// [`VERSION`].
    pub(crate) v: u32,
    /// Repeated by the answer.
    pub(crate) id: u64,
    /// The question.
    pub(crate) ask: Question,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Question {
    /// How is everybody?
    Look,
    /// Cancel what runs in this session.
    Cancel {
        /// The session.
        session: String,
    },
    /// Begin no new turn, let those that run end, then end.
    Drain,
    /// Start a tool server again.
    RestartServer {
        /// The server.
        server: String,
    },
    /// Read the tool servers from the configuration again.
    ReloadServers,
    /// The last records of a session's journal.
    Records {
        /// The session.
        session: String,
        /// At most so many, and never more than [`MOST_RECORDS`].
        most: usize,
    },
}

/// A line from the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// [`VERSION`].
    pub(crate) v: u32,
    /// The number of the question; 0 for what was not asked.
    pub(crate) id: u64,
    /// What is said.
    pub(crate) answer: Said,
}

/// What can be answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Said {
    /// The greeting.
    Hello(Hello),
    /// To [`Question::Look`].
    Look(Box<Look>),
    /// To [`Question::Cancel`].
    Cancelled {
        /// Whether something ran.
        was_running: bool,
    },
    /// To [`Question::Drain`].
    Draining {
        /// Turns that run.
        running: usize,
        /// Inputs that wait at the door.
        waiting: usize,
    },
    /// To [`Question::RestartServer`]; the new start is not waited for.
    Restarted,
    /// To [`Question::ReloadServers`].
    Reloaded {
        /// New ones.
        started: Vec<String>,
        /// Those that changed.
        changed: Vec<String>,
        /// Those that left.
        stopped: Vec<String>,
        /// Those that were left alone.
        kept: Vec<String>,
    },
    /// To [`Question::Records`], the oldest first.
    Records {
        /// The records.
        records: Vec<Entry>,
    },
    /// It was not done.
    Refused {
        /// In one word: `invalid`, `version`, `too_long`, `busy`, `not_found`, `not_allowed`, `failed`.
        kind: String,
        /// Why, for people.
        message: String,
    },
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The program's version.
    pub(crate) version: String,
    /// The process.
    pub(crate) pid: u32,
    /// What it does: `chat`, `batch`, `run`.
    pub(crate) command: String,
    /// The configuration it read, absolute.
    pub(crate) config: String,
    /// The store it keeps sessions in, absolute, or `memory`.
    pub(crate) store: String,
}

/// How everybody is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Look {
    /// The live tree; of the sessions the first 1,000, those whose turns run before the others.
    pub(crate) tree: Vec<NodeState>,
    /// What was counted.
    pub(crate) metrics: MetricsSnapshot,
    /// The process itself.
    pub(crate) process: ProcessFigures,
    /// Whether it was asked to drain.
    pub(crate) is_draining: bool,
}

/// What the system knows of a process; `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessFigures {
    /// Memory it holds, in bytes.
    pub(crate) rss_bytes: Option<u64>,
    /// Its threads.
    pub(crate) threads: Option<u64>,
    /// Its open files.
    pub(crate) files: Option<u64>,
    /// Its children.
    pub(crate) children: Vec<ChildFigures>,
}

/// A child process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildFigures {
    /// Its number.
    pub(crate) pid: u32,
    /// Its name, as the system has it.
    pub(crate) name: String,
    /// One letter, as `ps` has it: `Z` is a zombie.
    pub(crate) state: char,
    /// Memory it holds, in bytes.
    pub(crate) rss_bytes: u64,
}

/// A record of a journal, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// When it was made, in milliseconds since 1970.
    pub(crate) at: i64,
    /// What kind of fact.
    pub(crate) kind: String,
    /// What it says, cut.
    pub(crate) text: String,
}

impl Question {
    /// The question as a line, without its end.
    pub(crate) fn line(self, id: u64) -> String {
        crate::terminal::print::json_text(&Ask { v: VERSION, id, ask: self })
    }
}

impl Said {
    /// A refusal.
    pub(crate) fn refused(kind: &str, message: impl Into<String>) -> Self {
        Self::Refused { kind: kind.to_owned(), message: message.into() }
    }

    /// The answer as a line, without its end.
    pub(crate) fn line(self, id: u64) -> String {
        crate::terminal::print::json_text(&Answer { v: VERSION, id, answer: self })
    }
}
