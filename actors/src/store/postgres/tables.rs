//! What stands in the tables: rows of sessions, lines of records.

use super::address::Address;
use super::up::{Unread, Up};
use crate::store::Ledger;
use crate::store::line::{self, BadLine, Line};
use crate::store::span::Span;
use bob_messages::ids::{PoolName, SessionId, TenantId};
use bob_messages::store::{Formats, Glance, Pools, Record, SessionState, StoreError};
use futures_util::TryStreamExt;
use std::pin::pin;
use std::sync::Arc;
use tokio::task::yield_now;
use tokio_postgres::Row;

/// The epoch of a session `s`: above all that were given for a session of its name before that was deleted.
///
/// A number is given once, and every claim uses one up, whether it makes a row or finds it: while a row is claimed 2^20
/// times, the next number goes ahead by as many. No clock and no order of transactions takes part in that.
macro_rules! epoch {
    () => {
        "((s.number << 20) + s.epoch)"
    };
}
pub(super) use epoch;

/// The columns of a session's row, as [`Entry::of`] reads them. The last one is taken by its name, since tables of an older program
/// are read that lack it.
macro_rules! entry_columns {
    () => {
        concat!(
            "s.number, ",
            $crate::store::postgres::tables::epoch!(),
            ", s.version, s.snapshot, s.damage, s.title, s.state, s.turns, s.parent, s.cwd, s.created_at, s.tenant, to_jsonb(s) ->> 'pool'"
        )
    };
}
pub(super) use entry_columns;

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
                pool: text(12).and_then(|name| PoolName::parse(name).ok()),
            },
        }
    }

    /// The first version of a span and its last one.
    pub(super) fn bounds(&self, span: Span) -> (u64, u64) {
        span.bounds(self.snapshot, self.version)
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

/// How many records one statement reads: others on the connection do not wait for a whole journal.
pub(super) const RECORDS_AT_ONCE: u64 = 128;

/// After how many bytes of lines that were read the other tasks of the thread go on. One of them renews the lease.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Reads these of a session's records, from this version to that one, and checks every one. `None` when the session was
/// deleted since its row was read.
pub(super) async fn records(
    up: &Up,
    address: &Address,
    session: &SessionId,
    number: i64,
    (first, last): (u64, u64),
) -> Result<Option<Vec<Arc<Record>>>, Unread> {
    if first > last {
        return Ok(Some(Vec::new()));
    }
    let statement = up.prepared(RECORDS).await?;
    let (mut records, mut bytes, mut next) = (Vec::new(), 0, first);
    while next <= last {
        let end = last.min(next.saturating_add(RECORDS_AT_ONCE - 1));
        let rows = up.ask(up.client.query_raw(&statement, [number, signed(next), signed(end)])).await?;
        let mut rows = pin!(rows);
        while let Some(row) = up.ask(rows.try_next()).await? {
            let line: &str = row.get(0);
            records.push(checked(line, address, session, first + records.len() as u64)?);
            bytes += line.len();
            if bytes >= BYTES_AT_ONCE {
                bytes = 0;
                yield_now().await;
            }
        }
        next = end.saturating_add(1);
        // Those that are missing are found missing below.
        if first + (records.len() as u64) < next {
            break;
        }
    }
    let there = first - 1 + records.len() as u64;
    if there == last {
        return Ok(Some(records));
    }
    let row = up.prepared("SELECT FROM bob_sessions WHERE number = $1").await?;
    match up.ask(up.client.query_opt(&row, &[&number])).await? {
        Some(_) => Err(Unread::Bad(damaged(address, session, &format!("{there} of {last} records are there")))),
        None => Ok(None),
    }
}

fn checked(line: &str, address: &Address, session: &SessionId, next: u64) -> Result<Arc<Record>, Unread> {
    let damaged = |what: &str| Unread::Bad(damaged(address, session, &format!("record {next}: {what}")));
    let record = match line::parse(line.as_bytes(), &Formats::KNOWN) {
        Ok(Line::Record(record)) => record,
        Ok(Line::Claim(_) | Line::Release(_)) => return Err(damaged("it is no record")),
        Err(BadLine::Damaged(what)) => return Err(damaged(&what)),
        Err(BadLine::TooNew(found)) => {
            return Err(Unread::Bad(StoreError::TooNew { found, known: Formats::KNOWN.newest() }));
        }
    };
    match record.session == *session && record.version == next {
        true => Ok(record),
        false => Err(damaged(&format!("it is record {} of {}", record.version, record.session))),
    }
}

pub(super) fn damaged(address: &Address, session: &SessionId, what: &str) -> StoreError {
    let database = address.shown();
    StoreError::Corrupt(format!(
        "session {session} in {database}, {what}; it is left as it is: restore a copy of the database, or delete the session"
    ))
}

pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Whether they are all pools, and their names otherwise, as statements take them.
pub(super) fn names(pools: &Pools) -> (bool, Vec<&str>) {
    (*pools == Pools::All, pools.names().map(PoolName::as_str).collect())
}
