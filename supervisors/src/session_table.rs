//! Live sessions and the callers waiting for their outcome.

use crate::deadlines::Key;
pub(crate) use crate::turn_clock::{ApprovalTask, Clock, OpenQuestion};
use bob_actors::turn::Ending;
use bob_messages::agent::ChildTurn;
use bob_messages::error::AgentError;
use bob_messages::ids::{SessionId, TenantId, TurnId};
use bob_messages::input::Steer;
use bob_messages::options::{Configuring, OnParentEnd, ParentTurn};
use bob_messages::outcome::{EndReason, TurnOutcome};
use bob_messages::reply::{Pulse, Reply};
use bob_messages::turn::TurnMessage;
use bob_messages::turn_config::TurnConfig;
use foldhash::fast::RandomState;
use ractor::{ActorId, ActorRef};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

/// The most further callers of one submission.
const MOST_SHARED: u32 = 64;

/// Sends the outcome of a turn, or the error with which it was refused.
pub(crate) type OutcomeReply = Reply<Result<Box<TurnOutcome>, AgentError>>;

/// All sessions that have an actor or a pending reply. A reply is taken out of the table when it is sent, so no
/// caller is answered twice. Owned by the sessions supervisor; it starts and stops no actor itself.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    /// Each in a box: the map has up to twice the room that it needs.
    sessions: HashMap<SessionId, Box<SessionEntry>, RandomState>,
    by_actor: HashMap<ActorId, SessionId, RandomState>,
}

#[derive(Debug)]
pub(crate) struct SessionEntry {
    /// `None` between the end of one actor and the start of the next.
    pub(crate) actor: Option<ActorRef<TurnMessage>>,
    /// Counts the signs of life of the running turn.
    pub(crate) pulse: Pulse,
    /// Why the actor is stopped; the actor reads it while it stops.
    pub(crate) ending: Arc<OnceLock<Ending>>,
    /// The turn configuration for an actor that is started again.
    pub(crate) turn_config: Arc<TurnConfig>,
    /// Callers waiting for an outcome. The first one's turn runs, if it was admitted.
    pub(crate) pending: VecDeque<PendingReply>,
    /// How often the actor crashed in the running turn.
    pub(crate) crashes: u32,
    /// Why the running turn is to be closed, until it is: its actor was stopped, and the next one may crash as well.
    pub(crate) closing: Option<EndReason>,
    /// The turn of a sub-agent whose call has ended, until an actor has closed it. Each session works for one call, so
    /// there is one such turn.
    pub(crate) given_up: Option<TurnId>,
    pub(crate) last_crash: Option<Box<str>>,
    /// Set while the actor is being stopped.
    pub(crate) stopping: Option<Leaving>,
    /// Whether it has one of the slots for running turns.
    pub(crate) has_slot: bool,
    pub(crate) slot_of: Option<TenantId>,
    /// A turn without a caller, left by an earlier process. It runs before the first pending reply's.
    pub(crate) recovered: Option<Box<RecoveredTurn>>,
    /// Steer messages that are not yet known to be taken.
    pub(crate) steers: Vec<(Steer, Reply<Result<bool, AgentError>>)>,
    /// Callers waiting until the actor has sent its unsaved records to the store, in order.
    pub(crate) readers: VecDeque<Reply<()>>,
    /// When the session entered its current state.
    pub(crate) since: Instant,
    /// The deadline that checks whether the session has been idle for long.
    pub(crate) idle_check: Option<Key>,
    /// Changes of its options that are not confirmed yet, oldest first; most sessions have none.
    pub(crate) changes: Vec<PendingChange>,
    /// The sub-agents that work for its turns.
    pub(crate) children: Vec<ChildTurn>,
    /// Whether a sub-agent may outlive a turn of it: its result is taken up by an actor, so one is started again.
    pub(crate) is_followed: bool,
    /// How many sessions below it ask a person; its time stands still meanwhile.
    pub(crate) asking_below: usize,
    /// Whether it counts there above, since it asks.
    pub(crate) asks_above: bool,
}

/// A change of a session's options that is not confirmed yet. It needs no slot and has no clock.
#[derive(Debug)]
pub(crate) struct PendingChange {
    /// The change. It is sent again to an actor that is started again, which applies it once.
    pub(crate) asked: Arc<Configuring>,
    pub(crate) reply: Reply<Result<(), AgentError>>,
}

/// A turn without a caller: an earlier process left it.
#[derive(Debug)]
pub(crate) struct RecoveredTurn {
    pub(crate) submission: TurnId,
    /// Another one than the submission, if it was resumed.
    pub(crate) turn: TurnId,
    pub(crate) clock: Clock,
}

#[derive(Debug)]
pub(crate) struct PendingReply {
    pub(crate) submission: TurnId,
    /// The turn that it begins, or resumes: until that is known, it has the name of the submission.
    pub(crate) turn: TurnId,
    /// The tenant it is made for, where it is known.
    pub(crate) tenant: Option<TenantId>,
    /// The submission. It is sent again to an actor that is started again, which begins it once.
    pub(crate) request: TurnMessage,
    pub(crate) reply: OutcomeReply,
    /// How many further callers it has.
    pub(crate) shared: u32,
    /// Runs from when the submission is the first of its session.
    pub(crate) clock: Clock,
    /// Whether it was admitted and sent to the session's actor. Those still queued stand behind those that were
    /// admitted.
    pub(crate) admitted: bool,
    /// Whether it was sent to an earlier actor, here or in another process, which may have journaled it.
    pub(crate) is_repeated: bool,
    /// Whether it was cancelled while it waited; that is sent again to an actor that is started again.
    pub(crate) cancelled: bool,
    pub(crate) submitted_at: Instant,
    /// When the caller first asked for its cancellation.
    pub(crate) cancel_asked: Option<Instant>,
}

/// An actor that is being stopped.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) reason: EndReason,
    /// The turn that is ended by the stop.
    pub(crate) submission: Option<TurnId>,
    pub(crate) ended: bool,
    /// Whether the actor has sent all its reports.
    pub(crate) reported_all: bool,
    /// When the actor is killed if it has not ended.
    pub(crate) kill_at: Key,
}

impl PendingReply {
    /// The call of another session that the submission works for.
    pub(crate) fn parent(&self) -> Option<&ParentTurn> {
        match &self.request {
            TurnMessage::Start { input, .. } => input.options.as_ref()?.parent.as_ref(),
            TurnMessage::Resume { parent, .. } => parent.as_deref(),
            _has_no_options => None,
        }
    }

    /// Whether it works for a call that goes on when the turn that made it has ended.
    pub(crate) fn outlives(&self) -> bool {
        let parent = self.parent().filter(|parent| parent.line.is_some());
        parent.is_some_and(|parent| parent.on_parent_end == Some(OnParentEnd::Continue))
    }

    /// Whether the submission may be in the journal although this session's actor has not received it: an earlier actor was
    /// sent it, or it is of a call of an agent, which is made again after a crash of its caller.
    pub(crate) fn may_be_journaled(&self) -> bool {
        self.is_repeated || self.parent().is_some_and(|parent| parent.line.is_some())
    }

    /// Sends the outcome to one more caller, or gives the reply back when too many wait for it.
    pub(crate) fn share_with(&mut self, other: OutcomeReply) -> Result<(), OutcomeReply> {
        if self.shared >= MOST_SHARED {
            return Err(other);
        }
        self.shared += 1;
        let first = std::mem::replace(&mut self.reply, Reply::to(|_nobody_yet| ()));
        // Dropping it without an answer drops both.
        self.reply = Reply::to(move |answer: Option<Result<Box<TurnOutcome>, AgentError>>| {
            if let Some(answer) = answer {
                first.send(answer.clone());
                other.send(answer);
            }
        });
        Ok(())
    }

    /// Whether this is the outcome of an earlier request with this request id, whose end was announced then.
    pub(crate) fn repeats(&self, outcome: &TurnOutcome) -> bool {
        matches!(&self.request, TurnMessage::Start { input, .. } if input.turn != outcome.turn_id
            && input.request_id.is_some()
            && input.request_id == outcome.request_id)
    }
}

impl SessionEntry {
    pub(crate) fn new(turn_config: Arc<TurnConfig>) -> Self {
        Self {
            actor: None,
            pulse: Pulse::counting(),
            ending: Arc::default(),
            turn_config,
            pending: VecDeque::new(),
            crashes: 0,
            closing: None,
            given_up: None,
            last_crash: None,
            stopping: None,
            has_slot: false,
            slot_of: None,
            recovered: None,
            steers: Vec::new(),
            readers: VecDeque::new(),
            since: Instant::now(),
            idle_check: None,
            changes: Vec::new(),
            children: Vec::new(),
            is_followed: false,
            asking_below: 0,
            asks_above: false,
        }
    }

    pub(crate) fn running(&self) -> Option<&TurnId> {
        let recovered = self.recovered.as_ref().map(|recovered| &recovered.submission);
        recovered.or_else(|| self.pending.front().filter(|first| first.admitted).map(|first| &first.submission))
    }

    /// The running turn itself, of which its children and its outcome have the name.
    pub(crate) fn running_turn(&self) -> Option<&TurnId> {
        let recovered = self.recovered.as_ref().map(|recovered| &recovered.turn);
        recovered.or_else(|| self.pending.front().filter(|first| first.admitted).map(|first| &first.turn))
    }

    pub(crate) fn clock_mut(&mut self) -> Option<&mut Clock> {
        match &mut self.recovered {
            Some(recovered) => Some(&mut recovered.clock),
            None => self.pending.front_mut().filter(|first| first.admitted).map(|first| &mut first.clock),
        }
    }

    /// The clock of `turn`, if that is the one that runs.
    pub(crate) fn clock_of(&mut self, turn: &TurnId) -> Option<&mut Clock> {
        if self.running() == Some(turn) { self.clock_mut() } else { None }
    }

    /// How many submissions are queued and not admitted.
    pub(crate) fn queued_count(&self) -> usize {
        self.pending.iter().rev().take_while(|pending| !pending.admitted).count()
    }

    /// The tenant of the first submission that is queued.
    pub(crate) fn queued_for(&self) -> Option<&TenantId> {
        self.pending.iter().find(|pending| !pending.admitted)?.tenant.as_ref()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.actor.is_some() && self.stopping.is_none() && self.has_nothing_to_do()
    }

    /// Whether there is a submission without an answer, a recovered turn, or one that is to be closed.
    fn has_turn(&self) -> bool {
        !self.pending.is_empty() || self.recovered.is_some() || self.given_up.is_some()
    }

    /// Whether no turn is left, no change waits, and no child, which would report to the actor, works.
    pub(crate) fn has_nothing_to_do(&self) -> bool {
        !self.has_turn() && self.changes.is_empty() && self.children.is_empty()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.actor.is_none() && self.stopping.is_none() && self.pending.is_empty() && self.changes.is_empty()
    }

    /// Takes a pending reply out of the table, so that it is answered once.
    pub(crate) fn take(&mut self, submission: &TurnId) -> Option<PendingReply> {
        let at = self.pending.iter().position(|pending| pending.submission == *submission)?;
        let pending = self.pending.remove(at);
        if self.pending.is_empty() {
            // Most sessions are idle most of the time; an empty queue would keep its capacity.
            self.pending.shrink_to_fit();
        }
        pending
    }
}

impl SessionTable {
    pub(crate) fn get_mut(&mut self, session: &SessionId) -> Option<&mut SessionEntry> {
        self.sessions.get_mut(session).map(Box::as_mut)
    }

    /// The session's entry, inserted if there is none.
    pub(crate) fn entry(&mut self, session: &SessionId, turn_config: &Arc<TurnConfig>) -> &mut SessionEntry {
        self.sessions.entry(session.clone()).or_insert_with(|| Box::new(SessionEntry::new(Arc::clone(turn_config))))
    }

    pub(crate) fn actor_started(&mut self, session: &SessionId, actor: ActorRef<TurnMessage>) {
        self.by_actor.insert(actor.get_id(), session.clone());
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.actor = Some(actor);
        }
    }

    /// Removes an actor that ended. Returns its session, unless the actor is unknown or was replaced.
    pub(crate) fn actor_ended(&mut self, actor: ActorId) -> Option<SessionId> {
        let session = self.by_actor.remove(&actor)?;
        let entry = self.sessions.get_mut(&session)?;
        entry.actor.take_if(|current| current.get_id() == actor)?;
        Some(session)
    }

    pub(crate) fn remove(&mut self, session: &SessionId) -> Option<Box<SessionEntry>> {
        let entry = self.sessions.remove(session);
        // Give memory back after a burst.
        shrink(&mut self.sessions);
        shrink(&mut self.by_actor);
        entry
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SessionId, &SessionEntry)> {
        self.sessions.iter().map(|(session, entry)| (session, &**entry))
    }

    /// No turn is waited for any longer whose actor was told that its call has ended, and has not closed it.
    pub(crate) fn close_none(&mut self) {
        self.sessions.values_mut().filter(|entry| entry.stopping.is_none()).for_each(|entry| entry.given_up = None);
    }

    /// Whether any session has a pending reply or change, or a running turn, or one that is being closed.
    pub(crate) fn has_work(&self) -> bool {
        self.sessions.values().any(|entry| entry.has_turn() || !entry.changes.is_empty())
    }
}

/// Shrinks a map that is mostly empty: rarely, so that a removal stays cheap.
fn shrink<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.capacity() > 1_024 && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
#[path = "session_table_tests.rs"]
mod tests;
