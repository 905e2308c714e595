//! Sessions that work for calls of others: the place in which they run, and their end.
//!
//! The supervisor knows which children work for the running turn of a session. When that turn is stopped or has ended,
//! they are cancelled, and so are those below them. A crash of its actor is no end: the next actor makes the call again,
//! and finds the child at work.

use super::{Myself, SessionsState};
use crate::deadlines::Due;
use crate::session_table::PendingReply;
use bob_messages::ids::SessionId;
use bob_messages::outcome::EndReason;
use bob_messages::reply::Pulse;
use bob_messages::turn::{Recover, TurnMessage};
use std::sync::Arc;
use tokio::time::Instant;

impl SessionsState {
    /// Whether the turn that a submission works for runs.
    pub(super) fn has_its_parents_place(&mut self, pending: &PendingReply) -> bool {
        let above = pending.parent().and_then(|parent| self.table.get_mut(&parent.session));
        above.is_some_and(|above| above.running().is_some() && above.stopping.is_none())
    }

    /// Notes that a submission works for a call of an agent. Returns the signs of life of its parent, which are its own,
    /// too.
    pub(super) fn note_child(&mut self, session: &SessionId, pending: &PendingReply) -> Option<Pulse> {
        let parent = pending.parent().filter(|parent| parent.line.is_some())?;
        let above = self.table.get_mut(&parent.session)?;
        above.children.push((session.clone(), pending.submission.clone()));
        Some(above.pulse.clone())
    }

    /// The session that waits for this one, if it works for a call of an agent.
    pub(super) fn above(&mut self, session: &SessionId) -> Option<SessionId> {
        let running = self.table.get_mut(session)?.pending.front()?;
        running.parent().filter(|parent| parent.line.is_some()).map(|parent| parent.session.clone())
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
                if let Some(key) = entry.clock_mut().and_then(|clock| clock.pause(Instant::now())) {
                    self.deadlines.remove(key);
                }
                self.send(&id, TurnMessage::AskedBelow { asking: true });
            }
            above = self.above(&id);
        }
    }

    /// The session asks no longer: the time of those above goes on, unless others below them ask.
    pub(super) fn go_on_above(&mut self, session: &SessionId, mut above: Option<SessionId>, myself: &Myself) {
        if !self.table.get_mut(session).is_some_and(|entry| std::mem::take(&mut entry.asks_above)) {
            return;
        }
        while let Some(id) = above {
            let Some(entry) = self.table.get_mut(&id) else { return };
            entry.asking_below = entry.asking_below.saturating_sub(1);
            if entry.asking_below == 0 {
                let (beats, running) = (entry.pulse.beats(), entry.running().cloned());
                let clock = entry.clock_mut().filter(|clock| clock.approvals.is_empty() && clock.is_paused());
                if let Some((clock, turn)) = clock.zip(running) {
                    let at = clock.run(Instant::now(), beats);
                    clock.deadline = Some(self.deadlines.insert(at, Due::Turn(id.clone(), turn), myself));
                }
                self.send(&id, TurnMessage::AskedBelow { asking: false });
            }
            above = self.above(&id);
        }
    }

    /// The submission has its answer.
    pub(super) fn forget_child(&mut self, session: &SessionId, pending: &PendingReply, myself: &Myself) {
        let waits = pending.parent().filter(|parent| parent.line.is_some()).map(|parent| parent.session.clone());
        self.go_on_above(session, waits, myself);
        let above = pending.parent().and_then(|parent| self.table.get_mut(&parent.session));
        if let Some(above) = above {
            above.children.retain(|(child, turn)| child != session || *turn != pending.submission);
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

    /// Cancels what still works for the session: its turn is stopped, or has ended.
    pub(super) fn end_children(&mut self, session: &SessionId, myself: &Myself) {
        let children = self.table.get_mut(session).map(|entry| std::mem::take(&mut entry.children)).unwrap_or_default();
        if let Some(entry) = self.table.get_mut(session) {
            entry.asking_below = 0;
        }
        for (child, turn) in children {
            // Its question no longer counts above.
            if let Some(entry) = self.table.get_mut(&child) {
                entry.asks_above = false;
            }
            self.cancel(&child, Some(&turn), myself);
        }
    }
}
