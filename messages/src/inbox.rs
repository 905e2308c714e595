//! Messages to sessions, whose senders hold no actor: a store keeps them until their effect is in the journal.
//!
//! A message is addressed by a session and named by its request id. It is accepted when it is in the inbox. The owner of the
//! session takes it, as often as it takes to make its effect durable: a message that was taken before is recognised by its
//! request id, so that its effect happens once.
//!
//! - [`attend`]: what a worker does with the messages that wait, and with one whose attempt ended

pub mod attend;

use crate::Millis;
use crate::approvals::Decision;
use crate::chat::ContentPart;
use crate::context::RequestContext;
use crate::error::AgentError;
use crate::ids::{ApprovalId, ModelName, PoolName, RequestId, ResumeToken, SessionId};
use crate::input::{ApprovalsMode, ResumeReply};
use crate::limits::Limits;
use crate::options::{Change, OptionsPatch};
use crate::permission::PermissionMode;
use crate::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The newest format of a message as text. Each message has the oldest one that knows its request, so that an older program
/// takes what it can, and leaves the others to a newer one.
pub const INBOX_FORMAT: u32 = 3;

/// A message to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboxMessage {
    /// The format, at most [`INBOX_FORMAT`].
    pub format: u32,
    /// Its session, which need not exist.
    pub session: SessionId,
    /// Its name in the session: a second message of the same name is the first one.
    pub request_id: RequestId,
    /// When it was made, by its sender's clock; for people.
    pub at: Millis,
    /// What is asked for.
    pub request: InboxRequest,
}

/// Which message: its session, and its name there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InboxKey {
    /// Its session.
    pub session: SessionId,
    /// Its name in the session.
    pub request: RequestId,
}

/// What a message asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InboxRequest {
    /// Run a turn.
    Submit(Box<SubmitRequest>),
    /// End the turn of this request, or forget the request if its turn has not begun. Nothing once it has ended.
    Cancel {
        /// The request id of the message that is cancelled.
        of: RequestId,
    },
    /// A person decided about a call.
    Decide {
        /// The question.
        approval: ApprovalId,
        /// The decision.
        decision: Decision,
    },
    /// Add a message to the turn of the last submission before it, or to the running one if none waits before it.
    Steer {
        /// The content.
        parts: Vec<ContentPart>,
    },
    /// Resume a suspended turn. The name of the message is the submission of the reply.
    Resume {
        /// Which one; it names the session of the message.
        token: ResumeToken,
        /// The reply to its question.
        reply: ResumeReply,
    },
    /// Change the options of the session, from the turn behind the last message before it on.
    Configure {
        /// What is changed.
        patch: Box<OptionsPatch>,
    },
}

impl InboxRequest {
    /// The first format that has such requests.
    pub fn format(&self) -> u32 {
        match self {
            // An older program would run it outside of its pool.
            Self::Submit(submit) if submit.pool.is_some() => 3,
            // An older program would not tell its model of the notice.
            Self::Configure { patch } if patch.pool != Change::Keep || patch.notice.is_some() => 3,
            Self::Submit(_) | Self::Cancel { .. } | Self::Decide { .. } | Self::Steer { .. } => 1,
            Self::Resume { .. } | Self::Configure { .. } => 2,
        }
    }

    /// The pool to which it binds its session.
    pub fn pool(&self) -> Option<&PoolName> {
        match self {
            Self::Submit(submit) => submit.pool.as_ref(),
            Self::Cancel { .. }
            | Self::Decide { .. }
            | Self::Steer { .. }
            | Self::Resume { .. }
            | Self::Configure { .. } => None,
        }
    }

    /// Whether it has a turn run, whose outcome answers it.
    pub fn runs_a_turn(&self) -> bool {
        matches!(self, Self::Submit(_) | Self::Resume { .. })
    }
}

/// An input of a turn. What is absent is chosen where it is run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubmitRequest {
    /// The user's message.
    pub parts: Vec<ContentPart>,
    /// The model of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// What the turn may do without asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// How a call that needs approval is handled; denied if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalsMode>,
    /// The pool of machines to which the session is bound from this turn on. A session that is bound to another one is not moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// The bounds of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Echoed in the outcome.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// On whose behalf it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<RequestContext>>,
    /// The JSON schema its final answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Arc<Value>>,
    /// W3C trace context of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The `tracestate` that came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl InboxMessage {
    /// A message with a request.
    pub fn new(session: SessionId, request_id: RequestId, at: Millis, request: InboxRequest) -> Self {
        Self { format: request.format(), session, request_id, at, request }
    }

    /// Which message it is.
    pub fn key(&self) -> InboxKey {
        InboxKey { session: self.session.clone(), request: self.request_id.clone() }
    }

    /// The message as text.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be written as JSON.
    pub fn to_text(&self) -> Result<String, StoreError> {
        serde_json::to_string(self)
            .map_err(|error| StoreError::Unavailable(format!("the message cannot be written: {error}")))
    }

    /// Reads a message.
    ///
    /// # Errors
    /// `TooNew` for a later format; `Corrupt` for what is no message.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let bad = |error: serde_json::Error| StoreError::Corrupt(format!("a message of the inbox: {error}"));
        let Head { format } = serde_json::from_str(text).map_err(bad)?;
        match format {
            ..=INBOX_FORMAT => serde_json::from_str(text).map_err(bad),
            found => Err(StoreError::TooNew { found, known: INBOX_FORMAT }),
        }
    }
}

/// A message in the inbox of a session, or its place there when it cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxEntry {
    /// Its name.
    pub request_id: RequestId,
    /// The message; `TooNew` or `Corrupt` otherwise.
    pub message: Result<InboxMessage, StoreError>,
}

impl InboxEntry {
    /// Reads a message of this name.
    pub fn parse(request_id: RequestId, text: &str) -> Self {
        Self { request_id, message: InboxMessage::parse(text) }
    }

    /// The request of a message that could be read.
    pub fn request(&self) -> Option<&InboxRequest> {
        self.message.as_ref().ok().map(|message| &message.request)
    }
}

impl From<InboxMessage> for InboxEntry {
    fn from(message: InboxMessage) -> Self {
        Self { request_id: message.request_id.clone(), message: Ok(message) }
    }
}

/// What a store knows of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum InboxStanding {
    /// It waits, or is being worked on.
    Waiting,
    /// It was refused, and will have no outcome.
    Refused(Box<AgentError>),
    /// There is none: it was never put, or its effect is in the journal.
    Gone,
}

#[cfg(test)]
mod inbox_tests;
