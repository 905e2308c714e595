//! What stands in the tables, and the SQL that reads and writes it.
//!
//! `sessions` has a row for each session: its epoch and owner, how many records it has, when it was written last.
//! `records` has their lines, as they would stand in a journal file, each with its checksum.

use super::database::Database;
use super::statement::{Row, Statement, Value};
use crate::store::line::{self, BadLine, Line};
use crate::store::span::Span;
use crate::store::{Ledger, listing};
use Value::{Number, Text};
use bob_messages::Millis;
use bob_messages::ids::{SessionId, TenantId};
use bob_messages::store::{Glance, Part, Record, SessionFilter, SessionPage, SessionState, SessionSummary, StoreError};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    number: i64,
    pub(super) epoch: u64,
    pub(super) version: u64,
    /// The name of the last claim's owner and of its file, unless it was released.
    pub(super) owner: Option<(String, String)>,
    /// What is wrong with its records, once that was found.
    pub(super) damage: Option<String>,
    /// What a list shows of it; `None` of a session that an older program wrote last.
    glance: Option<Glance>,
    /// The version of its last snapshot; 0 when there is none.
    snapshot: u64,
}

impl Entry {
    /// What the next append needs of the row, once it has so many records.
    pub(super) fn grown(&self, version: u64) -> Self {
        Self { version, owner: None, damage: None, glance: None, ..*self }
    }

    /// The first version of this span and its last one.
    fn bounds(&self, span: Span) -> (u64, u64) {
        // What is read from a snapshot on says nothing of how the session looks.
        let is_shown = self.glance.is_some();
        let span = if span == Span::Part(Part::Latest) && !is_shown { Span::Whole } else { span };
        span.bounds(self.snapshot, self.version)
    }

    /// The ledger of the session, of which these records were read, from the version `first` on.
    fn ledger(&self, first: u64, records: &[Arc<Record>]) -> Ledger {
        let mut ledger = match &self.glance {
            // The row's glance counts these records already.
            Some(glance) if first > 1 => {
                let mut ledger = Ledger::behind(first - 1 + records.len() as u64, glance.clone());
                ledger.recall(records);
                ledger
            }
            Some(_) | None => {
                let mut ledger = Ledger::behind(first - 1, Glance::default());
                records.iter().for_each(|record| ledger.stored(record));
                ledger
            }
        };
        ledger.claimed(self.epoch);
        ledger
    }
}

/// A session's records, and what a writer must know of them.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) ledger: Ledger,
    pub(super) records: Vec<Arc<Record>>,
}

/// Why a session's records cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    Damaged(String),
    Failed(StoreError),
}

impl From<StoreError> for Unreadable {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

pub(super) struct Tables<'c> {
    database: &'c Database,
    find: Statement<'c>,
}

impl<'c> Tables<'c> {
    pub(super) fn of(database: &'c Database) -> Result<Self, StoreError> {
        let find = "SELECT number, epoch, version, owner, lock, damage, coalesce(snapshot, 0),
             title, state, coalesce(turns, -1), parent, cwd, coalesce(created_at, -1), tenant FROM sessions WHERE id = ?1";
        Ok(Self { database, find: database.statement(find)? })
    }

    pub(super) fn find(&mut self, session: &SessionId) -> Result<Option<Entry>, StoreError> {
        let mut found = None;
        self.find.each(&[Text(session.as_str().as_bytes())], |row| {
            found = Some(Entry {
                number: row.number(0)?,
                epoch: count(&row, 1)?,
                version: count(&row, 2)?,
                owner: text(&row, 3)?.zip(text(&row, 4)?),
                damage: text(&row, 5)?,
                snapshot: count(&row, 6)?,
                glance: glance(&row)?,
            });
            Ok::<_, StoreError>(())
        })?;
        Ok(found)
    }

    /// Whether a session that was not found is there all the same. Reads the whole table.
    pub(super) fn is_hidden(&self, session: &SessionId) -> Result<bool, StoreError> {
        let mut is_there = false;
        let mut find = self.database.statement("SELECT 1 FROM sessions NOT INDEXED WHERE id = ?1 LIMIT 1")?;
        find.each(&[Text(session.as_str().as_bytes())], |_row| {
            is_there = true;
            Ok::<_, StoreError>(())
        })?;
        Ok(is_there)
    }

    /// Reads these of a session's records and checks every one.
    pub(super) fn journal(&self, session: &SessionId, entry: &Entry, span: Span) -> Result<Journal, Unreadable> {
        let (first, last) = entry.bounds(span);
        let mut records = Vec::new();
        let bounds = match span {
            // Records beyond the counted ones are damage.
            Span::Whole | Span::Part(Part::Latest) => [Number(number(first)), Number(i64::MAX)],
            Span::Part(Part::Page { .. }) => [Number(number(first)), Number(number(last))],
        };
        let mut lines = self
            .database
            .statement("SELECT line FROM records WHERE session = ?1 AND version BETWEEN ?2 AND ?3 ORDER BY version")?;
        let [from, to] = bounds;
        lines.each(&[Number(entry.number), from, to], |row| {
            let next = first + records.len() as u64;
            let damaged = |what: String| Unreadable::Damaged(format!("record {next}: {what}"));
            let record = match line::parse(row.text(0)?.unwrap_or_default(), &self.database.known.formats) {
                Ok(Line::Record(record)) => record,
                Ok(Line::Claim(_) | Line::Release(_)) => return Err(damaged("it is no record".to_owned())),
                Err(BadLine::Damaged(what)) => return Err(damaged(what)),
                Err(BadLine::TooNew(found)) => {
                    return Err(StoreError::TooNew { found, known: self.database.known.formats.newest() }.into());
                }
            };
            if record.session != *session || record.version != next {
                return Err(damaged(format!("it is record {} of {}", record.version, record.session)));
            }
            records.push(record);
            Ok(())
        })?;
        let there = first - 1 + records.len() as u64;
        if there != last {
            return Err(Unreadable::Damaged(format!("{there} of {last} records are there")));
        }
        Ok(Journal { ledger: entry.ledger(first, &records), records })
    }

    pub(super) fn list(&self, filter: &SessionFilter, cursor: Option<&str>) -> Result<SessionPage, StoreError> {
        let (prefix, limit) = (filter.prefix.as_deref().unwrap_or_default(), listing::limit(filter));
        let (at, id) = listing::after(cursor)?.unwrap_or((Millis::MAX, ""));
        let mut page = SessionPage::default();
        let mut sessions = self.database.statement(
            "SELECT id, updated_at, bytes, title, state, coalesce(turns, -1), parent, cwd, coalesce(created_at, -1),
               tenant
             FROM sessions
             WHERE damage IS NULL AND updated_at <= ?1 AND (updated_at < ?1 OR id > ?2) AND substr(id, 1, ?3) = ?4
               AND (?6 IS NULL OR state = ?6) AND (?7 IS NULL OR parent = ?7)
               AND (?8 IS NULL OR tenant = ?8)
             ORDER BY updated_at DESC, id LIMIT ?5",
        )?;
        let (length, more) = (number(prefix.len() as u64), number(limit as u64).saturating_add(1));
        let wanted = [
            Number(at),
            Text(id.as_bytes()),
            Number(length),
            Text(prefix.as_bytes()),
            Number(more),
            maybe(filter.state.map(SessionState::as_str)),
            maybe(filter.parent.as_ref().map(SessionId::as_str)),
            maybe(filter.tenant.as_ref().map(TenantId::as_str)),
        ];
        sessions.each(&wanted, |row| {
            if let Some(session) = text(&row, 0)?.and_then(|id| SessionId::parse(&id).ok()) {
                page.sessions.push(summary(&row, session)?);
            }
            Ok::<_, StoreError>(())
        })?;
        if page.sessions.len() > limit {
            page.sessions.truncate(limit);
            page.cursor = page.sessions.last().map(listing::behind);
        }
        if cursor.is_none() {
            let damaged = "SELECT id, damage FROM sessions WHERE damage IS NOT NULL ORDER BY id";
            self.database.statement(damaged)?.each(&[], |row| {
                if let Some(found) = text(&row, 0)?.zip(text(&row, 1)?).filter(|(id, _)| listing::wanted(filter, id)) {
                    page.quarantined.push(found);
                }
                Ok::<_, StoreError>(())
            })?;
        }
        Ok(page)
    }
}

pub(super) struct Pen<'c> {
    pub(super) tables: Tables<'c>,
    insert: Statement<'c>,
    grow: Statement<'c>,
    show: Statement<'c>,
    undo: Statement<'c>,
    now: Millis,
}

impl<'c> Pen<'c> {
    pub(super) fn of(database: &'c Database, now: Millis) -> Result<Self, StoreError> {
        let statement = |sql| database.statement(sql);
        Ok(Self {
            tables: Tables::of(database)?,
            insert: statement("INSERT INTO records (session, version, line) VALUES (?1, ?2, ?3)")?,
            grow: statement(
                "UPDATE sessions SET version = ?2, bytes = bytes + ?3, updated_at = ?4,
                 snapshot = coalesce(?5, snapshot) WHERE number = ?1",
            )?,
            show: statement(
                "UPDATE sessions SET version = ?2, bytes = bytes + ?3, updated_at = ?4,
                 snapshot = coalesce(?5, snapshot), title = ?6, state = ?7, turns = ?8, parent = ?9, cwd = ?10,
                 created_at = coalesce(?11, created_at), tenant = coalesce(?12, tenant) WHERE number = ?1",
            )?,
            undo: statement("DELETE FROM records WHERE session = ?1 AND version > ?2 AND version <= ?3")?,
            now,
        })
    }

    /// Whether what is written here will be committed; some failures end that.
    pub(super) fn is_writing(&self) -> bool {
        self.tables.database.is_in_transaction()
    }

    /// Writes lines behind the session's records: all of them or none. What a list shows is written with them where it
    /// is another now, and the version of the last snapshot among them.
    pub(super) fn write(
        &mut self,
        entry: &Entry,
        lines: &[Vec<u8>],
        glance: Option<&Glance>,
        snapshot: Option<u64>,
    ) -> Result<(), StoreError> {
        let mut version = entry.version;
        let Err(error) = self.write_each(entry, lines, glance, snapshot, &mut version) else { return Ok(()) };
        // The row is changed last and by one statement: only lines can be left over. Without a savepoint, which
        // would cost two statements an append, they are taken back here; appends of other sessions stand.
        let written = [Number(entry.number), Number(number(entry.version)), Number(number(version))];
        let is_undone = self.is_writing() && self.undo.run(&written).is_ok();
        if !is_undone {
            self.tables.database.give_up();
        }
        Err(error)
    }

    /// `version` is that of the last line that is written.
    fn write_each(
        &mut self,
        entry: &Entry,
        lines: &[Vec<u8>],
        glance: Option<&Glance>,
        snapshot: Option<u64>,
        version: &mut u64,
    ) -> Result<(), StoreError> {
        let mut bytes = 0;
        for line in lines {
            self.insert.run(&[Number(entry.number), Number(number(*version + 1)), Text(line)])?;
            *version += 1;
            bytes += line.len() as u64;
        }
        let mut values = vec![
            Number(entry.number),
            Number(number(*version)),
            Number(number(bytes)),
            Number(self.now),
            snapshot.map_or(Value::Nothing, |version| Number(number(version))),
        ];
        let Some(glance) = glance else { return self.grow.run(&values).map(drop) };
        values.extend([
            maybe(glance.title.as_deref()),
            Text(glance.state.as_str().as_bytes()),
            Number(number(glance.turns)),
            maybe(glance.parent.as_ref().map(SessionId::as_str)),
            maybe(glance.cwd.as_deref()),
            glance.created_at.map_or(Value::Nothing, Number),
            maybe(glance.tenant.as_ref().map(TenantId::as_str)),
        ]);
        self.show.run(&values).map(drop)
    }

    /// Notes an owner and its file, or that there is none: of a session that is there, or of a new one.
    pub(super) fn claim(&mut self, id: &SessionId, epoch: u64, owner: Option<(&str, &str)>) -> Result<(), StoreError> {
        let mut claim = self.tables.database.statement(
            "INSERT INTO sessions (id, epoch, version, bytes, updated_at, owner, lock) VALUES (?1, ?2, 0, 0, ?3, ?4, ?5)
             ON CONFLICT (id) DO UPDATE SET epoch = ?2, owner = ?4, lock = ?5",
        )?;
        let (owner, lock) = (maybe(owner.map(|(name, _)| name)), maybe(owner.map(|(_, lock)| lock)));
        claim.run(&[Text(id.as_str().as_bytes()), Number(number(epoch)), Number(self.now), owner, lock]).map(drop)
    }

    /// Ends an ownership, if it is this one.
    pub(super) fn release(&mut self, session: &SessionId, epoch: u64, lock: &str) -> Result<(), StoreError> {
        let release = "UPDATE sessions SET owner = NULL, lock = NULL WHERE id = ?1 AND epoch = ?2 AND lock = ?3";
        let values = [Text(session.as_str().as_bytes()), Number(number(epoch)), Text(lock.as_bytes())];
        self.tables.database.statement(release)?.run(&values).map(drop)
    }

    /// The epoch of a session before its first claim: no session that was deleted was given a greater one.
    pub(super) fn epoch_before_the_first(&self) -> Result<u64, StoreError> {
        let mut greatest = 0;
        self.tables.database.statement("SELECT epoch FROM deletions")?.each(&[], |row| {
            greatest = count(&row, 0)?;
            Ok::<_, StoreError>(())
        })?;
        Ok(greatest)
    }

    pub(super) fn delete(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let note = "INSERT INTO deletions (one, epoch) VALUES (1, ?1)
                    ON CONFLICT (one) DO UPDATE SET epoch = max(epoch, excluded.epoch)";
        self.tables.database.statement(note)?.run(&[Number(number(entry.epoch))])?;
        for sql in ["DELETE FROM records WHERE session = ?1", "DELETE FROM sessions WHERE number = ?1"] {
            self.tables.database.statement(sql)?.run(&[Number(entry.number)])?;
        }
        Ok(())
    }

    /// Notes what is wrong with a session's records, which stay as they are.
    pub(super) fn set_aside(&mut self, entry: &Entry, damage: &str) -> Result<(), StoreError> {
        let aside = "UPDATE sessions SET damage = ?2 WHERE number = ?1";
        self.tables.database.statement(aside)?.run(&[Number(entry.number), Text(damage.as_bytes())]).map(drop)
    }
}

/// What a row says that a list shows, if it says all of it.
fn glance(row: &Row<'_>) -> Result<Option<Glance>, StoreError> {
    let state = text(row, 8)?.and_then(|word| SessionState::parse(&word));
    let parent = text(row, 10)?.and_then(|id| SessionId::parse(&id).ok());
    let title = text(row, 7)?.map(Into::into);
    let turns = u64::try_from(row.number(9)?).ok();
    let (cwd, created_at) = (text(row, 11)?.map(Into::into), time(row, 12)?);
    let tenant = text(row, 13)?.map(TenantId::new);
    // The records say to which pool it is bound.
    let pool = None;
    Ok(state.zip(turns).map(|(state, turns)| Glance { title, state, turns, parent, tenant, cwd, created_at, pool }))
}

/// A session as its row shows it; one of an older program shows less.
fn summary(row: &Row<'_>, session: SessionId) -> Result<SessionSummary, StoreError> {
    let parent = text(row, 6)?.and_then(|id| SessionId::parse(&id).ok());
    Ok(SessionSummary {
        title: text(row, 3)?.map(Into::into),
        state: text(row, 4)?.and_then(|word| SessionState::parse(&word)),
        turns: u64::try_from(row.number(5)?).ok(),
        parent,
        cwd: text(row, 7)?.map(Into::into),
        created_at: time(row, 8)?,
        tenant: text(row, 9)?.map(TenantId::new),
        ..SessionSummary::bare(session, row.number(1)?, count(row, 2)?)
    })
}

/// A time that may be missing, which is then told as -1.
fn time(row: &Row<'_>, column: usize) -> Result<Option<Millis>, StoreError> {
    Ok(Some(row.number(column)?).filter(|time| *time >= 0))
}

fn maybe(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Nothing, |text| Text(text.as_bytes()))
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(row: &Row<'_>, column: usize) -> Result<u64, StoreError> {
    let number = row.number(column)?;
    u64::try_from(number).map_err(|_| StoreError::Corrupt(format!("a session's row counts {number}")))
}

fn text(row: &Row<'_>, column: usize) -> Result<Option<String>, StoreError> {
    Ok(row.text(column)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}
