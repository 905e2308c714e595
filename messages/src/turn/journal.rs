//! What the machine has written and what of it is durable.
//!
//! One append is in flight at a time; what is written meanwhile goes with the
//! next, so that the records of a session are stored in order and together.

use super::Effect;
use crate::ids::{SessionId, Ticket};
use crate::store::{Append, Record};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The records between the machine and the store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The epoch this owner writes under.
    pub(super) epoch: u64,
    /// How many records are durable.
    pub(super) durable: u64,
    /// The append in flight.
    in_flight: Option<Ticket>,
    /// Records sent with it.
    sent: Vec<Arc<Record>>,
    /// Records for the next one.
    unsent: Vec<Arc<Record>>,
    /// Whether the next one may go as soon as this one is answered.
    wanted: bool,
}

impl Journal {
    pub(super) fn new(epoch: u64, durable: u64) -> Self {
        Self { epoch, durable, ..Self::default() }
    }

    /// Keeps a record for the next append.
    pub(super) fn write(&mut self, record: Arc<Record>) {
        self.unsent.push(record);
    }

    /// Sends what is written, now or as soon as the append in flight is answered.
    pub(super) fn flush(&mut self, session: &SessionId, ticket: impl FnOnce() -> Ticket, effects: &mut Vec<Effect>) {
        if self.unsent.is_empty() {
            return;
        }
        if self.in_flight.is_some() {
            self.wanted = true;
            return;
        }
        let ticket = ticket();
        self.in_flight = Some(ticket);
        self.wanted = false;
        self.sent = std::mem::take(&mut self.unsent);
        effects.push(Effect::Append { ticket, append: self.append(session, self.sent.clone()) });
    }

    /// Whether this is the answer to the append in flight.
    pub(super) fn awaits(&self, ticket: Ticket) -> bool {
        self.in_flight == Some(ticket)
    }

    /// The append in flight is durable. Whether more wants to go.
    pub(super) fn stored(&mut self) -> bool {
        self.in_flight = None;
        self.durable += self.sent.len() as u64;
        self.sent.clear();
        self.wanted
    }

    /// The append in flight failed: its records go with the next one.
    pub(super) fn failed(&mut self) {
        self.in_flight = None;
        self.wanted = false;
        self.sent.append(&mut self.unsent);
        self.unsent = std::mem::take(&mut self.sent);
    }

    /// Sends everything that is not known to be durable, for the last time. The
    /// store takes records it has already as stored.
    pub(super) fn flush_last(&mut self, session: &SessionId, ticket: Ticket, effects: &mut Vec<Effect>) {
        self.failed();
        self.in_flight = Some(ticket);
        self.sent = std::mem::take(&mut self.unsent);
        if !self.sent.is_empty() {
            effects.push(Effect::Append { ticket, append: self.append(session, self.sent.clone()) });
        }
    }

    fn append(&self, session: &SessionId, records: Vec<Arc<Record>>) -> Append {
        Append { session: session.clone(), epoch: self.epoch, expected_version: self.durable, records }
    }
}
