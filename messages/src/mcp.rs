//! What is said of the tool servers: their states, and how they are shown.
//!
//! A server is one actor with one child process (or one HTTP session). Its tools are
//! asked for, judged and called in the words of [`crate::tools`]; here is what people
//! and front ends are told about the server itself.

use crate::ids::ServerId;
use crate::tools::ToolsMessage;
use serde::{Deserialize, Serialize};

/// The mailbox of the actor of one tool server.
///
/// The last five are facts that its own keeper and its own clock tell it.
#[derive(Debug)]
pub enum McpMessage {
    /// What a turn asks about this server's tools. A question that comes while the
    /// server starts waits a little for it; every question is answered.
    Tools(ToolsMessage),
    /// Start, if it sleeps.
    Wake,
    /// Somebody looks at the tools: ask the server again if its list is old.
    Refresh,
    /// What the server offers is known, for the first time or anew.
    Offered,
    /// The connection is lost and a new one is under way.
    Lost {
        /// Why, for people.
        why: String,
    },
    /// The server has ended; how is told in a moment.
    Ending,
    /// The server ended, or could not be started; the actor ends with this.
    Ended {
        /// How, with its last words.
        why: String,
    },
    /// Questions have waited long enough.
    Waited,
}

/// How a tool server is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// Not started yet: it is started when it is first needed.
    #[default]
    Asleep,
    /// Its first start is under way.
    Starting,
    /// Its tools can be called.
    Ready,
    /// It died or its start failed; it is started again after a delay.
    Restarting,
    /// It died too often and is left down until it is restarted by hand.
    GaveUp,
    /// It was stopped, with the runtime or because it left the configuration.
    Stopped,
}

/// What can be shown of one tool server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its id in the configuration.
    pub id: ServerId,
    /// `stdio` or `http`.
    pub transport: String,
    /// How it is doing.
    pub state: ServerState,
    /// How many of its tools are offered now.
    pub tools: usize,
    /// How often it was started again since the runtime started.
    pub restarts: u32,
    /// The leader of its process group, while it has a process.
    pub pid: Option<i32>,
    /// Name and version, as the server tells them once it is ready.
    pub server: Option<String>,
    /// Why it was last down, with the end of its stderr.
    pub last_error: Option<String>,
    /// Whether the runtime refuses to start without it.
    pub required: bool,
}

/// A tool server and how it is doing, in two words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerBrief {
    /// Its id in the configuration, or in the session that brings it.
    pub id: ServerId,
    /// How it is doing.
    pub state: ServerState,
    /// Why a server that the session brought is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
