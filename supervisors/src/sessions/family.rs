//! Sessions that work for calls of others: the place in which they run, and their end.
//!
//! The supervisor knows which children work for the running turn of a session. When that turn is stopped or has ended,
//! they are cancelled, and so are those below them. A crash of its actor is no end: the next actor makes the call again,
//! and finds the child at work.

use super::{Myself, SessionsState};
use crate::session_table::PendingReply;
use bob_messages::ids::SessionId;
use bob_messages::outcome::EndReason;
use bob_messages::reply::Pulse;
use bob_messages::turn::{Recover, TurnMessage};
use std::sync::Arc;

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

    /// The submission has its answer.
    pub(super) fn forget_child(&mut self, session: &SessionId, pending: &PendingReply) {
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
        for (child, turn) in children {
            self.cancel(&child, Some(&turn), myself);
        }
    }
}
