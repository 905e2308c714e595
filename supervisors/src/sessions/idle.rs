//! Actors that have nothing to do are let go: the journal has what they know.
//!
//! An idle session has one entry among the deadlines, which is not moved when it gets
//! something to do: the entry looks, when it comes due, since when the session rests.

use super::{Myself, SessionsState};
use crate::deadlines::Due;
use bob_messages::ids::SessionId;
use bob_messages::outcome::EndReason;
use tokio::time::Instant;

/// How many actors are let go in one handler; the others follow in the next one, so that
/// neither whoever submits meanwhile nor the store, which packs them, is busy with all of
/// them at once.
const MOST_AT_ONCE: usize = 64;

impl SessionsState {
    /// The session may have nothing to do from now on.
    pub(super) fn rest(&mut self, session: &SessionId, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session).filter(|guest| guest.is_idle()) else { return };
        guest.since = Instant::now();
        // A time that no clock reaches is a session that stays.
        if guest.idle_check.is_none()
            && let Some(at) = guest.since.checked_add(self.started.rules.passivate_after)
        {
            guest.idle_check = Some(self.deadlines.insert(at, Due::Idle(session.clone()), myself));
        }
    }

    /// Lets the actor go if it has been idle for long enough; whether it did.
    pub(super) fn idle_due(&mut self, session: &SessionId, let_go: usize, myself: &Myself) -> bool {
        let Some(guest) = self.book.get_mut(session) else { return false };
        guest.idle_check = None;
        if !guest.is_idle() {
            return false;
        }
        let Some(at) = guest.since.checked_add(self.started.rules.passivate_after) else { return false };
        if at > Instant::now() || let_go >= MOST_AT_ONCE {
            guest.idle_check = Some(self.deadlines.insert(at, Due::Idle(session.clone()), myself));
            return false;
        }
        self.stop(session, EndReason::Passivated, myself);
        true
    }

    /// Lets the actor of a session go now; `false` when it has something to do.
    pub(super) fn passivate(&mut self, session: &SessionId, myself: &Myself) -> bool {
        let has_nothing = |guest: &mut crate::guests::Guest| {
            guest.owed.is_empty() && guest.ahead.is_none() && guest.errands.is_empty()
        };
        let may_go = self.book.get_mut(session).is_none_or(has_nothing);
        if may_go {
            self.stop(session, EndReason::Passivated, myself);
        }
        may_go
    }
}
