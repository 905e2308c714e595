//! The guest book: each session's actor, and who is owed an answer.
//!
//! Whoever submits is owed exactly one answer, however the turn ends. An entry is
//! paid by taking it out, so nobody can be paid twice. Owned by the sessions
//! supervisor; it starts and stops nobody itself.

use crate::deadlines::Key;
use bob_actors::turn::{Ending, TimeRun};
use bob_messages::brief::Brief;
use bob_messages::error::AgentError;
use bob_messages::ids::{ApprovalId, SessionId, TurnId};
use bob_messages::input::Steer;
use bob_messages::limits::Limits;
use bob_messages::options::Configuring;
use bob_messages::outcome::{EndReason, TurnOutcome};
use bob_messages::reply::Reply;
use bob_messages::turn::TurnMessage;
use ractor::{ActorId, ActorRef};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Where an outcome or a refusal goes.
pub(crate) type Owe = Reply<Result<Box<TurnOutcome>, AgentError>>;

/// All sessions with an actor or a debt.
#[derive(Debug, Default)]
pub(crate) struct GuestBook {
    guests: HashMap<SessionId, Guest>,
    by_actor: HashMap<ActorId, SessionId>,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Its actor; `None` between the end of one and the start of the next.
    pub(crate) actor: Option<ActorRef<TurnMessage>>,
    /// Why that actor is stopped; read by it while it stops.
    pub(crate) ending: Arc<OnceLock<Ending>>,
    /// How turns of this session are run, for an actor that is started again.
    pub(crate) brief: Arc<Brief>,
    /// Who is owed an answer; the first one's turn runs, if it was let in.
    pub(crate) owed: VecDeque<Owed>,
    /// How often the actor crashed in the running turn.
    pub(crate) crashes: u32,
    /// What it last crashed of.
    pub(crate) crashed_of: Option<Box<str>>,
    /// Set while the actor is being stopped.
    pub(crate) leaving: Option<Leaving>,
    /// Whether it has one of the places for running turns.
    pub(crate) has_place: bool,
    /// A turn that nobody here is owed and that runs before the first debt's: an
    /// earlier process left it.
    pub(crate) ahead: Option<Box<Ahead>>,
    /// What was said into its turn and is not known to be taken.
    pub(crate) steers: Vec<(Steer, Reply<Result<bool, AgentError>>)>,
    /// Who waits until what the actor has written is sent to the store, first come first.
    pub(crate) readers: VecDeque<Reply<()>>,
    /// Since when it does what it does now.
    pub(crate) since: Instant,
    /// Its entry among the deadlines that looks whether it is idle for long.
    pub(crate) idle_check: Option<Key>,
    /// Changes of its options nobody was told of yet, oldest first; most sessions have none.
    pub(crate) errands: Vec<Errand>,
}

/// A change of a session's options on its way. It needs no place and has no clock.
#[derive(Debug)]
pub(crate) struct Errand {
    /// What is to be; said again to an actor that is started again, which does it once.
    pub(crate) asked: Arc<Configuring>,
    /// Who is told.
    pub(crate) reply: Reply<Result<(), AgentError>>,
}

/// A turn nobody here is owed.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Under which submission it runs.
    pub(crate) turn: TurnId,
    /// Its time.
    pub(crate) clock: Clock,
}

/// The time of one turn: what it may take, and what of that is left.
#[derive(Debug)]
pub(crate) struct Clock {
    /// How long the turn may take, in milliseconds, from when it is first.
    timeout_ms: u64,
    /// How long a person may take to decide, in milliseconds.
    pub(crate) approval_timeout_ms: u64,
    /// When it began to run.
    pub(crate) began: Option<Instant>,
    /// Its deadline while the clock runs.
    pub(crate) deadline: Option<Key>,
    /// The questions to a person.
    pub(crate) approvals: Vec<OpenQuestion>,
    /// What was left when the clock was paused, in milliseconds.
    pub(crate) left_ms: Option<u64>,
}

/// A question to a person.
#[derive(Debug)]
pub(crate) struct OpenQuestion {
    /// Which.
    pub(crate) approval: ApprovalId,
    /// Its deadline.
    pub(crate) key: Key,
    /// Held for as long as the port is asked.
    pub(crate) _asking: Option<Asking>,
}

/// A question that was put to the port. Dropping it takes the question back.
#[derive(Debug)]
pub(crate) struct Asking(pub(crate) AbortHandle);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One debt.
#[derive(Debug)]
pub(crate) struct Owed {
    /// Which submission.
    pub(crate) submission: TurnId,
    /// What was submitted; said again to an actor that is started again, which
    /// takes it up once.
    pub(crate) request: TurnMessage,
    /// Who is owed.
    pub(crate) reply: Owe,
    /// Its time; runs from when it is first.
    pub(crate) clock: Clock,
    /// Whether it was let in and said to the session's actor. Those that wait at the
    /// door come behind those that do not.
    pub(crate) let_in: bool,
    /// Whether it was said to an actor before this one, which may have journaled it.
    pub(crate) said_again: bool,
    /// Whether it was cancelled while it waited; an actor that is started again is
    /// told so, too.
    pub(crate) cancelled: bool,
    /// When it was handed in.
    pub(crate) came: Instant,
    /// When its cancel was asked for, the first time.
    pub(crate) cancel_asked: Option<Instant>,
}

/// An actor on its way out.
#[derive(Debug)]
pub(crate) struct Leaving {
    /// Why.
    pub(crate) reason: EndReason,
    /// Whose turn this ends.
    pub(crate) submission: Option<TurnId>,
    /// The actor has ended.
    pub(crate) ended: bool,
    /// It has said all it had to say.
    pub(crate) said_all: bool,
    /// When it is killed if it has not ended.
    pub(crate) kill_at: Key,
}

impl Clock {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            timeout_ms: limits.turn_timeout_ms,
            approval_timeout_ms: limits.approval_timeout_ms,
            began: None,
            deadline: None,
            approvals: Vec::new(),
            left_ms: None,
        }
    }

    /// What the clock shows when it starts or goes on, in milliseconds.
    pub(crate) fn take_left_ms(&mut self) -> u64 {
        self.left_ms.take().unwrap_or(self.timeout_ms)
    }

    /// How long its turn has run, for an actor that goes on with it.
    pub(crate) fn has_run(&self) -> TimeRun {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let left_ms = self.deadline.map(|key| millis(key.0.saturating_duration_since(Instant::now()))).or(self.left_ms);
        let ran_ms = left_ms.map_or(0, |left_ms| self.timeout_ms.saturating_sub(left_ms));
        TimeRun { lasted_ms: self.began.map_or(0, |began| millis(began.elapsed())), ran_ms }
    }

    /// Whether it stands still because a person is asked.
    pub(crate) fn is_paused(&self) -> bool {
        self.left_ms.is_some()
    }

    /// Sets it back to the whole time, stopped; these entries are no longer wanted.
    pub(crate) fn reset(&mut self) -> impl Iterator<Item = Key> + use<> {
        (self.left_ms, self.began) = (None, None);
        let questions = std::mem::take(&mut self.approvals);
        self.deadline.take().into_iter().chain(questions.into_iter().map(|question| question.key))
    }
}

impl Owed {
    /// The same is owed to one more.
    pub(crate) fn also_to(&mut self, other: Owe) {
        let first = std::mem::replace(&mut self.reply, Reply::to(|_nobody_yet| ()));
        // Dropped without an answer, it drops both.
        self.reply = Reply::to(move |answer: Option<Result<Box<TurnOutcome>, AgentError>>| {
            if let Some(answer) = answer {
                first.send(answer.clone());
                other.send(answer);
            }
        });
    }

    /// Whether this is the outcome of an earlier request of the same name: its end was
    /// announced then.
    pub(crate) fn repeats(&self, outcome: &TurnOutcome) -> bool {
        matches!(&self.request, TurnMessage::Start { input, .. } if input.turn != outcome.turn_id
            && input.request_id.is_some()
            && input.request_id == outcome.request_id)
    }
}

impl Guest {
    pub(crate) fn new(brief: Arc<Brief>) -> Self {
        Self {
            actor: None,
            ending: Arc::default(),
            brief,
            owed: VecDeque::new(),
            crashes: 0,
            crashed_of: None,
            leaving: None,
            has_place: false,
            ahead: None,
            steers: Vec::new(),
            readers: VecDeque::new(),
            since: Instant::now(),
            idle_check: None,
            errands: Vec::new(),
        }
    }

    /// The turn that runs, as far as is known here.
    pub(crate) fn running(&self) -> Option<&TurnId> {
        let ahead = self.ahead.as_ref().map(|ahead| &ahead.turn);
        ahead.or_else(|| self.owed.front().filter(|first| first.let_in).map(|first| &first.submission))
    }

    /// The clock of the turn that runs.
    pub(crate) fn clock_mut(&mut self) -> Option<&mut Clock> {
        match &mut self.ahead {
            Some(ahead) => Some(&mut ahead.clock),
            None => self.owed.front_mut().filter(|first| first.let_in).map(|first| &mut first.clock),
        }
    }

    /// The same if it is this turn that runs.
    pub(crate) fn clock_of(&mut self, turn: &TurnId) -> Option<&mut Clock> {
        if self.running() == Some(turn) { self.clock_mut() } else { None }
    }

    /// How many submissions wait at the door.
    pub(crate) fn at_door(&self) -> usize {
        self.owed.iter().rev().take_while(|owed| !owed.let_in).count()
    }

    /// Whether its actor has nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        let owes_nothing = self.owed.is_empty() && self.ahead.is_none() && self.errands.is_empty();
        self.actor.is_some() && self.leaving.is_none() && owes_nothing
    }

    /// Whether there is nothing to keep of it.
    pub(crate) fn is_gone(&self) -> bool {
        self.actor.is_none() && self.leaving.is_none() && self.owed.is_empty() && self.errands.is_empty()
    }

    /// Takes a debt out of the book: it is paid once.
    pub(crate) fn take(&mut self, submission: &TurnId) -> Option<Owed> {
        let at = self.owed.iter().position(|owed| owed.submission == *submission)?;
        let owed = self.owed.remove(at);
        if self.owed.is_empty() {
            // Most sessions are idle most of the time, and an empty queue keeps its room.
            self.owed.shrink_to_fit();
        }
        owed
    }
}

impl GuestBook {
    pub(crate) fn get_mut(&mut self, session: &SessionId) -> Option<&mut Guest> {
        self.guests.get_mut(session)
    }

    /// The session's entry, made when there is none.
    pub(crate) fn entry(&mut self, session: &SessionId, brief: &Arc<Brief>) -> &mut Guest {
        self.guests.entry(session.clone()).or_insert_with(|| Guest::new(Arc::clone(brief)))
    }

    /// The session's actor started.
    pub(crate) fn moved_in(&mut self, session: &SessionId, actor: ActorRef<TurnMessage>) {
        self.by_actor.insert(actor.get_id(), session.clone());
        if let Some(guest) = self.guests.get_mut(session) {
            guest.actor = Some(actor);
        }
    }

    /// An actor ended: whose it was. Unknown and earlier actors are nobody's.
    pub(crate) fn moved_out(&mut self, actor: ActorId) -> Option<SessionId> {
        let session = self.by_actor.remove(&actor)?;
        let guest = self.guests.get_mut(&session)?;
        guest.actor.take_if(|current| current.get_id() == actor)?;
        Some(session)
    }

    pub(crate) fn remove(&mut self, session: &SessionId) -> Option<Guest> {
        let guest = self.guests.remove(session);
        // A book that was thick once does not keep its pages.
        shrink(&mut self.guests);
        shrink(&mut self.by_actor);
        guest
    }

    /// How many sessions are in it.
    pub(crate) fn len(&self) -> usize {
        self.guests.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SessionId, &Guest)> {
        self.guests.iter()
    }

    /// Whether somebody is owed an answer, or a turn runs that nobody is owed.
    pub(crate) fn owes(&self) -> bool {
        self.guests.values().any(|guest| !guest.owed.is_empty() || guest.ahead.is_some() || !guest.errands.is_empty())
    }
}

/// Gives room back that is not used any more: seldom, so that it costs little at each removal.
fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > 1_024 && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
#[path = "guests_tests.rs"]
mod tests;
