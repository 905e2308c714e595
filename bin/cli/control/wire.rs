//! The control protocol: one JSON object a line, and one response for each request.
//!
//! A connection begins with a greeting. A [`RequestLine`] has a number chosen by the client, which its response
//! repeats. Both sides ignore unknown keys; a request of another version is refused.

use bob::health::{MetricsSnapshot, NodeState};
use serde::{Deserialize, Serialize};

pub(crate) const VERSION: u32 = 1;

/// The longest line a process takes, bytes.
pub(crate) const LONGEST_REQUEST: usize = 64 * 1024;

/// The longest line a client takes, bytes.
pub(crate) const LONGEST_RESPONSE: usize = 16 * 1024 * 1024;

/// The most records of a session in one response.
pub(crate) const MOST_RECORDS: usize = 200;

/// A line to the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestLine {
    pub(crate) v: u32,
    /// Repeated by the answer.
    pub(crate) id: u64,
    pub(crate) ask: Request,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Request {
    Look,
    Cancel {
        session: String,
    },
    /// Begin no new turn, let those that run end, then end.
    Drain,
    RestartServer {
        server: String,
    },
    ReloadServers,
    Records {
        session: String,
        /// How many at most, up to [`MOST_RECORDS`].
        most: usize,
    },
}

/// A line from the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResponseLine {
    pub(crate) v: u32,
    /// The number of the request; 0 for unsolicited messages.
    pub(crate) id: u64,
    pub(crate) answer: Response,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Response {
    Hello(Hello),
    Look(Box<Look>),
    Cancelled {
        was_running: bool,
    },
    Draining {
        running: usize,
        /// Queued inputs.
        waiting: usize,
    },
    /// To [`Request::RestartServer`]; the new start is not waited for.
    Restarted,
    Reloaded {
        started: Vec<String>,
        changed: Vec<String>,
        stopped: Vec<String>,
        /// Those that were left alone.
        kept: Vec<String>,
    },
    /// To [`Request::Records`], the oldest first.
    Records {
        records: Vec<JournalEntry>,
    },
    Refused {
        /// The kind: `invalid`, `version`, `too_long`, `busy`, `not_found`, `not_allowed`, `failed`.
        kind: String,
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: String,
    pub(crate) pid: u32,
    /// Its command: `chat`, `batch`, `run`.
    pub(crate) command: String,
    /// The configuration it read, absolute.
    pub(crate) config: String,
    /// The store it keeps sessions in, absolute, or `memory`.
    pub(crate) store: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Look {
    /// The live tree; of the sessions the first 1,000, those whose turns run before the others.
    pub(crate) tree: Vec<NodeState>,
    pub(crate) metrics: MetricsSnapshot,
    pub(crate) process: ProcessFigures,
    pub(crate) is_draining: bool,
}

/// Resource usage of a process; fields are `None` if unavailable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessFigures {
    /// Memory it holds, in bytes.
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) files: Option<u64>,
    pub(crate) children: Vec<ChildFigures>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildFigures {
    pub(crate) pid: u32,
    /// Its name, as the system has it.
    pub(crate) name: String,
    /// One letter, as `ps` has it: `Z` is a zombie.
    pub(crate) state: char,
    /// Memory it holds, in bytes.
    pub(crate) rss_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JournalEntry {
    /// When it was made, in milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Request {
    /// The question as a line, without its end.
    pub(crate) fn line(self, id: u64) -> String {
        crate::terminal::print::json_text(&RequestLine { v: VERSION, id, ask: self })
    }
}

impl Response {
    pub(crate) fn refused(kind: &str, message: impl Into<String>) -> Self {
        Self::Refused { kind: kind.to_owned(), message: message.into() }
    }

    /// The answer as a line, without its end.
    pub(crate) fn line(self, id: u64) -> String {
        crate::terminal::print::json_text(&ResponseLine { v: VERSION, id, answer: self })
    }
}
