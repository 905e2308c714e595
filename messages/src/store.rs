//! What is said to and by a store: the journal's records and their rules.
//!
//! A session is an append-only journal; its state is the fold of its records
//! ([`crate::session::Session`]). The version of a session counts its records,
//! the epoch counts its owners.

use crate::Millis;
use crate::approvals::{AskedTool, Scope};
use crate::chat::{ContentPart, FinishReason, GuardReason, StopReason, ToolCall, ToolResult, Usage};
use crate::condense::Condensed;
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ModelName, RecordId, RequestId, ResumeToken, SessionId, TurnId};
use crate::reply::Reply;
use crate::session::{Glance, SessionOptions, SessionState, TurnInput};
use crate::sessions::SuspendReason;
use crate::skills::SelectedSkills;
use crate::tools::{CallTraits, Risk};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The format of the records this program writes. An older journal is migrated,
/// a newer one refused.
pub const FORMAT: u32 = 1;

/// The mailbox of the StoreActor.
#[derive(Debug)]
pub enum StoreMessage {
    /// Take a session over: raises its epoch and reads its records.
    Claim {
        /// Which session.
        session: SessionId,
        /// Where the claim goes.
        reply: Reply<Result<Claim, StoreError>>,
    },
    /// Read a session's records without owning it.
    Load {
        /// Which session.
        session: SessionId,
        /// Where the records go; empty for a session that does not exist.
        reply: Reply<Result<Vec<Arc<Record>>, StoreError>>,
    },
    /// Store these records; answered when they are durable.
    Append {
        /// What to store.
        append: Append,
        /// Where the new version goes.
        reply: Reply<Result<u64, StoreError>>,
    },
    /// This process no longer owns the session.
    Release {
        /// Which session.
        session: SessionId,
        /// Under which epoch it was owned.
        epoch: u64,
    },
    /// Which sessions are there? Reads no journals.
    List {
        /// Which of them.
        filter: SessionFilter,
        /// Where the last page ended.
        cursor: Option<String>,
        /// Where the page goes.
        reply: Reply<Result<SessionPage, StoreError>>,
    },
    /// Remove a session and its journal.
    Delete {
        /// Which session.
        session: SessionId,
        /// Whether there was one.
        reply: Reply<Result<bool, StoreError>>,
    },
    /// Answered when everything accepted before it is durable or has failed.
    Flush {
        /// Told when done.
        reply: Reply<()>,
    },
    /// The batch in flight has ended; the next one may start.
    BatchEnded,
}

/// Some records of one session, to be stored together or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Append {
    /// Whose records.
    pub session: SessionId,
    /// The owner's epoch; an older one is fenced.
    pub epoch: u64,
    /// How many records the session has, as the owner knows it.
    pub expected_version: u64,
    /// The records, in order.
    pub records: Vec<Arc<Record>>,
}

/// What an owner gets: the session as it is, and the epoch to write under.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The new owner's epoch.
    pub epoch: u64,
    /// How many records there are.
    pub version: u64,
    /// All of them, in order.
    pub records: Vec<Arc<Record>>,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFilter {
    /// Only ids that start so.
    pub prefix: Option<String>,
    /// Only those in this state. A session of an older program has none until it is written to.
    #[serde(default)]
    pub state: Option<SessionState>,
    /// Only those that work for this session.
    #[serde(default)]
    pub parent: Option<SessionId>,
    /// At most so many on a page; 0 means 100.
    pub limit: usize,
}

/// One page of a listing, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionSummary>,
    /// Where the next page starts; `None` on the last.
    pub cursor: Option<String>,
    /// Journals that could not be read, by name, with the reason.
    pub quarantined: Vec<(String, String)>,
}

/// A session from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Its id.
    pub session: SessionId,
    /// When its journal was last written.
    pub updated_at: Millis,
    /// The size of its journal in bytes; 0 where a store does not know.
    pub bytes: u64,
    /// The first words of its first message; `None` also where a store does not know.
    #[serde(default)]
    pub title: Option<Box<str>>,
    /// What it does, as far as its journal tells; `None` where a store does not know.
    #[serde(default)]
    pub state: Option<SessionState>,
    /// How many of its turns have ended; `None` where a store does not know.
    #[serde(default)]
    pub turns: Option<u64>,
    /// The session it works for.
    #[serde(default)]
    pub parent: Option<SessionId>,
}

impl SessionSummary {
    /// A session of which nothing else is known.
    pub fn bare(session: SessionId, updated_at: Millis, bytes: u64) -> Self {
        Self { session, updated_at, bytes, title: None, state: None, turns: None, parent: None }
    }

    /// The same with what a glance shows.
    #[must_use]
    pub fn seen(self, glance: &Glance) -> Self {
        let Glance { title, state, turns, parent } = glance.clone();
        Self { title, state: Some(state), turns: Some(turns), parent, ..self }
    }
}

/// Why a store refused or failed. Serialisable, since it travels in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum StoreError {
    /// The session has another version than expected.
    #[error("the session is at version {version}, not where this writer believed it to be")]
    Conflict {
        /// The version it has.
        version: u64,
    },
    /// Somebody else has taken the session over.
    #[error("the session was taken over by another owner (epoch {epoch})")]
    Fenced {
        /// The epoch it has now.
        epoch: u64,
    },
    /// Another living process owns the session.
    #[error("the session is in use by {owner}")]
    Busy {
        /// Its name.
        owner: String,
    },
    /// It may or may not have been stored; the same records may be sent again.
    #[error("it is not known whether the records were stored: {0}")]
    InDoubt(String),
    /// The store cannot be reached or written now.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The journal does not read as one; it was left as it is.
    #[error("the journal is damaged: {0}")]
    Corrupt(String),
    /// The journal was written by a newer program.
    #[error("the journal has format {found}, this program knows {known}: use the newer program")]
    TooNew {
        /// Its format.
        found: u32,
        /// Ours.
        known: u32,
    },
}

impl StoreError {
    /// Whether sending the same records again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::InDoubt(_) | Self::Unavailable(_) => true,
            Self::Conflict { .. }
            | Self::Fenced { .. }
            | Self::Busy { .. }
            | Self::Corrupt(_)
            | Self::TooNew { .. } => false,
        }
    }
}

/// One fact of a session's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WireRecord", into = "WireRecord")]
pub struct Record {
    /// The format it was written in.
    pub format: u32,
    /// Made once, kept over retries: storing it twice stores it once.
    pub id: RecordId,
    /// Whose fact.
    pub session: SessionId,
    /// The session's version with this record, from 1.
    pub version: u64,
    /// Under which owner it was written.
    pub epoch: u64,
    /// Of which turn, if of one.
    pub turn: Option<TurnId>,
    /// When it was made.
    pub at: Millis,
    /// The fact itself.
    pub fact: Fact,
}

/// What can be a fact. The journal never holds a rendered request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum Fact {
    /// The session's options, first and at each change.
    Options(SessionOptions),
    /// An input was accepted; it runs now or waits its turn.
    Input(Arc<TurnInput>),
    /// The oldest waiting input's turn began.
    Started {
        /// The model it runs on.
        model: ModelName,
    },
    /// A model call ended with an action.
    Answered(Answered),
    /// A model call ended with something that is no action.
    Malformed {
        /// The reply, as text.
        text: String,
        /// What is wrong with it, as the model was told.
        complaint: String,
        /// What the call cost.
        cost: StepCost,
    },
    /// A call with side effects is about to run.
    Intent {
        /// Which call.
        call: CallId,
        /// How it may be run again.
        traits: CallTraits,
    },
    /// A person is asked about a call.
    ApprovalAsked {
        /// The question.
        approval: ApprovalId,
        /// The call.
        call: CallId,
        /// How risky it is.
        risk: Risk,
        /// Why a person is asked.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// The tool as it is shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<Arc<AskedTool>>,
    },
    /// A person decided.
    ApprovalDecided {
        /// The question.
        approval: ApprovalId,
        /// The answer.
        allowed: bool,
        /// The arguments instead of the model's, when the person changed them.
        arguments: Option<Value>,
        /// Why not, when the person said no.
        reason: String,
        /// How far the decision reaches beyond the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
    },
    /// A call has its result.
    Result(Arc<ToolResult>),
    /// The user said something into the running turn.
    Steered {
        /// What.
        parts: Vec<ContentPart>,
        /// The name of the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<RequestId>,
        /// It came while the model was being asked: it stands behind the answer, which cannot know it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        behind: bool,
    },
    /// A suspended turn goes on.
    Resumed {
        /// Under which submission; its caller gets the outcome.
        submission: TurnId,
        /// The reply to the question.
        reply: String,
        /// The name of the request that brought the reply, when a plain input did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<RequestId>,
        /// That input's labels.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
    },
    /// The input of this record's turn was cancelled while it waited.
    Withdrawn,
    /// The turn, or this run of it, ended.
    Outcome(Ended),
    /// The session's options were changed, from the next turn on.
    Configured {
        /// The name of the change, which counts once.
        request_id: RequestId,
        /// All options as they are then.
        options: SessionOptions,
    },
    /// What the model is told of the history from here on; the records before are as they were.
    Condensed(Condensed),
    /// The turn's skills were chosen: once, also over crashes.
    SkillsSelected(SelectedSkills),
}

/// What one model call cost and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// Tokens, when the provider said.
    pub usage: Option<Usage>,
    /// How many bytes the prompt had; corrects the token estimate.
    pub prompt_bytes: u64,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// The provider's id of the response.
    pub response_id: Option<String>,
    /// The model that answered.
    pub model: ModelName,
    /// How long the call took, in milliseconds.
    pub latency_ms: u64,
}

/// One model call that ended with an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The model's words.
    pub text: String,
    /// Its calls; empty for a final answer. A question to the user is a call of
    /// the pseudo tool `ask_user`.
    pub calls: Vec<Arc<ToolCall>>,
    /// What the call cost.
    pub cost: StepCost,
}

/// How a run of a turn ended, as far as it does not follow from other records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// In one word.
    pub finish_reason: FinishReason,
    /// Which guard tripped.
    pub guard_reason: Option<GuardReason>,
    /// What the caller is told.
    pub content: String,
    /// What the turn waits for, when it is suspended.
    pub suspended: Option<Suspension>,
    /// What failed.
    pub error: Option<AgentError>,
}

/// What a suspended turn waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// For whom.
    pub reason: SuspendReason,
    /// What resumes it.
    pub token: ResumeToken,
    /// The question, for people.
    pub question: String,
    /// When the token stops being good, by the clock of whoever suspended the turn;
    /// `None` means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

/// The record as it is written: flat, with kind and body apart.
#[derive(Serialize, Deserialize)]
struct WireRecord {
    format: u32,
    id: RecordId,
    session: SessionId,
    version: u64,
    epoch: u64,
    turn: Option<TurnId>,
    at: Millis,
    kind: String,
    body: Value,
}

impl From<Record> for WireRecord {
    fn from(record: Record) -> Self {
        let mut fact = serde_json::to_value(&record.fact).unwrap_or_default();
        let kind = fact.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            format: record.format,
            id: record.id,
            session: record.session,
            version: record.version,
            epoch: record.epoch,
            turn: record.turn,
            at: record.at,
            kind,
            body: fact.get_mut("body").map(Value::take).unwrap_or_default(),
        }
    }
}

impl TryFrom<WireRecord> for Record {
    type Error = serde_json::Error;

    fn try_from(wire: WireRecord) -> Result<Self, Self::Error> {
        let fact = serde_json::from_value(serde_json::json!({ "kind": wire.kind, "body": wire.body }))?;
        Ok(Self {
            format: wire.format,
            id: wire.id,
            session: wire.session,
            version: wire.version,
            epoch: wire.epoch,
            turn: wire.turn,
            at: wire.at,
            fact,
        })
    }
}
