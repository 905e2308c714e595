//! Appends: many sessions in one statement, of which the database stores those whose version and epoch are right.
//!
//! What is known of a session here says what is new of an append. The database has the last word: what it did not
//! store is looked at again, from its own rows. So is what was sent when the connection broke, and the ids of the
//! records that are there say whether it was stored.

use super::failure::{is_broken, is_in_the_way, is_locked};
use super::item::{Item, Ruled};
use super::link::PATIENCE;
use super::reader::find;
use super::tables::{damaged, epoch, records, signed};
use super::up::{Unread, Up};
use super::writer::Writer;
use crate::store::Ledger;
use bob_messages::ids::{PoolName, SessionId, TenantId};
use bob_messages::store::{Append, StoreError};
use futures_util::future::join_all;
use std::collections::HashSet;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

/// How often an append is looked at again because others wrote meanwhile.
const MAX_ROUNDS: usize = 32;

/// The rows are looked up by their ids: no other index has a condition that stands here (`damage IS NULL` would be one), since
/// this is planned once, when the tables may be empty and all indexes cost the same.
pub(super) const APPEND: &str = concat!(
    "
    WITH input AS MATERIALIZED (
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[],
            $8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::text[], $15::text[], $16::text[])
            WITH ORDINALITY AS r(id, epoch, expected, count, bytes, snapshot, shows,
                title, state, turns, parent, cwd, created_at, tenant, pool, lines, place)
    ), grown AS (
        UPDATE bob_sessions s SET version = s.version + r.count, bytes = s.bytes + r.bytes,
            updated_at = CASE WHEN r.count > 0 THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint
                ELSE s.updated_at END,
            snapshot = coalesce(r.snapshot, s.snapshot),
            title = CASE WHEN r.shows THEN r.title ELSE s.title END,
            state = CASE WHEN r.shows THEN r.state ELSE s.state END,
            turns = CASE WHEN r.shows THEN r.turns ELSE s.turns END,
            parent = CASE WHEN r.shows THEN r.parent ELSE s.parent END,
            cwd = CASE WHEN r.shows THEN r.cwd ELSE s.cwd END,
            pool = CASE WHEN r.shows THEN r.pool ELSE s.pool END,
            created_at = coalesce(r.created_at, s.created_at), tenant = coalesce(r.tenant, s.tenant)
        FROM input r WHERE s.id = r.id AND s.version = r.expected AND coalesce(s.damage, '') = '' AND r.epoch = ",
    epoch!(),
    "
        RETURNING s.number, r.place, r.expected, r.lines
    ), written AS (
        INSERT INTO bob_records (session, version, line)
        SELECT grown.number, grown.expected + l.nth, l.line
        FROM grown, unnest(string_to_array(grown.lines, chr(10))) WITH ORDINALITY AS l(line, nth)
    )
    SELECT place FROM grown"
);

/// What is refused, or was joined with something that is.
type Refusal = (Item, StoreError);

/// Those of these sessions whose rows no other transaction has locked.
pub(super) const FREE: &str = "SELECT id FROM bob_sessions WHERE id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED";

impl Writer {
    pub(super) async fn append(&self, mut items: Vec<Item>) {
        let until = Instant::now() + PATIENCE;
        let mut rounds = 0;
        while !items.is_empty() {
            rounds += 1;
            let up = match self.link.to_read(until).await {
                Ok(Some(up)) if rounds <= MAX_ROUNDS => up,
                Ok(Some(_)) => {
                    let many = self.link.address.refuse("is written to by others all the time; try again");
                    return items.into_iter().for_each(|item| item.give_up(&many));
                }
                Ok(None) => return items.into_iter().for_each(|item| item.give_up(&StoreError::Fenced { epoch: 0 })),
                Err(error) => return items.into_iter().for_each(|item| item.give_up(&error)),
            };
            let (ruled, mut again, refusals) = self.rule(&up, std::mem::take(&mut items)).await;
            if !ruled.is_empty() {
                match send(&up, &ruled).await {
                    Ok(rows) => again.extend(self.stored(&rows, ruled)),
                    Err(error) if is_broken(&error) => again.extend(self.doubted(ruled)),
                    Err(error) if is_locked(&error) => again.extend(self.unlocked(&up, ruled).await),
                    Err(error) if is_in_the_way(&error) => again.extend(self.refused(ruled)),
                    Err(error) => self.apart(ruled, &error).await,
                }
            }
            // Behind the others, which do not wait for them.
            for (item, error) in refusals {
                self.one_by_one(item, &error).await;
            }
            items = again;
        }
    }

    /// Says of each append what is new of it, and why nothing of it can be stored. Those for which the database could not be
    /// asked are left for another round.
    async fn rule(&self, up: &Up, items: Vec<Item>) -> (Vec<Ruled>, Vec<Item>, Vec<Refusal>) {
        let looked = items.into_iter().map(async |item| {
            let append = &item.encoded.append;
            let is_good = |known: &&Ledger| known.epoch() == append.epoch && known.wants(append).is_none();
            let known =
                self.known.borrow().get(&append.session).filter(is_good).map(|known| known.rule(append).is_ok());
            match known.unwrap_or_default() {
                true => (item, Ok(None)),
                false => {
                    let read = self.read(up, append).await;
                    (item, read.map(Some))
                }
            }
        });
        let looked = join_all(looked).await;
        let (mut ruled, mut again, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
        for (item, ledger) in looked {
            match ledger {
                Ok(read) => {
                    let session = item.session().clone();
                    let read = read.or_else(|| self.known.borrow_mut().remove(&session)).unwrap_or_default();
                    match Ruled::of(item, &read) {
                        Ok(one) => ruled.push(one),
                        Err(refused) => refusals.push(*refused),
                    }
                    self.known.borrow_mut().insert(session, read);
                }
                Err(Unread::Bad(error)) => item.give_up(&error),
                Err(Unread::Failed(error)) if is_broken(&error) => again.push(item),
                Err(Unread::Failed(error)) => item.give_up(&self.link.address.failed("read", &error)),
            }
        }
        (ruled, again, refusals)
    }

    /// Answers an item that was refused with this error; of one that was joined, each part is sent by itself first.
    async fn one_by_one(&self, item: Item, error: &StoreError) {
        if !item.is_joined() {
            return item.give_up(error);
        }
        for part in item.parts() {
            Box::pin(self.append(vec![part])).await;
        }
    }

    /// What the database has of the session, as far as this append may be stored already.
    async fn read(&self, up: &Up, append: &Append) -> Result<Ledger, Unread> {
        let session = &append.session;
        let first = append.records.first().map_or(u64::MAX, |first| first.version.max(1));
        loop {
            let Some(entry) = find(up, session).await? else {
                return Err(Unread::Bad(StoreError::Fenced { epoch: 0 }));
            };
            if entry.epoch != append.epoch {
                return Err(Unread::Bad(StoreError::Fenced { epoch: entry.epoch }));
            }
            if let Some(damage) = &entry.damage {
                return Err(Unread::Bad(damaged(&self.link.address, session, damage)));
            }
            let read = records(up, &self.link.address, session, entry.number, (first, entry.version)).await?;
            if let Some(there) = read {
                return Ok(entry.ledger(&there));
            }
        }
    }

    /// Answers what the database stored; the rest is looked at again.
    fn stored(&self, rows: &[Row], ruled: Vec<Ruled>) -> Vec<Item> {
        let places: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let mut rest = Vec::new();
        for (place, one) in (1..).zip(ruled) {
            if !places.contains(&place) {
                rest.push(one);
                continue;
            }
            let session = one.item.session().clone();
            one.done(self.known.borrow_mut().get_mut(&session));
        }
        self.refused(rest)
    }

    /// Nothing of these was stored.
    fn refused(&self, ruled: Vec<Ruled>) -> Vec<Item> {
        for one in &ruled {
            self.known.borrow_mut().remove(one.item.session());
        }
        ruled.into_iter().map(|one| one.item).collect()
    }

    /// Nothing of these was stored, since another transaction had one of their rows or a table locked. Those whose rows
    /// it has are answered, so that the others do not wait for it; they may be sent again.
    async fn unlocked(&self, up: &Up, ruled: Vec<Ruled>) -> Vec<Item> {
        let items = self.refused(ruled);
        let ids: Vec<&str> = items.iter().map(|item| item.session().as_str()).collect();
        let free: HashSet<String> = match up.ask(up.client.query(FREE, &[&ids])).await {
            Ok(rows) => rows.iter().map(|row| row.get(0)).collect(),
            Err(error) if is_broken(&error) => return items,
            Err(_the_table) => HashSet::new(),
        };
        let (free, locked): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| free.contains(item.session().as_str()));
        for item in locked {
            let locked = self.locked(item.session());
            item.give_up(&locked);
        }
        free
    }

    /// Another transaction has the row of a session.
    pub(super) fn locked(&self, session: &SessionId) -> StoreError {
        self.link.address.refuse(&format!("has session {session} locked by another transaction; try again"))
    }

    /// It is not known whether these were stored.
    fn doubted(&self, ruled: Vec<Ruled>) -> Vec<Item> {
        let items = self.refused(ruled);
        items.into_iter().map(Item::in_doubt).collect()
    }

    /// The statement failed, and with it all of its appends: each gets one of its own, and the error where it is alone.
    async fn apart(&self, ruled: Vec<Ruled>, error: &Error) {
        let items = self.refused(ruled);
        let is_alone = items.len() == 1;
        for item in items {
            match is_alone {
                true => self.one_by_one(item, &self.link.address.failed("write", error)).await,
                false => Box::pin(self.append(vec![item])).await,
            }
        }
    }
}

/// Sends them in one statement. Answers the places, from 1 on, of those that are stored.
async fn send(up: &Up, ruled: &[Ruled]) -> Result<Vec<Row>, Error> {
    fn column<'r, T>(ruled: &'r [Ruled], value: impl FnMut(&'r Ruled) -> T) -> Vec<T> {
        ruled.iter().map(value).collect()
    }
    let statement = up.prepared(APPEND).await?;
    let ids = column(ruled, |one| one.item.session().as_str());
    let epochs = column(ruled, |one| signed(one.item.encoded.append.epoch));
    let expected = column(ruled, |one| signed(one.expected));
    let counts = column(ruled, |one| signed(one.fresh().len() as u64));
    let bytes = column(ruled, |one| signed(one.lines().iter().map(Vec::len).sum::<usize>() as u64));
    let snapshots = column(ruled, |one| one.snapshot.map(signed));
    let shows = column(ruled, |one| one.shows);
    let titles = column(ruled, |one| text(one.glance.title.as_deref()));
    let states = column(ruled, |one| one.glance.state.as_str());
    let turns = column(ruled, |one| signed(one.glance.turns));
    let parents = column(ruled, |one| one.glance.parent.as_ref().map(SessionId::as_str));
    let cwds = column(ruled, |one| text(one.glance.cwd.as_deref()));
    let created = column(ruled, |one| one.glance.created_at);
    let tenants = column(ruled, |one| text(one.glance.tenant.as_ref().map(TenantId::as_str)));
    let pools = column(ruled, |one| one.glance.pool.as_ref().map(PoolName::as_str));
    // JSON of this program: it is UTF-8, has no line ends, and escapes the character 0.
    let lines = column(ruled, |one| String::from_utf8(one.lines().join(&b'\n')).unwrap_or_default());
    let values: [&(dyn ToSql + Sync); 16] = [
        &ids, &epochs, &expected, &counts, &bytes, &snapshots, &shows, &titles, &states, &turns, &parents, &cwds,
        &created, &tenants, &pools, &lines,
    ];
    up.ask(up.client.query(&statement, &values)).await
}

/// A text as a column takes it: without the character 0.
fn text(text: Option<&str>) -> Option<String> {
    text.map(|text| text.replace('\0', "\u{fffd}"))
}
