//! Snapshots: when the session is written down whole, and what is made of one that is read.
//!
//! One is written where a prompt is made and the last one is far behind ([`Session::wants_snapshot`]): every call has its
//! result there, and nothing waits for the append that it goes with. It is a record like the others and follows from
//! them alone, so an owner that reads one goes on exactly as one that read everything.

use super::Turn;
use super::lookup::is_lookup;
use crate::session_state::Session;
use crate::store::{Claim, Fact};

impl Turn {
    pub(super) fn write_snapshot(&mut self) {
        let (Some(session), Some(turn_config)) = (&self.session, &self.turn_config) else { return };
        let every = turn_config.snapshot_every;
        if !session.wants_snapshot(every) || self.oversized_at > 0 && session.version < self.oversized_at + every {
            return;
        }
        match session.snapshot() {
            Some(snapshot) => self.record_in_turn(Fact::Snapshot(snapshot)),
            // It is tried again when the session may have dropped what made it so large.
            None => self.oversized_at = session.version,
        }
    }

    /// The session that was claimed; `None` when more of its journal is needed: its snapshot cannot be used, or an
    /// outcome from before it is needed.
    pub(super) fn session_of(&self, claim: &Claim) -> Option<Session> {
        let most = self.turn_config.as_ref().map_or(usize::MAX, |turn_config| turn_config.max_history_messages);
        let session = Session::fold_latest(self.id.clone(), Some(most), &claim.records)?;
        let is_whole = claim.records.first().is_none_or(|first| first.version == 1);
        (is_whole || !self.deferred.iter().any(|request| is_lookup(&session, request))).then_some(session)
    }
}
