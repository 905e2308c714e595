//! What the machine has written and what of it is durable.
//!
//! The store accepts a session's appends in order, each one only at the version where the one before it ended. So an
//! append for which nothing waits needs no answer: the next confirmation covers it, too. While an append awaits its
//! confirmation, no other is sent, so that the records written meanwhile are stored together.

use super::Effect;
use crate::error::StoreError;
use crate::ids::{RequestId, SessionId, Ticket, TurnId};
use crate::store::{Append, Fact, Record};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outbox {
    /// The epoch this owner writes under.
    pub(super) epoch: u64,
    /// How many records are known to be durable.
    pub(super) durable: u64,
    /// The version that has to be confirmed, because something waits for it.
    awaited: u64,
    /// The appends that were sent and not answered, oldest first.
    in_flight: Vec<Sent>,
    sent: Vec<Arc<Record>>,
    /// Records for the next one.
    unsent: Vec<Arc<Record>>,
    /// Whether the next one may go as soon as the one that is confirmed is answered.
    wanted: bool,
    /// Up to which version records may be durable, as far as is known.
    #[serde(default)]
    doubted: u64,
    /// How often in a row the store did not take what is written.
    #[serde(default)]
    failures: u32,
    /// Whether one of these failures was that the store is away.
    #[serde(default)]
    away: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sent {
    ticket: Ticket,
    records: usize,
    confirm: bool,
}

impl Outbox {
    pub(super) fn new(epoch: u64, durable: u64) -> Self {
        Self { epoch, durable, ..Self::default() }
    }

    /// Whether a record of this version may be in the store although nothing has confirmed it.
    pub(super) fn may_hold(&self, version: u64) -> bool {
        version <= self.doubted.max(self.durable)
    }

    /// Whether records may be in the store that nothing has confirmed.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubted > self.durable
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether the store is away: it said so, and what is in doubt since then broke off with it.
    pub(super) fn is_away(&mut self, error: &StoreError) -> bool {
        self.away |= matches!(error, StoreError::Away(_));
        self.away && matches!(error, StoreError::Away(_) | StoreError::InDoubt(_))
    }

    /// Sends all that is not known to be durable after a pause, and asks for a confirmation.
    pub(super) fn flush_again(
        &mut self,
        session: &SessionId,
        ticket: Ticket,
        pause_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        let records = std::mem::take(&mut self.unsent);
        self.send(session, ticket, records, true, effects);
        if let Some(Effect::Append { pause_ms: pause, .. }) = effects.last_mut() {
            *pause = pause_ms;
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.in_flight.is_empty() && self.sent.is_empty() && self.unsent.is_empty()
    }

    pub(super) fn unsent(&self) -> &[Arc<Record>] {
        &self.unsent
    }

    pub(super) fn write(&mut self, record: Arc<Record>) {
        self.unsent.push(record);
    }

    /// Something waits until this version is durable.
    pub(super) fn wait_for(&mut self, version: u64) {
        self.awaited = self.awaited.max(version);
    }

    /// Sends what is written, now or as soon as what is being confirmed is answered.
    pub(super) fn flush(&mut self, session: &SessionId, ticket: impl FnOnce() -> Ticket, effects: &mut Vec<Effect>) {
        if self.unsent.is_empty() {
            return;
        }
        if self.in_flight.last().is_some_and(|last| last.confirm) {
            self.wanted = true;
            return;
        }
        self.wanted = false;
        // Its room is kept for what is written next.
        let records = self.unsent.drain(..).collect();
        self.send(session, ticket(), records, self.awaited > self.durable, effects);
    }

    /// Whether the end of this turn, or of this run of it, is not known to be durable.
    pub(super) fn ends(&self, turn: &TurnId) -> bool {
        let ends = |record: &&Arc<Record>| matches!(record.fact, Fact::Outcome(_) | Fact::Withdrawn);
        self.sent.iter().chain(&self.unsent).filter(ends).any(|record| record.turn.as_ref() == Some(turn))
    }

    /// The inputs that were taken out of those that wait, where that is not known to be durable.
    pub(super) fn withdrawn(&self) -> impl Iterator<Item = &TurnId> {
        let records = self.sent.iter().chain(&self.unsent);
        records.filter(|record| record.fact == Fact::Withdrawn).filter_map(|record| record.turn.as_ref())
    }

    /// Whether the steer message with this request id may not be durable yet.
    pub(super) fn holds_steer(&self, request: &RequestId) -> bool {
        let mut facts = self.sent.iter().chain(&self.unsent).map(|record| &record.fact);
        facts.any(|fact| matches!(fact, Fact::Steered { request_id: Some(id), .. } if id == request))
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    pub(super) fn awaits(&self, ticket: Ticket) -> bool {
        self.in_flight.iter().any(|sent| sent.ticket == ticket)
    }

    /// Whether earlier appends are not confirmed yet.
    pub(super) fn follows(&self, ticket: Ticket) -> bool {
        self.in_flight.first().is_some_and(|first| first.ticket != ticket)
    }

    /// This append is durable, and with it those before it. Returns whether another one is to be sent.
    pub(super) fn stored(&mut self, ticket: Ticket) -> bool {
        let until = self.in_flight.iter().position(|sent| sent.ticket == ticket).map_or(0, |at| at + 1);
        let records: usize = self.in_flight.drain(..until).map(|sent| sent.records).sum();
        self.sent.drain(..records);
        self.durable += records as u64;
        (self.failures, self.away) = (0, false);
        self.wanted
    }

    /// This append failed, and with it those behind it: what is not known to be durable goes with the next one.
    pub(super) fn refused(&mut self, ticket: Ticket, may_be_stored: bool) {
        // Those before it have no confirmation, since nothing waits for them.
        let before = self.in_flight.iter().take_while(|sent| sent.ticket != ticket).map(|sent| sent.records).sum();
        let sent = if may_be_stored { self.sent.len() } else { before };
        self.doubted = self.doubted.max(self.durable + sent as u64);
        self.failures += 1;
        self.failed();
    }

    /// What was sent and not confirmed goes with the next one.
    pub(super) fn failed(&mut self) {
        self.in_flight.clear();
        self.wanted = false;
        self.sent.append(&mut self.unsent);
        self.unsent = std::mem::take(&mut self.sent);
    }

    /// Sends everything that is not known to be durable, for the last time. The
    /// store takes records it has already as stored.
    pub(super) fn flush_last(&mut self, session: &SessionId, ticket: Ticket, effects: &mut Vec<Effect>) {
        self.failed();
        if !self.unsent.is_empty() {
            let records = std::mem::take(&mut self.unsent);
            self.send(session, ticket, records, true, effects);
        }
    }

    fn send(
        &mut self,
        session: &SessionId,
        ticket: Ticket,
        records: Vec<Arc<Record>>,
        confirm: bool,
        effects: &mut Vec<Effect>,
    ) {
        let expected_version = self.durable + self.sent.len() as u64;
        self.in_flight.push(Sent { ticket, records: records.len(), confirm });
        self.sent.extend(records.iter().cloned());
        let append = Append { session: session.clone(), epoch: self.epoch, expected_version, records };
        effects.push(Effect::Append { ticket, confirm, pause_ms: 0, append });
    }
}
