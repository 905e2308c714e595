//! What a worker does with the messages of a session: decided here, done by the worker.
//!
//! A cancellation stays until the request that it names has ended, a message to the running turn until there is one or none is
//! to come. So a worker that dies, or has lost the session, loses neither. A worker that does not own the session settles
//! nothing that its owner may still use: what the journal has open is left alone.

use super::{InboxEntry, InboxRequest};
use crate::backoff::Backoff;
use crate::error::AgentError;
use crate::ids::{PoolName, RequestId};
use crate::outcome::TurnOutcome;
use crate::session_state::Session;
use crate::store::{Pools, StoreError};

/// After how many attempts a message is refused that fails by a fault of the runtime or of what it calls.
pub const MOST_ATTEMPTS: u32 = 5;

/// The rests behind failures that pass by themselves, and behind others.
const PASSING_REST: Backoff = Backoff { first_ms: 500, most_ms: 5_000 };
const REST: Backoff = Backoff { most_ms: 600_000, ..PASSING_REST };

/// What runs in the session in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs<'a> {
    /// Nothing, and what an earlier owner left open was finished.
    Nothing,
    /// The turn of this message.
    Message(&'a RequestId),
    /// Another turn: one that was left open, or that a decision resumed.
    Another,
}

/// What the session's journal says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// The requests whose turn is open, suspended ones excepted, or has not begun.
    pub requests: Vec<RequestId>,
    /// Whether a turn is open.
    pub is_open: bool,
    /// The newest messages to turns that were added to them.
    pub steered: Vec<RequestId>,
    /// The pool to which the session is bound.
    pub pool: Option<PoolName>,
    /// The messages that wait and have their outcome already: an earlier owner did not live to remove them.
    pub ended: Vec<RequestId>,
}

impl Unfinished {
    /// Of a session as its journal has it, and the messages that wait for it.
    pub fn of(session: &Session, messages: &[InboxEntry]) -> Self {
        let open = session.running();
        let named = open.iter().flat_map(|open| {
            let repliers = open.repliers.iter().filter_map(|replier| replier.request_id.clone());
            let own = [open.input.request_id.clone(), Some(RequestId::new(open.submission.as_str()))];
            own.into_iter().flatten().chain(repliers)
        });
        let waiting = session.waiting.iter().filter_map(|input| input.request_id.clone());
        let requests = named.chain(waiting).collect();
        let pool = session.latest_options().pool.clone();
        let has_ended = |request: &&RequestId| {
            session.first_outcome(request).is_some()
                || session.has_forgotten(request)
                || session.submissions.contains_request(request)
        };
        let ended = messages.iter().map(|entry| &entry.request_id).filter(has_ended).cloned().collect();
        Self { requests, is_open: open.is_some(), steered: session.steers.iter().cloned().collect(), pool, ended }
    }
}

/// What is done with a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// It waits.
    Wait,
    /// Its turn is begun; `is_cancelled` when the request was cancelled meanwhile: its turn ends at once.
    Run {
        /// Whether the request was cancelled.
        is_cancelled: bool,
    },
    /// The turn of this request, which runs here or waits for its place, is cancelled. The message stays.
    Cancel(RequestId),
    /// It is given to the runtime: a decision, a message to the running turn, or a change of options. It is done if the runtime
    /// takes it. Otherwise a decision is refused, and a message to the turn stays.
    Try,
    /// It is removed, or refused.
    Settle(Option<AgentError>),
}

/// What is done with each of the messages that wait, in their order, by a process of these pools. At most one of them is run, the
/// oldest.
pub fn steps(waiting: &[InboxEntry], runs: Runs<'_>, unfinished: &Unfinished, pools: &Pools) -> Vec<Step> {
    let cancels = |entry: &InboxEntry, request: &RequestId| match entry.request() {
        Some(InboxRequest::Cancel { of }) => of == request,
        _ => false,
    };
    // One that has its outcome is recognised when it is repeated, and not cancelled.
    let is_cancelled = |entry: &InboxEntry| {
        !unfinished.ended.contains(&entry.request_id) && waiting.iter().any(|other| cancels(other, &entry.request_id))
    };
    // What a newer program wrote is not overtaken by turns.
    let first = waiting.iter().position(is_turn);
    let of_first = first.and_then(|at| waiting.get(at)).and_then(InboxEntry::request);
    let away = of_first.filter(|_| runs == Runs::Nothing).and_then(|asked| elsewhere(asked, unfinished, pools));
    let step = |at: usize, entry: &InboxEntry| match (&entry.message, runs) {
        (Err(StoreError::TooNew { .. }), _) => Step::Wait,
        (Err(error), _) => Step::Settle(Some(AgentError::Invalid(error.to_string()))),
        (Ok(message), runs) => match (&message.request, runs) {
            // The pool may be empty for ever; no process of it is needed to forget what has not begun.
            (InboxRequest::Submit(_) | InboxRequest::Resume { .. }, Runs::Nothing)
                if away == Some(Step::Wait)
                    && is_cancelled(entry)
                    && !unfinished.requests.contains(&entry.request_id) =>
            {
                Step::Settle(Some(cancelled_before()))
            }
            (InboxRequest::Submit(_) | InboxRequest::Resume { .. }, Runs::Nothing) if first == Some(at) => {
                away.clone().unwrap_or_else(|| Step::Run { is_cancelled: is_cancelled(entry) })
            }
            (InboxRequest::Submit(_) | InboxRequest::Resume { .. }, _) => Step::Wait,
            (InboxRequest::Cancel { of }, Runs::Message(running)) if running == of => Step::Cancel(of.clone()),
            // One that was left open, or that a decision resumed; the message that runs may wait behind it.
            (InboxRequest::Cancel { of }, Runs::Message(_) | Runs::Another) if unfinished.requests.contains(of) => {
                Step::Cancel(of.clone())
            }
            (InboxRequest::Cancel { of }, _) => {
                let waits = waiting.iter().any(|other| is_submitted(other) && other.request_id == *of);
                match waits || unfinished.requests.contains(of) {
                    true => Step::Wait,
                    false => Step::Settle(None),
                }
            }
            (InboxRequest::Decide { .. }, _) => Step::Try,
            (InboxRequest::Configure { .. }, runs) => match (before(waiting, at), runs) {
                // It is in force from the next turn on, so the one before it must have begun.
                (Some(other), Runs::Message(running)) if other.request_id == *running && unfinished.is_open => {
                    Step::Try
                }
                (Some(_), _) => Step::Wait,
                (None, _) => Step::Try,
            },
            // An earlier owner added it, and did not live to remove it.
            (InboxRequest::Steer { .. }, _) if unfinished.steered.contains(&entry.request_id) => Step::Settle(None),
            (InboxRequest::Steer { .. }, runs) => match (before(waiting, at), runs) {
                (Some(other), Runs::Message(running)) if other.request_id == *running => Step::Try,
                (Some(other), Runs::Another) if unfinished.requests.contains(&other.request_id) => Step::Try,
                (Some(_), _) => Step::Wait,
                (None, Runs::Message(_) | Runs::Another) => Step::Try,
                (None, Runs::Nothing) if unfinished.is_open => Step::Wait,
                (None, Runs::Nothing) => {
                    Step::Settle(Some(AgentError::Invalid("no turn runs in the session".to_owned())))
                }
            },
        },
    };
    waiting.iter().enumerate().map(|(at, entry)| step(at, entry)).collect()
}

/// Why a message is refused that was cancelled before its turn began.
pub fn cancelled_before() -> AgentError {
    AgentError::Stopped("cancelled before its turn began; nothing was kept of the message".to_owned())
}

/// What is done with a message that asks for a turn in another pool.
fn elsewhere(request: &InboxRequest, unfinished: &Unfinished, pools: &Pools) -> Option<Step> {
    match (request.pool(), &unfinished.pool) {
        (Some(asked), Some(bound)) if asked != bound => {
            let why = format!("the session is bound to the pool {bound}, and the message to the pool {asked}");
            Some(Step::Settle(Some(AgentError::Invalid(why))))
        }
        (asked, bound) => (!pools.reach(asked.or(bound.as_ref()))).then_some(Step::Wait),
    }
}

/// The last turn that is asked for before a message, which is meant for that turn.
fn before(waiting: &[InboxEntry], at: usize) -> Option<&InboxEntry> {
    waiting.iter().take(at).rfind(|entry| is_turn(entry))
}

fn is_submitted(entry: &InboxEntry) -> bool {
    entry.request().is_some_and(InboxRequest::runs_a_turn)
}

/// Whether it asks for a turn, as far as it can be read.
fn is_turn(entry: &InboxEntry) -> bool {
    is_submitted(entry) || matches!(entry.message, Err(StoreError::TooNew { .. }))
}

/// What becomes of a message after an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    /// Its effect is in the journal: it is removed.
    Done,
    /// It can have no effect: its sender is told why.
    Refused(AgentError),
    /// It stays, and is taken again.
    Again(Failed),
}

/// An attempt that failed and may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Why, for people.
    pub why: String,
    /// Whether it counts towards [`MOST_ATTEMPTS`]. What passes by itself does not: the store is away, another process owns the
    /// session, there is too much to do.
    pub counts: bool,
}

impl Attempt {
    /// After a run of the turn that a message asked for.
    pub fn of_run(result: Result<&TurnOutcome, &AgentError>) -> Self {
        match result {
            Ok(outcome) if outcome.saved => Self::Done,
            Ok(outcome) => match &outcome.error {
                Some(error) => Self::again(error),
                None => Self::Again(Failed { why: "its end is not saved".to_owned(), counts: true }),
            },
            Err(error) => Self::of_error(error),
        }
    }

    /// After a request that was refused. What another process, or the same one later, may take is not refused for good.
    pub fn of_error(error: &AgentError) -> Self {
        match error {
            AgentError::Store(StoreError::Corrupt(_)) => Self::Refused(error.clone()),
            // What the store may have, is run by the next owner.
            AgentError::Stopped(_) | AgentError::Internal(_) | AgentError::Store(_) | AgentError::Kept(_) => {
                Self::again(error)
            }
            error if error.is_retryable() => Self::again(error),
            error => Self::Refused(error.clone()),
        }
    }

    fn again(error: &AgentError) -> Self {
        let passes = matches!(
            error,
            AgentError::Stopped(_)
                | AgentError::Store(_)
                | AgentError::Kept(_)
                | AgentError::Busy { .. }
                | AgentError::Overloaded { .. }
        );
        Self::Again(Failed { why: error.to_string(), counts: !passes })
    }

    /// With what came before it: a message whose attempts failed too often is refused.
    #[must_use]
    pub fn after(self, failures: u32) -> Self {
        match self {
            Self::Again(Failed { why, counts: true }) if failures + 1 >= MOST_ATTEMPTS => {
                Self::Refused(AgentError::Internal(format!("given up after {MOST_ATTEMPTS} attempts: {why}")))
            }
            attempt => attempt,
        }
    }
}

/// How long a session rests behind so many failures one after the other, at least 1, in milliseconds.
pub fn rest_ms(failures: u32, counts: bool) -> u64 {
    // Without chance: a session rests in each worker by itself.
    if counts { REST } else { PASSING_REST }.delay_ms(failures, 1.0)
}

#[cfg(test)]
mod attend_tests;
