//! What is said to and by the sessions supervisor: submissions and their ends.

mod live;

pub use live::{LiveSession, LiveState, SessionsLoad};

use crate::approvals::{ApprovalQuestion, Decision, Heard};
use crate::brief::Brief;
use crate::error::AgentError;
use crate::ids::{ApprovalId, RequestId, ResumeToken, SessionId, Ticket, TurnId};
use crate::input::{ResumeReply, Steer, TurnInput};
use crate::limits::Limits;
use crate::options::Configuring;
use crate::outcome::TurnOutcome;
use crate::reply::Reply;
use serde::{Deserialize, Serialize};
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
    /// The session's actor ended before it had begun: nothing else tells of that.
    NotBegun {
        /// Which session.
        session: SessionId,
        /// What kept it from beginning.
        why: String,
    },
    /// A deadline in the queue came due.
    Due,
    /// A session's actor has ended, and what it had said was heard. Said by the supervisor to itself.
    ActorEnded,
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
