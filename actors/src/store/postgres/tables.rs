//! What stands in the tables: rows of sessions, lines of records.

use super::address::Address;
use crate::store::Ledger;
use crate::store::line::{self, BadLine, Line};
use bob_messages::ids::{SessionId, TenantId};
use bob_messages::store::{Formats, Glance, Part, Record, SessionState, StoreError};
use std::sync::Arc;
use tokio_postgres::{Error, Row};

use super::link::Up;

/// The columns of a session's row, as [`Entry::of`] reads them.
macro_rules! entry_columns {
    () => {
        "s.number, s.epoch, s.version, s.snapshot, s.damage, s.title, s.state, s.turns, s.parent, s.cwd, s.created_at, s.tenant"
    };
}
pub(super) use entry_columns;

/// A session's row.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) number: i64,
    pub(super) epoch: u64,
    pub(super) version: u64,
    /// The version of its last snapshot; 0 when there is none.
    snapshot: u64,
    /// What is wrong with its records, once that was found.
    pub(super) damage: Option<String>,
    pub(super) glance: Glance,
}

/// Why records were not read.
#[derive(Debug)]
pub(super) enum Unread {
    /// They are damaged, or of a newer program.
    Bad(StoreError),
    Failed(Error),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Which of a session's records are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Span {
    Whole,
    Part(Part),
}

impl Entry {
    pub(super) fn of(row: &Row) -> Self {
        let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        let text = |column: usize| row.get::<_, Option<&str>>(column);
        Self {
            number: row.get(0),
            epoch: count(1),
            version: count(2),
            snapshot: count(3),
            damage: row.get(4),
            glance: Glance {
                title: text(5).map(Into::into),
                state: text(6).and_then(SessionState::parse).unwrap_or_default(),
                turns: count(7),
                parent: text(8).and_then(|id| SessionId::parse(id).ok()),
                cwd: text(9).map(Into::into),
                created_at: row.get(10),
                tenant: text(11).map(TenantId::new),
            },
        }
    }

    /// The first version of a span and its last one.
    pub(super) fn bounds(&self, span: Span) -> (u64, u64) {
        match span {
            Span::Whole => (1, self.version),
            Span::Part(Part::Latest) => (self.snapshot.max(1), self.version),
            Span::Part(Part::Page { behind, most }) => {
                let first = behind.min(self.version) + 1;
                (first, self.version.min((first - 1).saturating_add(most as u64)))
            }
        }
    }

    /// The ledger of the session, which knows the ids of these newest records.
    pub(super) fn ledger(&self, newest: &[Arc<Record>]) -> Ledger {
        let mut ledger = Ledger::behind(self.version, self.glance.clone());
        ledger.claimed(self.epoch);
        ledger.recall(newest);
        ledger
    }
}

const RECORDS: &str = "SELECT line FROM bob_records WHERE session = $1 AND version BETWEEN $2 AND $3 ORDER BY version";

/// Reads these of a session's records, from this version to that one, and checks every one.
pub(super) async fn records(
    up: &Up,
    address: &Address,
    session: &SessionId,
    number: i64,
    (first, last): (u64, u64),
) -> Result<Vec<Arc<Record>>, Unread> {
    if first > last {
        return Ok(Vec::new());
    }
    let statement = up.prepared(RECORDS).await?;
    let (from, to) = (signed(first), signed(last));
    let rows = up.client.query(&statement, &[&number, &from, &to]).await?;
    let mut records = Vec::with_capacity(rows.len());
    for (next, row) in (first..).zip(&rows) {
        let damaged = |what: &str| Unread::Bad(damaged(address, session, &format!("record {next}: {what}")));
        let record = match line::parse(row.get::<_, &str>(0).as_bytes(), &Formats::KNOWN) {
            Ok(Line::Record(record)) => record,
            Ok(Line::Claim(_) | Line::Release(_)) => return Err(damaged("it is no record")),
            Err(BadLine::Damaged(what)) => return Err(damaged(&what)),
            Err(BadLine::TooNew(found)) => {
                return Err(Unread::Bad(StoreError::TooNew { found, known: Formats::KNOWN.newest() }));
            }
        };
        if record.session != *session || record.version != next {
            return Err(damaged(&format!("it is record {} of {}", record.version, record.session)));
        }
        records.push(record);
    }
    let there = first - 1 + records.len() as u64;
    if there != last {
        return Err(Unread::Bad(damaged(address, session, &format!("{there} of {last} records are there"))));
    }
    Ok(records)
}

/// Where the damage is, and what to do.
pub(super) fn damaged(address: &Address, session: &SessionId, what: &str) -> StoreError {
    let database = address.shown();
    StoreError::Corrupt(format!(
        "session {session} in {database}, {what}; it is left as it is: restore a copy of the database, or delete the session"
    ))
}

pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
