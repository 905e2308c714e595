//! Changes of a session's options that are not confirmed yet.
//!
//! A change needs no slot, has no clock and waits for no turn. A session without an actor gets one, which begins no
//! turn. The caller is answered once, also when the actor ends in between: the change is sent again to the next
//! actor, which recognises it by its request id.

use super::admit::closing;
use super::{Myself, SessionsState};
use crate::session_table::PendingChange;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::turn::TurnMessage;
use bob_messages::turn_config::TurnConfig;
use std::sync::Arc;

/// The most unconfirmed changes of one session.
const MOST_PENDING_CHANGES: usize = 16;

impl SessionsState {
    pub(super) fn configure(
        &mut self,
        session: &SessionId,
        change: PendingChange,
        turn_config: &Arc<TurnConfig>,
        myself: &Myself,
    ) {
        if self.draining.is_some() {
            return change.reply.send(Err(closing()));
        }
        let entry = self.table.entry(session, turn_config);
        if entry.changes.len() >= MOST_PENDING_CHANGES {
            let text =
                format!("{MOST_PENDING_CHANGES} changes of the session's options are not confirmed yet; wait for them");
            return change.reply.send(Err(AgentError::busy(text)));
        }
        entry.turn_config = Arc::clone(turn_config);
        let message = TurnMessage::Configure { asked: Arc::clone(&change.asked), turn_config: Arc::clone(turn_config) };
        entry.changes.push(change);
        // A change that comes while the actor is being stopped is sent to the next one.
        if entry.stopping.is_none() {
            if entry.actor.is_none() {
                self.open(session, myself);
            }
            self.send(session, message);
        }
    }

    pub(super) fn configured(
        &mut self,
        session: &SessionId,
        request_id: &RequestId,
        result: &Result<(), AgentError>,
        myself: &Myself,
    ) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let (done, left) = std::mem::take(&mut entry.changes)
            .into_iter()
            .partition::<Vec<_>, _>(|change| change.asked.request_id == *request_id);
        entry.changes = left;
        if entry.running().is_none() {
            entry.crashes = 0;
        }
        for change in done {
            change.reply.send(result.clone());
        }
        self.check_idle(session, myself);
        self.check_drained();
    }

    pub(super) fn send_changes(&mut self, session: &SessionId) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let turn_config = Arc::clone(&entry.turn_config);
        let asked: Vec<_> = entry.changes.iter().map(|change| Arc::clone(&change.asked)).collect();
        for asked in asked {
            self.send(session, TurnMessage::Configure { asked, turn_config: Arc::clone(&turn_config) });
        }
    }

    /// Handles the end of an actor while no turn ran: if it had changes to apply, another one is started, unless it
    /// crashed too often. Returns whether there is one.
    pub(super) fn retry_changes(&mut self, session: &SessionId, myself: &Myself) -> bool {
        let Some(entry) = self.table.get_mut(session) else { return false };
        if entry.changes.is_empty() {
            return false;
        }
        if entry.crashes > super::endings::MOST_RESTARTS {
            let why = AgentError::Internal("the session's actor crashed too often; try again".to_owned());
            self.refuse_changes(session, &why);
            return false;
        }
        // A submission that was admitted meanwhile has started one.
        if entry.actor.is_none() {
            self.open(session, myself);
        }
        self.send_changes(session);
        true
    }

    pub(super) fn refuse_changes(&mut self, session: &SessionId, why: &AgentError) {
        let changes = self.table.get_mut(session).map(|entry| std::mem::take(&mut entry.changes));
        for change in changes.into_iter().flatten() {
            change.reply.send(Err(why.clone()));
        }
    }
}
