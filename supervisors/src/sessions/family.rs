//! Sessions that work for calls of others: the place in which they run, and their end.
//!
//! The supervisor knows which children work for the running turn of a session. When that turn is stopped or has ended,
//! they are cancelled, and so are those below them. A crash of its actor is no end: the next actor makes the call again,
//! and finds the child at work.

use super::{Myself, SessionsState};
use crate::deadlines::Due;
use crate::session_table::{PendingReply, SessionEntry};
use bob_messages::agent::{ChildTurn, MAX_DEPTH};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::options::OnParentEnd;
use bob_messages::outcome::EndReason;
use bob_messages::reply::Pulse;
use bob_messages::turn::{Recover, TurnMessage};
use std::sync::Arc;
use tokio::time::Instant;

impl SessionsState {
    pub(super) fn has_its_parents_place(&mut self, pending: &PendingReply) -> bool {
        let above = pending.parent().and_then(|parent| self.table.get_mut(&parent.session));
        above.is_some_and(|above| above.running().is_some() && above.stopping.is_none())
    }

    /// Notes that a submission works for a call of an agent. Returns the signs of life of its parent.
    pub(super) fn note_child(&mut self, session: &SessionId, pending: &PendingReply) -> Option<Pulse> {
        let parent = pending.parent().filter(|parent| parent.line.is_some())?;
        let above = self.table.get_mut(&parent.session)?;
        let child = ChildTurn::of(session.clone(), pending.submission.clone(), parent);
        above.is_followed |= child.outlives;
        above.children.push(child);
        Some(above.pulse.clone())
    }

    /// The session that waits for this one, if it works for a call of an agent. None waits for one in the background.
    pub(super) fn above(&mut self, session: &SessionId) -> Option<SessionId> {
        waits_for(self.table.get_mut(session)?.pending.front()?)
    }

    /// The session asks a person: the time of those that wait for it stands still.
    pub(super) fn pause_above(&mut self, session: &SessionId) {
        let mut above = self.above(session);
        let Some(entry) = self.table.get_mut(session).filter(|entry| !entry.asks_above) else { return };
        entry.asks_above = above.is_some();
        while let Some(id) = above {
            let Some(entry) = self.table.get_mut(&id) else { return };
            entry.asking_below += 1;
            if entry.asking_below == 1 {
                let signs = entry.pulse.signs();
                if let Some(key) = entry.clock_mut().and_then(|clock| clock.pause(Instant::now(), signs)) {
                    self.deadlines.remove(key);
                }
                self.send(&id, TurnMessage::AskedBelow { asking: true });
            }
            above = self.above(&id);
        }
    }

    /// The session asks no longer: the time of those above goes on, unless others below them ask.
    pub(super) fn go_on_above(&mut self, session: &SessionId, above: Option<SessionId>, myself: &Myself) {
        if self.table.get_mut(session).is_some_and(|entry| std::mem::take(&mut entry.asks_above)) {
            self.ask_less_above(above, 1, myself);
        }
    }

    /// The turn of the session ends, and so do the questions below it: the time of those above goes on. Called while the
    /// submission that names those above is still there.
    pub(super) fn none_asks_below(&mut self, session: &SessionId, myself: &Myself) {
        let asking = self.table.get_mut(session).map_or(0, |entry| std::mem::take(&mut entry.asking_below));
        let above = self.above(session).filter(|_| asking > 0);
        self.ask_less_above(above, asking, myself);
    }

    /// So many sessions fewer ask a person below these.
    fn ask_less_above(&mut self, mut above: Option<SessionId>, fewer: usize, myself: &Myself) {
        while let Some(id) = above {
            let Some(entry) = self.table.get_mut(&id) else { return };
            if entry.asking_below == 0 {
                // Its turn has ended or is being stopped: they do not count there and above it any more.
                return;
            }
            entry.asking_below = entry.asking_below.saturating_sub(fewer);
            if entry.asking_below == 0 {
                let (signs, running) = (entry.pulse.signs(), entry.running().cloned());
                let clock = entry.clock_mut().filter(|clock| clock.approvals.is_empty() && clock.is_paused());
                if let Some((clock, turn)) = clock.zip(running) {
                    let at = clock.run(Instant::now(), signs);
                    clock.deadline = Some(self.deadlines.insert(at, Due::Turn(id.clone(), turn), myself));
                }
                self.send(&id, TurnMessage::AskedBelow { asking: false });
            }
            above = self.above(&id);
        }
    }

    /// The submission has its answer.
    pub(super) fn forget_child(&mut self, session: &SessionId, pending: &PendingReply, myself: &Myself) {
        self.go_on_above(session, waits_for(pending), myself);
        let Some(above) = pending.parent().map(|parent| parent.session.clone()) else { return };
        if let Some(entry) = self.table.get_mut(&above) {
            entry.children.retain(|child| child.session != *session || child.turn != pending.submission);
            // Its actor may have been kept for the child alone.
            self.check_idle(&above, myself);
        }
    }

    /// Closes the turn of a child whose parent was closed: one that runs is cancelled, one that is only in the journal is
    /// closed there.
    pub(super) fn close_orphan(&mut self, parent: &SessionId, child: &SessionId, myself: &Myself) {
        let Some(turn_config) = self.table.get_mut(parent).map(|entry| Arc::clone(&entry.turn_config)) else { return };
        if self.table.get_mut(child).is_some_and(|entry| !entry.is_idle()) {
            self.cancel(child, None, myself);
            return;
        }
        let entry = self.table.entry(child, &turn_config);
        if entry.actor.is_none() {
            self.open(child, myself);
            let recover = Recover::Close(EndReason::Cancelled);
            self.send(child, TurnMessage::Wake { turn_config, recover });
            self.check_idle(child, myself);
        }
    }

    /// Closes the turn of a child that is suspended, since its call has ended; one that runs or has ended is left alone. A
    /// later process would show it as waiting for a person, so the end of this one waits for it.
    pub(super) fn give_up_child(&mut self, parent: &SessionId, child: &SessionId, turn: TurnId, myself: &Myself) {
        let Some(turn_config) = self.table.get_mut(parent).map(|entry| Arc::clone(&entry.turn_config)) else { return };
        self.table.entry(child, &turn_config).given_up = Some(turn);
        self.tell_given_up(child, myself);
    }

    /// Tells the session's actor which turn it is to close, if there is one. An actor that is being stopped is not told, but
    /// the next one is: a caller that is a sub-agent has no later turn that would repeat it.
    pub(super) fn tell_given_up(&mut self, session: &SessionId, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session).filter(|entry| entry.stopping.is_none()) else { return };
        let Some(turn) = entry.given_up.clone() else { return };
        let turn_config = Arc::clone(&entry.turn_config);
        if entry.actor.is_none() {
            self.open(session, myself);
        }
        self.send(session, TurnMessage::GivenUp { turn, turn_config });
        self.check_idle(session, myself);
    }

    /// The turn of a session whose call has ended is closed.
    pub(super) fn closed(&mut self, session: &SessionId, myself: &Myself) {
        if let Some(entry) = self.table.get_mut(session) {
            entry.given_up = None;
            if entry.running().is_none() {
                entry.crashes = 0;
            }
        }
        self.check_idle(session, myself);
        self.check_drained();
    }

    /// Whether a session works for a call that no turn waits for any longer, and continues in the next process; so do those
    /// below it.
    pub(super) fn continues_elsewhere(&mut self, session: &SessionId) -> bool {
        let mut at = session.clone();
        // Requests of programs may name each other as their callers.
        for _ in 0..=MAX_DEPTH {
            let parent = self.table.get_mut(&at).and_then(|entry| entry.pending.front()?.parent().cloned());
            let Some(parent) = parent.filter(|parent| parent.line.is_some()) else { return false };
            let above = self.table.get_mut(&parent.session);
            let runs = above.is_some_and(|above| above.running_turn() == Some(&parent.turn));
            if parent.on_parent_end == Some(OnParentEnd::Continue) && !runs {
                return true;
            }
            at = parent.session;
        }
        false
    }

    /// Cancels children in the background whose turn ends now.
    pub(super) fn end_tasks(&mut self, children: &[(SessionId, TurnId)], myself: &Myself) {
        for (child, turn) in children {
            self.cancel(child, Some(turn), myself);
        }
    }

    /// Cancels what works for the turn of the session, which is stopped for this reason.
    pub(super) fn stop_children(&mut self, session: &SessionId, reason: EndReason, myself: &Myself) {
        self.cancel_children(session, |child| child.ends_with_stop(reason), myself);
    }

    /// Cancels what works for the turn of the session, which has ended; `cancelled` is the turn if it was cancelled, and no
    /// child outlives that one. Others stay, in places of their own.
    pub(super) fn end_children(&mut self, session: &SessionId, cancelled: Option<&TurnId>, myself: &Myself) {
        self.cancel_children(session, |child| child.ends_with_turn(cancelled), myself);
        let left = self.table.get_mut(session).map(|entry| entry.children.iter().map(|child| child.session.clone()));
        for child in left.map(Iterator::collect::<Vec<_>>).unwrap_or_default() {
            self.take_slot(&child);
            if let Some(entry) = self.table.get_mut(&child) {
                entry.pulse.leave();
            }
        }
    }

    /// A session whose turn runs has a slot from now on, even beyond the limit.
    fn take_slot(&mut self, session: &SessionId) {
        let without = |entry: &&mut SessionEntry| !entry.has_slot && entry.running().is_some();
        if let Some(entry) = self.table.get_mut(session).filter(without) {
            entry.has_slot = true;
            entry.slot_of = entry.pending.iter().find(|pending| pending.admitted).and_then(|one| one.tenant.clone());
            self.admission.slot_taken(entry.slot_of.as_ref());
            self.admission.leave_queue(session);
        }
    }

    fn cancel_children(&mut self, session: &SessionId, ends: impl Fn(&ChildTurn) -> bool, myself: &Myself) {
        self.none_asks_below(session, myself);
        let Some(entry) = self.table.get_mut(session) else { return };
        let (ended, left): (Vec<_>, Vec<_>) = std::mem::take(&mut entry.children).into_iter().partition(ends);
        entry.children = left;
        for ChildTurn { session: child, turn, .. } in ended {
            // Its question no longer counts above.
            if let Some(entry) = self.table.get_mut(&child) {
                entry.asks_above = false;
            }
            self.cancel(&child, Some(&turn), myself);
        }
    }
}

/// The session that waits for this submission, if it works for a call that does.
fn waits_for(pending: &PendingReply) -> Option<SessionId> {
    let parent = pending.parent().filter(|parent| parent.line.is_some() && parent.on_parent_end.is_none());
    parent.map(|parent| parent.session.clone())
}
