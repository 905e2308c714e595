//! Messages to and from the sessions supervisor: submissions and their outcomes.

mod live;

pub use live::{LiveSession, LiveState, SessionsLoad};

use crate::approvals::{ApprovalQuestion, Decision, Heard, LimitQuestion};
use crate::error::AgentError;
use crate::ids::{ApprovalId, RequestId, ResumeToken, SessionId, TenantId, Ticket, TurnId};
use crate::input::{ResumeReply, Steer, TurnInput};
use crate::limits::Limits;
use crate::options::{Configuring, ParentTurn};
use crate::outcome::{EndReason, TurnOutcome};
use crate::reply::Reply;
use crate::store::StoreError;
use crate::turn_config::TurnConfig;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The mailbox of the sessions supervisor.
#[derive(Debug)]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum SessionsMessage {
    /// Run a turn, or let it wait behind the one that runs.
    Submit {
        session: SessionId,
        input: Arc<TurnInput>,
        turn_config: Arc<TurnConfig>,
        /// Whether the journal may have it already, since it was submitted before: here, or in an earlier process.
        is_repeated: bool,
        /// Receives the outcome, or the error with which the submission is refused.
        reply: Reply<Result<Box<TurnOutcome>, AgentError>>,
    },
    /// Continue a suspended turn.
    Resume {
        session: SessionId,
        /// The id of this run, by which its outcome is reported.
        submission: TurnId,
        token: ResumeToken,
        said: ResumeReply,
        /// The call that the turn works for, if the caller of a sub-agent hands a decision down to it.
        parent: Option<Box<ParentTurn>>,
        limits: Limits,
        /// The tenant the session belongs to, where it is known.
        tenant: Option<TenantId>,
        turn_config: Arc<TurnConfig>,
        /// Receives the outcome, or the error with which the submission is refused.
        reply: Reply<Result<Box<TurnOutcome>, AgentError>>,
    },
    /// Stop the session's running turn, or take out the submission that waits to run, and answer it as cancelled.
    /// Without either nothing is done.
    Cancel {
        session: SessionId,
        /// Only this turn, if it is named.
        turn: Option<TurnId>,
        /// Only the first input that waits and is of this tenant, if one is named: the session may have no journal yet.
        tenant: Option<TenantId>,
        /// Whether something was stopped.
        reply: Reply<bool>,
    },
    /// Stop the actor of an idle session; the next submission reads the journal.
    Passivate {
        session: SessionId,
        /// `false` if a caller waits for an outcome, or the session has a recovered turn, unconfirmed changes or
        /// children; then nothing was done.
        reply: Reply<bool>,
    },
    /// A decision about a call or a limit.
    Decide {
        session: SessionId,
        approval: ApprovalId,
        decision: Decision,
        /// Receives whether the decision counts.
        reply: Reply<Heard>,
    },
    /// Send a message into the session's running turn.
    Steer {
        session: SessionId,
        /// The message; the supervisor adds the run for which it is meant.
        steer: Steer,
        /// Receives whether the running turn has taken it, once that is durable; `false` when none runs.
        reply: Reply<Result<bool, AgentError>>,
    },
    /// Have the session's actor send its buffered records to the store, for a reader of the journal.
    Flush {
        session: SessionId,
        /// Answered when they were sent; the store's flush reports when they are durable.
        reply: Reply<()>,
    },
    /// A report of a session's actor.
    News { session: SessionId, news: TurnNews },
    /// The session's actor ended before it was linked, for which there is no supervision event.
    NotBegun { session: SessionId, why: String },
    /// A deadline is due.
    Due,
    /// A session's actor has ended, and all its reports were handled. The supervisor sends this to itself.
    ActorEnded,
    /// A snapshot of the live sessions.
    Live {
        /// The most sessions in the snapshot; those with a running turn come first, the idle ones last.
        most: usize,
        /// Receives the list, sorted by id.
        reply: Reply<Vec<LiveSession>>,
    },
    /// The numbers of live sessions, running turns and queued submissions.
    Load { reply: Reply<SessionsLoad> },
    /// The numbers of running turns and queued submissions of a tenant.
    TenantLoad {
        tenant: TenantId,
        /// Where the counts go; `live` is not counted.
        reply: Reply<SessionsLoad>,
    },
    /// Start no new turns; running ones have a grace period, then are cancelled and saved.
    Drain {
        /// How long running turns may go on, in milliseconds.
        grace_ms: u64,
        /// Turns are not cancelled: each is left behind the step that it is in, and at the latest behind the grace period, open in
        /// its journal, for another process.
        hand_over: bool,
        /// Answered when no turn is left.
        reply: Reply<()>,
    },
    /// Open a session with its options, or change those of one, also while a turn runs.
    Configure {
        /// Which session; it is made when it does not exist.
        session: SessionId,
        asked: Arc<Configuring>,
        turn_config: Arc<TurnConfig>,
        /// Answered when the change is durable.
        reply: Reply<Result<(), AgentError>>,
    },
}

/// A report of a session's actor to the sessions supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum TurnNews {
    /// The turn is closed without going on, and this session may still be open that worked for a call of it: its turn
    /// ends, too.
    Orphaned { child: SessionId },
    /// The call has ended that this turn of a sub-agent works for: if the turn is suspended, it is closed.
    ChildGivenUp { child: SessionId, turn: TurnId },
    /// The turn of a sub-agent whose call has ended is closed, if it was open. Reported once for each `GivenUp` that was
    /// taken, and behind what that means for those below.
    Closed,
    /// The turn ends: these sessions and turns, which work for it in the background, end with it.
    TasksEnd { children: Vec<(SessionId, TurnId)> },
    /// A turn begins that waited behind another one or that an earlier process left, and its time runs from now on; or a
    /// suspended one goes on. Not reported for a turn that begins as soon as it is accepted.
    Began {
        /// The submission; perhaps one without a caller in this process.
        submission: TurnId,
        /// The turn. It has another name than the submission if that resumes it.
        turn: TurnId,
        limits: Box<Limits>,
        /// Whether a person is asked before it ends at a limit.
        #[serde(default)]
        asks_at_limits: bool,
        /// The tenant whose place it takes if it has none yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// The input was not taken.
    Refused { submission: TurnId, error: AgentError },
    /// Approval was requested: the turn's clock pauses, and that of the question runs.
    Paused { submission: TurnId, question: Box<ApprovalQuestion> },
    /// The turn reached a limit, and a person is asked whether it goes on: its clock pauses as for an approval.
    AtLimit { submission: TurnId, question: Box<LimitQuestion> },
    /// A person said that the turn does not go on, while something is in flight: it is ended for this reason.
    GivenUp { submission: TurnId, reason: EndReason },
    /// A decision about a call arrived.
    Decided { approval: ApprovalId, asker: Option<Ticket>, heard: Heard },
    /// The person answered: the turn's clock continues.
    Unpaused { submission: TurnId },
    /// Answers `Ended`: the journal has nothing open of this submission, which has ended there or never was in it.
    NotOpen { submission: TurnId },
    /// The run ended.
    Finished { submission: TurnId, outcome: Box<TurnOutcome> },
    /// A steer message was taken, durably, or was not.
    Steered {
        request_id: RequestId,
        /// `false` when the turn that is meant does not run; an error when it was refused, or may not be kept.
        result: Result<bool, AgentError>,
    },
    /// The buffered records were sent to the store. Reported once for each `Flush`.
    Flushed,
    /// The turn has ended a step and begins no further one, or a turn that waits does not begin, since another process is to go on
    /// with it (`TurnMessage::HandOver`).
    BetweenSteps,
    /// The last report of an actor that was stopped.
    Left,
    /// A change of the session's options is durable, or was not taken.
    Configured {
        request_id: RequestId,
        /// The error. After an error of the store, the change may or may not have been stored: it may be repeated
        /// with its id.
        result: Result<(), AgentError>,
    },
}

impl TurnNews {
    /// A last report of an actor that was stopped, when it is known whether its last append was confirmed in time;
    /// `appended`: there was one.
    #[must_use]
    pub fn behind_the_last_append(self, appended: bool, confirmed: bool) -> Self {
        match self {
            Self::Finished { submission, mut outcome } => {
                // A session that was never read has nothing to be saved.
                outcome.saved = confirmed && (appended || outcome.model.is_some());
                Self::Finished { submission, outcome }
            }
            Self::Steered { request_id, result: Ok(_) } if !confirmed => {
                let doubt = StoreError::InDoubt("the turn was stopped; say it again by its request id".into());
                Self::Steered { request_id, result: Err(AgentError::Store(doubt)) }
            }
            other => other,
        }
    }
}
