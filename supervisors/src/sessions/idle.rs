//! Stops the actors of idle sessions; the journal has all they know.
//!
//! An idle session has one entry among the deadlines, which is not moved when the session gets something to do: when
//! it comes due, the time since the session became idle is checked.

use super::{Myself, SessionsState};
use crate::deadlines::Due;
use bob_messages::ids::SessionId;
use bob_messages::outcome::EndReason;
use tokio::time::Instant;

/// The most actors stopped in one handler. The others follow in the next one, so that neither new submissions nor the
/// store, which packs the journals, has to wait for all of them.
const MOST_AT_ONCE: usize = 64;

impl SessionsState {
    /// Arms the idle deadline if the session has nothing to do.
    pub(super) fn check_idle(&mut self, session: &SessionId, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session).filter(|entry| entry.is_idle()) else { return };
        entry.since = Instant::now();
        // A time that overflows the clock means that the actor is kept.
        if entry.idle_check.is_none()
            && let Some(at) = entry.since.checked_add(self.started.rules.passivate_after)
        {
            entry.idle_check = Some(self.deadlines.insert(at, Due::Idle(session.clone()), myself));
        }
    }

    /// Stops the actor if it has been idle for long enough. Returns whether it did.
    pub(super) fn idle_due(&mut self, session: &SessionId, let_go: usize, myself: &Myself) -> bool {
        let Some(entry) = self.table.get_mut(session) else { return false };
        entry.idle_check = None;
        if !entry.is_idle() {
            return false;
        }
        let Some(at) = entry.since.checked_add(self.started.rules.passivate_after) else { return false };
        if at > Instant::now() || let_go >= MOST_AT_ONCE {
            entry.idle_check = Some(self.deadlines.insert(at, Due::Idle(session.clone()), myself));
            return false;
        }
        self.stop(session, EndReason::Passivated, myself);
        true
    }

    /// Stops the actor of a session now. Returns `false` when it has something to do.
    pub(super) fn passivate(&mut self, session: &SessionId, myself: &Myself) -> bool {
        let may_go = self.table.get_mut(session).is_none_or(|entry| entry.has_nothing_to_do());
        if may_go {
            self.stop(session, EndReason::Passivated, myself);
        }
        may_go
    }
}
