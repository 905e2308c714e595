//! The guest book: each session's actor, and who is owed an answer.
//!
//! Whoever submits is owed exactly one answer, however the turn ends. An entry is
//! paid by taking it out, so nobody can be paid twice. Owned by the sessions
//! supervisor; it starts and stops nobody itself.

use crate::deadlines::Key;
use bob_actors::turn::Ending;
use bob_messages::error::AgentError;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::reply::Reply;
use bob_messages::sessions::{EndReason, TurnOutcome};
use bob_messages::turn::{Brief, TurnMessage};
use ractor::{ActorId, ActorRef};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

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
    /// Who is owed an answer; the first one's turn runs.
    pub(crate) owed: VecDeque<Owed>,
    /// How often the actor crashed in the running turn.
    pub(crate) crashes: u32,
    /// Set while the actor is being stopped.
    pub(crate) leaving: Option<Leaving>,
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
    /// How long the turn may take, in milliseconds, from when it is first.
    pub(crate) timeout_ms: u64,
    /// How long a person may take to decide, in milliseconds.
    pub(crate) approval_timeout_ms: u64,
    /// Its deadline while its clock runs.
    pub(crate) deadline: Option<Key>,
    /// The deadlines of questions to a person.
    pub(crate) approvals: Vec<Key>,
    /// What was left of its time when its clock was paused, in milliseconds.
    pub(crate) left_ms: Option<u64>,
    /// Whether it was cancelled while it waited; an actor that is started again is
    /// told so, too.
    pub(crate) cancelled: bool,
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
}

impl Owed {
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
        Self { actor: None, ending: Arc::default(), brief, owed: VecDeque::new(), crashes: 0, leaving: None }
    }

    /// Whether this debt is the one whose turn runs.
    pub(crate) fn is_first(&self, submission: &TurnId) -> bool {
        self.owed.front().is_some_and(|first| first.submission == *submission)
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
        self.guests.remove(session)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SessionId, &Guest)> {
        self.guests.iter()
    }

    /// Whether somebody is owed an answer.
    pub(crate) fn owes(&self) -> bool {
        self.guests.values().any(|guest| !guest.owed.is_empty())
    }
}

#[cfg(test)]
#[path = "guests_tests.rs"]
mod tests;
