//! What a turn writes: into its session at once, and into the store with the next append.

use super::{Effect, Turn};
use crate::ids::{RecordId, Ticket, TurnId};
use crate::store::{Ended, FORMAT, Fact, Record};
use std::sync::Arc;

impl Turn {
    /// Writes a fact: into the session now, into the store with the next flush.
    pub(super) fn record(&mut self, turn: Option<TurnId>, fact: Fact) {
        let Some(session) = &mut self.session else { return };
        let version = session.version + 1;
        let record = Arc::new(Record {
            format: FORMAT,
            id: RecordId::numbered(self.outbox.epoch, version),
            session: self.id.clone(),
            version,
            epoch: self.outbox.epoch,
            turn,
            at: self.now.wall,
            fact,
        });
        if matches!(record.fact, Fact::Started { .. } | Fact::Resumed { .. }) {
            self.now.begin();
            self.asked_below = false;
        }
        session.apply(&record);
        self.outbox.write(record);
    }

    pub(super) fn record_end(&mut self, ended: Ended) {
        let duration_ms = Some(self.now.lasted_ms);
        self.record_in_turn(Fact::Outcome(Box::new(Ended { duration_ms, ..ended })));
    }

    pub(super) fn record_in_turn(&mut self, fact: Fact) {
        let turn = self.session.as_ref().and_then(|session| session.open.as_ref()).map(|open| open.input.turn.clone());
        self.record(turn, fact);
    }

    pub(super) fn flush(&mut self, effects: &mut Vec<Effect>) {
        let tickets = &mut self.tickets;
        let next = || {
            *tickets += 1;
            Ticket(*tickets)
        };
        self.outbox.flush(&self.id, next, effects);
    }

    /// Asks the store to confirm the newest record. Returns its version, for effects that wait until it is durable.
    pub(super) fn await_durable(&mut self) -> u64 {
        let version = self.version();
        self.outbox.wait_for(version);
        version
    }

    /// A name that no other owner of the journal gives. What this one asks may be lost with
    /// it, and the next one counts its calls and records from where the journal ends.
    pub(super) fn owned(&self, name: String) -> String {
        match self.outbox.epoch {
            0 | 1 => name,
            epoch => format!("{name}-{epoch}"),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.version)
    }
}
