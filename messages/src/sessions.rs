//! What is said to and by the sessions supervisor: submissions and their ends.

use crate::approvals::ApprovalQuestion;
use crate::chat::{CallStatus, FinishReason, GuardReason, StopReason, Usage};
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ModelName, RequestId, ResumeToken, SessionId, Ticket, ToolName, TurnId};
use crate::reply::Reply;
use crate::session::{Configuring, TurnInput};
use crate::turn::{Brief, Limits, ResumeReply, Steer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The mailbox of the sessions supervisor.
#[derive(Debug)]
pub enum SessionsMessage {
    /// Run a turn, or let it wait behind the one that runs.
    Submit {
        /// Which session.
        session: SessionId,
        /// What the user says, and within which limits.
        input: Arc<TurnInput>,
        /// How the turn is briefed.
        brief: Arc<Brief>,
        /// Who is owed the outcome, or the refusal.
        reply: Reply<Result<Box<TurnOutcome>, AgentError>>,
    },
    /// Go on with a suspended turn.
    Resume {
        /// Which session.
        session: SessionId,
        /// A name for this run, by which its outcome is told.
        submission: TurnId,
        /// The token of the suspension.
        token: ResumeToken,
        /// What the person says.
        said: ResumeReply,
        /// The bounds of this run.
        limits: Limits,
        /// How the turn is briefed.
        brief: Arc<Brief>,
        /// Who is owed the outcome, or the refusal.
        reply: Reply<Result<Box<TurnOutcome>, AgentError>>,
    },
    /// Stop the session's running turn. A session without one is left alone.
    Cancel {
        /// Which session.
        session: SessionId,
        /// Only this turn, if it is named.
        turn: Option<TurnId>,
        /// Whether something was stopped.
        reply: Reply<bool>,
    },
    /// Let the actor of an idle session go: the next submission reads the journal.
    Passivate {
        /// Which session.
        session: SessionId,
        /// `false` when somebody is owed an outcome; then nothing was done.
        reply: Reply<bool>,
    },
    /// A person decided about a call.
    Decide {
        /// Which session.
        session: SessionId,
        /// Which question.
        approval: ApprovalId,
        /// The decision.
        decision: Decision,
        /// Where it goes whether the decision counts.
        reply: Reply<Heard>,
    },
    /// Say something into the session's running turn.
    Steer {
        /// Which session.
        session: SessionId,
        /// What; the supervisor names the run that is meant.
        steer: Steer,
        /// Whether the running turn has taken it, told when that is durable; `false` when none runs.
        reply: Reply<Result<bool, AgentError>>,
    },
    /// Send what the session's actor has written to the store, for somebody who reads the journal.
    Flush {
        /// Which session.
        session: SessionId,
        /// Told when it was sent; the store's own flush says when it is durable.
        reply: Reply<()>,
    },
    /// A turn tells how it went.
    News {
        /// Which session.
        session: SessionId,
        /// What happened.
        news: TurnNews,
    },
    /// A deadline in the queue came due.
    Due,
    /// Which sessions are live, and what do they do?
    Live {
        /// At most so many are told; those whose turns run come first, the idle ones last.
        most: usize,
        /// Where the list goes, sorted by name.
        reply: Reply<Vec<LiveSession>>,
    },
    /// How much is there to do?
    Load {
        /// Where the counts go.
        reply: Reply<SessionsLoad>,
    },
    /// No new turns; running ones get their grace, then are cancelled and saved.
    Drain {
        /// How long running turns may go on, in milliseconds.
        grace_ms: u64,
        /// Told when no turn is left.
        reply: Reply<()>,
    },
    /// Open a session with its options, or change those of one, also while a turn runs.
    Configure {
        /// Which session; it is made when it does not exist.
        session: SessionId,
        /// What is to be, under which name.
        asked: Arc<Configuring>,
        /// How turns are run.
        brief: Arc<Brief>,
        /// Told when it is durable.
        reply: Reply<Result<(), AgentError>>,
    },
}

/// What a turn tells its supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnNews {
    /// The input is durable: it will have an outcome.
    Accepted {
        /// Which submission.
        submission: TurnId,
    },
    /// A turn begins that waited behind another one or that an earlier process left: only
    /// now does its time run. Not told of a turn that begins as soon as it is taken.
    Began {
        /// Which submission; maybe one that nobody here is owed.
        submission: TurnId,
        /// Its bounds.
        limits: Limits,
    },
    /// The input was not taken.
    Refused {
        /// Which submission.
        submission: TurnId,
        /// Why.
        error: AgentError,
    },
    /// A person is being asked: the turn's clock pauses, the question's runs.
    Paused {
        /// Which submission.
        submission: TurnId,
        /// The question.
        question: Box<ApprovalQuestion>,
    },
    /// A decision about a call arrived.
    Decided {
        /// Which question.
        approval: ApprovalId,
        /// By whom, as the decision said.
        asker: Option<Ticket>,
        /// Whether it counts: the question was open until now.
        counts: bool,
    },
    /// The person answered: the clock goes on.
    Unpaused {
        /// Which submission.
        submission: TurnId,
    },
    /// The run ended.
    Finished {
        /// Which submission.
        submission: TurnId,
        /// How.
        outcome: Box<TurnOutcome>,
    },
    /// What was said into a turn was taken, which is durable then, or was not.
    Steered {
        /// The name of the request.
        request_id: RequestId,
        /// `false` when the turn that is meant does not run; an error when it was refused, or may not be kept.
        result: Result<bool, AgentError>,
    },
    /// What was written when somebody began to read has gone to the store. Told once for each who asked.
    Flushed,
    /// The actor was stopped and has said all it had to say.
    Left,
    /// A change of the session's options is durable, or was not taken.
    Configured {
        /// The name of the change.
        request_id: RequestId,
        /// Why not. After an error of the store it is not known whether it was kept: the
        /// same change under the same name may be sent again.
        result: Result<(), AgentError>,
    },
}

/// What became of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heard {
    /// It was the first: it counts.
    Counts,
    /// No such question is open in the turn that runs; nothing changed.
    NotAsked,
    /// The session has no actor here that could be asked; nothing changed.
    NotLive,
}

/// A live session from outside: one that has an actor, or an input at the door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSession {
    /// Its id.
    pub session: SessionId,
    /// What it does.
    pub state: LiveState,
    /// For how long it has done so, in milliseconds.
    pub age_ms: u64,
    /// How many callers are owed an outcome.
    pub owed: usize,
    /// How many of these wait at the door: not accepted yet.
    pub at_door: usize,
    /// How often its actor was started again in the running turn.
    pub restarts: u32,
    /// Why its actor last crashed, if one did since the session became live.
    pub last_error: Option<String>,
}

/// What a live session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveState {
    /// Nothing; its actor is let go after a while.
    Idle,
    /// It waits until a turn may run.
    Waiting,
    /// A turn runs.
    Running,
    /// A person is being asked; the turn counts as running.
    Asking,
    /// Its actor is being stopped.
    Leaving,
}

/// How much there is to do in all sessions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionsLoad {
    /// Sessions that have an actor, or an input at the door.
    pub live: usize,
    /// Turns that run; at most one a session.
    pub running: usize,
    /// Submissions at the door: not accepted until a turn may run.
    pub waiting: usize,
}

/// Why an actor of a turn is ended from outside. Supervisors and actors exchange
/// it as text, since an actor system carries reasons as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its user, or whoever speaks for them, cancelled it.
    Cancelled,
    /// `turn_timeout_ms` passed.
    TurnTimeout,
    /// The program ends.
    Shutdown,
    /// It was idle and holds nothing that the journal does not.
    Passivated,
}

impl EndReason {
    /// How a turn finishes that is ended for this reason.
    pub fn finishes(self) -> (FinishReason, Option<GuardReason>) {
        match self {
            Self::TurnTimeout => (FinishReason::GuardExceeded, Some(GuardReason::TurnTimeout)),
            Self::Cancelled | Self::Shutdown | Self::Passivated => (FinishReason::Cancelled, None),
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "cancelled",
            Self::TurnTimeout => "turn_timeout",
            Self::Shutdown => "shutdown",
            Self::Passivated => "passivated",
        })
    }
}

impl FromStr for EndReason {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "cancelled" => Ok(Self::Cancelled),
            "turn_timeout" => Ok(Self::TurnTimeout),
            "shutdown" => Ok(Self::Shutdown),
            "passivated" => Ok(Self::Passivated),
            _ => Err(()),
        }
    }
}

/// What a suspended turn waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendReason {
    /// The user's answer to a question.
    AskUser,
    /// A person's decision about a call.
    ApprovalRequired,
    /// Something outside.
    ExternalWait,
}

/// A person's decision about one call. Anything not understood denies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// This call may run.
    AllowOnce,
    /// This call, and calls of this tool in this session, may run.
    AllowSession,
    /// This call, and calls of this tool, may always run.
    AllowAlways,
    /// It may run with these arguments instead.
    Edit {
        /// The arguments.
        arguments: Value,
    },
    /// This call may not run.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// Calls of this tool may never run.
    DenyAlways {
        /// Why, for the model.
        reason: String,
    },
}

/// How a run ended: what the caller is owed, and one line of `--output json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnOutcome {
    /// Which session.
    pub session_id: SessionId,
    /// Which turn.
    pub turn_id: TurnId,
    /// The caller's name for the request.
    pub request_id: Option<RequestId>,
    /// The caller's labels, as they were given.
    pub labels: std::collections::BTreeMap<String, String>,
    /// The model the turn ran on.
    pub model: Option<ModelName>,
    /// How it ended.
    pub finish_reason: FinishReason,
    /// Which guard tripped, if one did.
    pub guard_reason: Option<GuardReason>,
    /// The answer, or what there is of one. Never absent, maybe empty.
    pub content: String,
    /// What the turn waits for, when it is suspended.
    pub suspend_reason: Option<SuspendReason>,
    /// The question of a suspended turn.
    pub question: Option<String>,
    /// What resumes a suspended turn.
    pub token: Option<ResumeToken>,
    /// Why the model stopped speaking, the last time.
    pub stop_reason: Option<StopReason>,
    /// Every call of the turn, in call order.
    pub tool_transcript: Arc<[TranscriptEntry]>,
    /// Tokens, summed over the steps.
    pub usage: Usage,
    /// How many model calls were made.
    pub steps: u32,
    /// From the start of the turn to its outcome, in milliseconds.
    pub duration_ms: u64,
    /// Whether the outcome is durable.
    pub saved: bool,
    /// The calls that were denied.
    pub denied: Vec<DeniedCall>,
    /// What failed.
    pub error: Option<AgentError>,
}

impl TurnOutcome {
    /// An outcome for a turn of which nothing is known but its end.
    pub fn bare(session: SessionId, turn: TurnId, finish_reason: FinishReason, content: impl Into<String>) -> Self {
        Self {
            session_id: session,
            turn_id: turn,
            request_id: None,
            labels: std::collections::BTreeMap::new(),
            model: None,
            finish_reason,
            guard_reason: None,
            content: content.into(),
            suspend_reason: None,
            question: None,
            token: None,
            stop_reason: None,
            tool_transcript: Arc::default(),
            usage: Usage::default(),
            steps: 0,
            duration_ms: 0,
            saved: false,
            denied: Vec::new(),
            error: None,
        }
    }

    /// The same for a failure.
    pub fn failed(session: SessionId, turn: TurnId, error: AgentError) -> Self {
        Self { error: Some(error), ..Self::bare(session, turn, FinishReason::Error, String::new()) }
    }
}

/// One call in a turn's transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptEntry {
    /// The call's id.
    pub id: CallId,
    /// The tool.
    pub name: ToolName,
    /// What it was called with.
    pub arguments: Value,
    /// How it ended.
    pub status: CallStatus,
    /// What it returned, as the model saw it.
    pub result: String,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
}

/// One denied call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeniedCall {
    /// The tool.
    pub name: ToolName,
    /// What it was called with.
    pub arguments: Value,
    /// Why not.
    pub reason: String,
}
