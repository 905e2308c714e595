//! Messages to sessions, whose senders hold no actor: a store keeps them until their effect is in the journal.
//!
//! A message is addressed by a session and named by its request id. It is accepted when it is in the inbox. The owner of the
//! session takes it, as often as it takes to make its effect durable: a message that was taken before is recognised by its
//! request id, so that its effect happens once.

use crate::Millis;
use crate::approvals::Decision;
use crate::chat::ContentPart;
use crate::context::RequestContext;
use crate::error::AgentError;
use crate::ids::{ApprovalId, ModelName, RequestId, SessionId};
use crate::input::ApprovalsMode;
use crate::limits::Limits;
use crate::outcome::TurnOutcome;
use crate::permission::PermissionMode;
use crate::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The format of a message as text.
pub const INBOX_FORMAT: u32 = 1;

/// A message to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboxMessage {
    /// The format, [`INBOX_FORMAT`].
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
    /// Add a message to the running turn.
    Steer {
        /// The content.
        parts: Vec<ContentPart>,
    },
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
        Self { format: INBOX_FORMAT, session, request_id, at, request }
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

/// What becomes of a message after an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    /// Its effect is in the journal: it is removed.
    Done,
    /// It can have no effect: its sender is told why.
    Refused(AgentError),
    /// It stays, and is taken again.
    Again(String),
}

impl Attempt {
    /// After a run of the turn that a message asked for.
    pub fn of_run(result: Result<&TurnOutcome, &AgentError>) -> Self {
        match result {
            Ok(outcome) if outcome.saved => Self::Done,
            Ok(outcome) => {
                let why = outcome.error.as_ref().map_or_else(|| "its end is not saved".to_owned(), ToString::to_string);
                Self::Again(why)
            }
            Err(error) => Self::of_error(error),
        }
    }

    /// After a request that was refused. What another process, or the same one later, may take is not refused for good.
    pub fn of_error(error: &AgentError) -> Self {
        match error {
            AgentError::Store(StoreError::Corrupt(_)) => Self::Refused(error.clone()),
            // What the store may have, is run by the next owner.
            AgentError::Stopped(_) | AgentError::Internal(_) | AgentError::Store(_) | AgentError::Kept(_) => {
                Self::Again(error.to_string())
            }
            error if error.is_retryable() => Self::Again(error.to_string()),
            error => Self::Refused(error.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::FinishReason;
    use crate::ids::TurnId;

    fn message() -> InboxMessage {
        let submit = SubmitRequest { parts: vec![ContentPart::text("hi")], ..SubmitRequest::default() };
        let session = SessionId::parse("one").unwrap();
        InboxMessage::new(session, RequestId::new("r1"), 7, InboxRequest::Submit(Box::new(submit)))
    }

    #[test]
    fn a_message_is_read_as_it_was_written_and_says_only_what_it_has() {
        let text = message().to_text().unwrap();
        let shown = r#"{"format":1,"session":"one","request_id":"r1","at":7,"request":{"type":"submit","parts":[{"type":"text","text":"hi"}]}}"#;
        assert_eq!(text, shown);
        assert_eq!(InboxMessage::parse(&text), Ok(message()));
    }

    #[test]
    fn a_newer_message_is_too_new_and_no_message_is_corrupt() {
        let newer = message().to_text().unwrap().replace("\"format\":1", "\"format\":2");
        assert_eq!(InboxMessage::parse(&newer), Err(StoreError::TooNew { found: 2, known: 1 }));
        assert!(matches!(InboxMessage::parse("{\"format\":1}"), Err(StoreError::Corrupt(_))));
        assert!(matches!(InboxMessage::parse("nothing"), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn a_message_is_done_when_its_outcome_is_durable_and_refused_when_no_process_could_take_it() {
        let session = SessionId::parse("one").unwrap();
        let ended = TurnOutcome::bare(session, TurnId::new("t"), FinishReason::Final, "hello");
        let saved = |saved| TurnOutcome { saved, ..ended.clone() };
        assert_eq!(Attempt::of_run(Ok(&saved(true))), Attempt::Done);
        assert!(matches!(Attempt::of_run(Ok(&saved(false))), Attempt::Again(_)));
        for later in [
            AgentError::busy("b"),
            AgentError::overloaded("o"),
            AgentError::Stopped("s".into()),
            AgentError::Internal("i".into()),
            AgentError::Store(StoreError::Unavailable("u".into())),
            AgentError::Kept(StoreError::Unavailable("u".into())),
            AgentError::Kept(StoreError::Fenced { epoch: 1 }),
        ] {
            assert!(matches!(Attempt::of_run(Err(&later)), Attempt::Again(_)), "{later:?}");
        }
        for never in [AgentError::Invalid("i".into()), AgentError::Store(StoreError::Corrupt("c".into()))] {
            assert_eq!(Attempt::of_run(Err(&never)), Attempt::Refused(never.clone()));
        }
    }
}
