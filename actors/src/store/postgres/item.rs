//! Appends on their way into a statement.
//!
//! Appends of one session that go on one behind the other are joined to one change of its row: a statement changes a row
//! once, and the session, with all others of the statement, would wait for another one. Where the whole is refused, its
//! parts are sent one by one, so that each gets the answer it would have had alone.

use crate::store::Ledger;
use crate::store::encoded::Encoded;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Fact, Glance, Record, StoreError};
use std::sync::Arc;

/// How many bytes of lines, and how many records, appends may have to be joined with others.
const MAX_BYTES: usize = 256 << 10;
const MAX_RECORDS: usize = 128;

/// One append, or several of one session, each of which begins where the one before ends.
pub(super) struct Item {
    /// The records and lines of all of them.
    pub(super) encoded: Encoded,
    /// Who is to be answered, and how many of the records are theirs and of those before.
    asked: Vec<(usize, Reply<Result<u64, StoreError>>)>,
    /// It was sent on a connection that broke, so it may be stored.
    in_doubt: bool,
}

impl Item {
    pub(super) fn new(encoded: Encoded, reply: Reply<Result<u64, StoreError>>) -> Self {
        let end = encoded.append.records.len();
        Self { encoded, asked: vec![(end, reply)], in_doubt: false }
    }

    pub(super) fn in_doubt(self) -> Self {
        Self { in_doubt: true, ..self }
    }

    pub(super) fn bytes(&self) -> usize {
        self.encoded.lines.iter().flatten().map(Vec::len).sum()
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.encoded.append.session
    }

    /// Takes an append of the same session along if it goes on where this one ends; gives it back otherwise.
    pub(super) fn join(&mut self, next: Self) -> Option<Self> {
        let (ours, theirs) = (&self.encoded.append, &next.encoded.append);
        let goes_on = ours.session == theirs.session
            && ours.epoch == theirs.epoch
            && ours.records.last().is_some_and(|last| last.version == theirs.expected_version)
            && theirs.records.first().is_some_and(|first| first.version == theirs.expected_version + 1)
            && ours.records.len() + theirs.records.len() <= MAX_RECORDS
            && self.in_doubt == next.in_doubt
            && self.bytes() + next.bytes() <= MAX_BYTES;
        let (true, Ok(lines)) = (goes_on, &mut self.encoded.lines) else { return Some(next) };
        match next.encoded.lines {
            Ok(more) => lines.extend(more),
            Err(why) => return Some(Self { encoded: Encoded { lines: Err(why), ..next.encoded }, ..next }),
        }
        let before = self.encoded.append.records.len();
        self.encoded.append.records.extend(next.encoded.append.records);
        self.asked.extend(next.asked.into_iter().map(|(end, reply)| (before + end, reply)));
        None
    }

    pub(super) fn is_joined(&self) -> bool {
        self.asked.len() > 1
    }

    /// What was joined, each append by itself again, in order.
    pub(super) fn parts(self) -> Vec<Self> {
        let Self { encoded: Encoded { append, lines }, asked, in_doubt } = self;
        let Append { session, epoch, mut expected_version, records } = append;
        let (mut records, mut begin) = (records.into_iter(), 0);
        // What has no lines was not joined.
        let mut lines = lines.map(Vec::into_iter);
        let mut parts = Vec::with_capacity(asked.len());
        for (end, reply) in asked {
            let records: Vec<Arc<Record>> = records.by_ref().take(end - begin).collect();
            let lines = match &mut lines {
                Ok(lines) => Ok(lines.by_ref().take(end - begin).collect()),
                Err(why) => Err(why.clone()),
            };
            let after = records.last().map_or(expected_version, |last| last.version);
            let append = Append { session: session.clone(), epoch, expected_version, records };
            parts.push(Self { encoded: Encoded { append, lines }, asked: vec![(end - begin, reply)], in_doubt });
            (begin, expected_version) = (end, after);
        }
        parts
    }

    /// Answers that it is stored, and that the session has this version.
    fn stored(self, version: u64) {
        let records = &self.encoded.append.records;
        for (end, reply) in self.asked {
            let is_within = end > 0 && end < records.len();
            reply.send(Ok(if is_within { records[end - 1].version } else { version }));
        }
    }

    /// Answers that it was not done, or that this is not known. Another owner that came meanwhile does not say that an input
    /// which was sent before was not stored: who would send it again would have it run twice.
    pub(super) fn give_up(self, error: &StoreError) {
        let has_input = || self.encoded.append.records.iter().any(|record| matches!(record.fact, Fact::Input(_)));
        let error = match error {
            StoreError::Unavailable(why) | StoreError::Away(why) if self.in_doubt => StoreError::InDoubt(why.clone()),
            StoreError::Fenced { .. } if self.in_doubt && has_input() => StoreError::InDoubt(error.to_string()),
            other => other.clone(),
        };
        self.asked.into_iter().for_each(|(_end, reply)| reply.send(Err(error.clone())));
    }
}

/// An item of which is known what is new.
pub(super) struct Ruled {
    pub(super) item: Item,
    /// How many of its records are stored.
    stored: usize,
    version: u64,
    /// The version of the session before.
    pub(super) expected: u64,
    pub(super) glance: Glance,
    pub(super) shows: bool,
    pub(super) snapshot: Option<u64>,
}

impl Ruled {
    /// Says what is new of an item to a session of which this is known.
    /// Errors: those of [`Ledger::rule`], and why its records cannot be written; with the item.
    pub(super) fn of(item: Item, ledger: &Ledger) -> Result<Self, Box<(Item, StoreError)>> {
        let ruling = match ledger.rule(&item.encoded.append) {
            Ok(ruling) => ruling,
            Err(error) => return Err(Box::new((item, error))),
        };
        let fresh = item.encoded.append.records.get(ruling.stored..).unwrap_or_default();
        if let (false, Err(error)) = (fresh.is_empty(), &item.encoded.lines) {
            let error = error.clone();
            return Err(Box::new((item, error)));
        }
        let mut glance = ledger.glance().clone();
        fresh.iter().for_each(|record| glance.note(record));
        let is_snapshot = |record: &&Arc<Record>| matches!(record.fact, Fact::Snapshot(_));
        let snapshot = fresh.iter().rfind(is_snapshot).map(|record| record.version);
        let (expected, shows) = (ledger.version(), glance != *ledger.glance());
        Ok(Self { item, stored: ruling.stored, version: ruling.version, expected, glance, shows, snapshot })
    }

    pub(super) fn fresh(&self) -> &[Arc<Record>] {
        self.item.encoded.append.records.get(self.stored..).unwrap_or_default()
    }

    pub(super) fn lines(&self) -> &[Vec<u8>] {
        self.item.encoded.lines.as_ref().ok().and_then(|lines| lines.get(self.stored..)).unwrap_or_default()
    }

    /// Notes its records as stored, and answers so.
    pub(super) fn done(self, known: Option<&mut Ledger>) {
        if let Some(known) = known {
            self.fresh().iter().for_each(|record| known.stored(record));
        }
        self.item.stored(self.version);
    }
}
