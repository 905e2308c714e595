//! Tool servers: their states, and how they are shown.
//!
//! A server is one actor with one child process (or one HTTP session). Its tools use the messages of
//! [`crate::tools`]; this module has the status of the server itself.

use crate::context::RequestContext;
use crate::ids::{ServerId, SessionId};
use crate::pool::ServerOwner;
use crate::tools::ToolsMessage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The mailbox of one tool server's actor.
///
/// The last five are sent by its own keeper and timer.
#[derive(Debug)]
pub enum McpMessage {
    /// A message about this server's tools. While the server starts, it is held for a time; every question is answered.
    Tools(ToolsMessage),
    /// Start, if it sleeps.
    Wake,
    /// The tools are in use: refresh the list if it is old.
    Refresh,
    /// The server's list of tools was read.
    Offered,
    /// The connection is lost and a new one is under way.
    Lost {
        /// The reason, as a message.
        why: String,
    },
    /// The server has ended; the reason follows.
    Ending,
    /// The server ended, or could not be started; the actor ends with this.
    Ended {
        /// The reason, with the last output.
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
    /// It failed too often, and is down until it is restarted manually.
    GaveUp,
    /// It was stopped, with the runtime or because it left the configuration.
    Stopped,
}

/// The status of one tool server.
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
    /// Name and version, as reported by the server.
    pub server: Option<String>,
    /// The version of the protocol that it speaks, such as `2025-11-25`; `None` before its first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Why it was last down, with the end of its stderr.
    pub last_error: Option<String>,
    /// Whether the runtime refuses to start without it.
    pub required: bool,
    /// Whose it is, if not all sessions share it; `None` also while no process of such a server runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ServerOwner>,
    /// Its name in the tree of actors, if that is not its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl ServerStatus {
    /// Its name in the tree of actors.
    pub fn node(&self) -> &str {
        self.node.as_deref().unwrap_or(self.id.as_str())
    }
}

/// A tool server and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerBrief {
    /// Its id in the configuration, or in the options of the session that brings it.
    pub id: ServerId,
    /// How it is doing.
    pub state: ServerState,
    /// Why a server of the session is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A form that a tool server asks a person to fill in.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Elicitation {
    /// The server.
    pub server: ServerId,
    /// The server's text; sanitise it before showing it in a terminal.
    pub message: String,
    /// The JSON schema of the form: a flat object of texts, numbers, flags and choices.
    pub schema: Value,
    /// The session for whose call the server asks, where that is certain: the form is part of the call's result
    /// (version 2026-07-28 of the protocol), or no other session has this process of the server. `None` for a process
    /// that several sessions share and that asks in a request of its own, which does not say for which call.
    pub session: Option<SessionId>,
    /// On whose behalf the call is made: the context of its turn's request where the form is part of a call's result, and
    /// a context with only the tenant where a tenant has this process of the server for itself.
    pub context: Option<Arc<RequestContext>>,
}

impl Elicitation {
    /// A form of this server, which is for no session in particular.
    pub fn new(server: ServerId, message: impl Into<String>, schema: Value) -> Self {
        Self { server, message: message.into(), schema, session: None, context: None }
    }

    /// The form with the session and the context for which it is requested.
    #[must_use]
    pub fn asked_for(self, session: Option<SessionId>, context: Option<Arc<RequestContext>>) -> Self {
        Self { session, context, ..self }
    }
}

/// The answer to a form.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// The form, filled in. Fields left out get the defaults of the schema.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// The person made no decision.
    Cancel,
}

/// The changes of a new list of tool servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// Servers that are new.
    pub started: Vec<ServerId>,
    /// Servers that are started again, since something about them changed.
    pub changed: Vec<ServerId>,
    /// Servers that left.
    pub stopped: Vec<ServerId>,
    /// Servers that were left alone.
    pub kept: Vec<ServerId>,
}
