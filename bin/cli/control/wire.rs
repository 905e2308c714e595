//! The control protocol: one JSON object a line, and one response for each request.
//!
//! A connection begins with a greeting. A [`RequestLine`] has a number chosen by the client, which its response
//! repeats. Both sides ignore unknown keys; a request of another version is refused.

use bob::health::{MetricsSnapshot, NodeState};
use serde::{Deserialize, Serialize};

/// The version of all of this.
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

/// Requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Request {
    Look,
    /// Cancel the running turn of this session.
    Cancel {
        session: String,
    },
    /// Begin no new turn, let those that run end, then end.
    Drain,
    /// Start a tool server again.
    RestartServer {
        server: String,
    },
    /// Read the tool servers from the configuration again.
    ReloadServers,
    /// The last records of a session's journal.
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

/// Responses.
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
    /// It was not done.
    Refused {
        /// The kind: `invalid`, `version`, `too_long`, `busy`, `not_found`, `not_allowed`, `failed`.
        kind: String,
        message: String,
    },
}

/// Description of a process.
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

/// A snapshot of the actor tree and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Look {
    /// The live tree; of the sessions the first 1,000, those whose turns run before the others.
    pub(crate) tree: Vec<NodeState>,
    pub(crate) metrics: MetricsSnapshot,
    pub(crate) process: ProcessFigures,
    /// Whether it is draining.
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

/// A child process.
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

/// A record of a journal, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JournalEntry {
    /// When it was made, in milliseconds since 1970.
    pub(crate) at: i64,
    /// The kind of record.
    pub(crate) kind: String,
    /// The summary, truncated.
    pub(crate) text: String,
}

impl Request {
    /// The question as a line, without its end.
    pub(crate) fn line(self, id: u64) -> String {
        crate::terminal::print::json_text(&RequestLine { v: VERSION, id, ask: self })
    }
}

impl Response {
    /// A refusal.
    pub(crate) fn refused(kind: &str, message: impl Into<String>) -> Self {
        Self::Refused { kind: kind.to_owned(), message: message.into() }
    }

    /// The answer as a line, without its end.
    pub(crate) fn line(self, id: u64) -> String {
        crate::terminal::print::json_text(&ResponseLine { v: VERSION, id, answer: self })
    }
}
