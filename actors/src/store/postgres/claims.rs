//! Claims, releases and deletions: whose a session is.

use super::again::passes;
use super::appends::FREE;
use super::link::PATIENCE;
use super::node;
use super::owners;
use super::schema::{self, STEPS};
use super::tables::{Entry, damaged, entry_columns, epoch, names, records, signed};
use super::up::{Unread, Up};
use super::writer::{Claiming, Releasing, Writer};
use crate::store::Ledger;
use crate::store::span::Span;
use bob_messages::ids::{PoolName, SessionId};
use bob_messages::store::{Claim, Pools, StoreError};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

pub(super) struct Claimed {
    pub(super) ledger: Ledger,
    pub(super) claim: Claim,
}

/// Whether the session `s` may be claimed: it has no owner, its owner is this process or noted as dead, or it is to be taken over.
macro_rules! is_free {
    ($ours:literal, $takes_over:literal) => {
        concat!(
            "(s.node IS NULL OR s.node = ",
            $ours,
            " OR ",
            $takes_over,
            " OR NOT EXISTS (SELECT FROM bob_nodes n WHERE n.number = s.node AND NOT n.dead))"
        )
    };
}

/// Claims sessions. A row that another transaction has locked is not waited for, which would hold up all that is behind it on the
/// connection: it is not claimed then. New ones come in the order of their ids, so that two processes with the same ones do not
/// wait for each other.
pub(super) const CLAIM: &str = concat!(
    "WITH input AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::integer[]) AS i(id, node)),
     unlocked AS MATERIALIZED (SELECT id FROM bob_sessions WHERE id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED)
     INSERT INTO bob_sessions AS s (id, epoch, version, bytes, updated_at, node)
     SELECT i.id, 1, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, i.node FROM input i
     WHERE (SELECT version FROM bob_meta WHERE application = 'bob') <= $4
     AND (i.id IN (SELECT id FROM unlocked) OR NOT EXISTS (SELECT FROM bob_sessions x WHERE x.id = i.id))
     ORDER BY i.id
     ON CONFLICT (id) DO UPDATE SET epoch = s.epoch + 1, node = EXCLUDED.node WHERE s.damage IS NULL
         AND (s.pool IS NULL OR $5 OR s.pool = ANY ($6)) AND ",
    is_free!("EXCLUDED.node", "s.id = ANY ($3)"),
    " RETURNING ",
    entry_columns!(),
    ", s.id AS claimed"
);

/// With its records and messages, as far as the statement sees them.
pub(super) const DELETE: &str = concat!(
    "WITH gone AS (DELETE FROM bob_sessions s WHERE s.id = $1 AND ",
    is_free!("$2", "$3"),
    " RETURNING s.number),
     records AS (DELETE FROM bob_records WHERE session IN (SELECT number FROM gone)),
     messages AS (DELETE FROM bob_inbox WHERE session = $1
         AND (EXISTS (SELECT FROM gone) OR NOT EXISTS (SELECT FROM bob_sessions WHERE id = $1)))
     SELECT number FROM gone"
);

/// What was appended after the deletion began and before it had the row. The number is not given again.
pub(super) const DELETE_LATE: &str = "DELETE FROM bob_records WHERE session = $1";

/// Ends ownerships, and answers of each whether it is done, and whether there was one. A row that is locked is not waited for, as
/// with a claim. The rows are looked up by their numbers, and not by the index of owned ones, which has all of this process.
pub(super) const RELEASE: &str = concat!(
    "WITH input AS MATERIALIZED (
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::integer[]) WITH ORDINALITY AS i(id, epoch, node, place)),
     unlocked AS MATERIALIZED (SELECT id, number FROM bob_sessions WHERE id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED),
     released AS (UPDATE bob_sessions s SET node = NULL FROM unlocked u JOIN input i ON i.id = u.id
         WHERE s.number = u.number AND s.node + 0 = i.node AND i.epoch = ",
    epoch!(),
    " RETURNING s.id)
     SELECT i.id IN (SELECT id FROM unlocked) OR NOT EXISTS (SELECT FROM bob_sessions x WHERE x.id = i.id),
         i.id IN (SELECT id FROM released) FROM input i ORDER BY i.place"
);

/// Between two attempts at a session that is not to be had for a moment.
const PAUSE: Duration = Duration::from_millis(20);

/// A session that was not given.
const OWNER: &str = "SELECT s.damage, n.number, n.name, n.address, s.pool
    FROM bob_sessions s LEFT JOIN bob_nodes n ON n.number = s.node AND NOT n.dead WHERE s.id = $1";

const SET_ASIDE: &str = "UPDATE bob_sessions SET damage = $2, node = NULL WHERE number = $1";

/// Ends the ownership that a claim began, which cannot be used.
const GIVE_BACK: &str = concat!("UPDATE bob_sessions s SET node = NULL WHERE s.number = $1 AND $2 = ", epoch!());

enum Held {
    /// It is free by now.
    Free,
    Refused(StoreError),
}

impl Writer {
    /// Claims a session, and reads these of its records. A claim that was lost with its connection is made again.
    pub(super) async fn claim(&self, session: &SessionId, span: Span) -> Result<Claimed, StoreError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let up = self.link.to_write(until).await?;
            let node = self.node.ours().await?;
            match self.try_claim(&up, session, node, span).await {
                // This process entered again meanwhile: the session is claimed under a row that is dead.
                Ok(Ok(_)) if self.node.known() != Some(node) && Instant::now() < until => {}
                Ok(Ok(claimed)) => {
                    self.node.claimed(session, node, claimed.claim.epoch);
                    return Ok(claimed);
                }
                Ok(Err(Held::Refused(error))) | Err(Unread::Bad(error)) => return Err(error),
                Ok(Err(Held::Free)) if Instant::now() < until => sleep(PAUSE).await,
                Ok(Err(Held::Free)) => return Err(self.not_to_be_had(&up, session).await),
                Err(Unread::Failed(error)) if passes(&error) && Instant::now() < until => {}
                Err(Unread::Failed(error)) => return Err(self.link.address.failed("write", &error)),
            }
        }
    }

    fn takes_over(&self, session: &SessionId) -> bool {
        self.options.take_over && !self.taken.borrow().contains(session)
    }

    async fn try_claim(
        &self,
        up: &Up,
        session: &SessionId,
        node: i32,
        span: Span,
    ) -> Result<Result<Claimed, Held>, Unread> {
        let claim = Claiming { session: session.clone(), node, takes_over: self.takes_over(session) };
        let claimed = self.claims.ask(claim.clone(), async |claims| self.send_claims(up, &claims).await).await?;
        let claimed = match claimed {
            Some(claimed) => claimed,
            None => self.send_claims(up, &[claim]).await?.pop().flatten(),
        };
        let Some(entry) = claimed else {
            // A newer program has been here since the connection was made.
            schema::nature(up, &self.link.address).await?;
            return Ok(Err(self.held(up, session, &self.options.pools).await?));
        };
        let _turn = self.beside.acquire().await;
        match records(up, &self.link.address, session, entry.number, entry.bounds(span)).await {
            // It was deleted as soon as it was claimed.
            Ok(None) => Ok(Err(Held::Free)),
            Ok(Some(records)) => {
                let ledger = entry.ledger(&records);
                Ok(Ok(Claimed { ledger, claim: Claim { epoch: entry.epoch, version: entry.version, records } }))
            }
            Err(Unread::Bad(error)) => {
                match &error {
                    StoreError::Corrupt(what) => {
                        tracing::error!(%session, what, "the records of a session are damaged; it is set aside");
                        up.ask(up.client.execute(SET_ASIDE, &[&entry.number, what])).await?;
                    }
                    // A newer program can have it at once.
                    _too_new => {
                        up.ask(up.client.execute(GIVE_BACK, &[&entry.number, &signed(entry.epoch)])).await?;
                    }
                }
                Err(Unread::Bad(error))
            }
            Err(failed) => Err(failed),
        }
    }

    /// Claims sessions in one statement, and answers for each whether it was given.
    async fn send_claims(&self, up: &Up, claims: &[Claiming]) -> Result<Vec<Option<Entry>>, Error> {
        let _turn = self.beside.acquire().await;
        let statement = up.prepared(CLAIM).await?;
        let ids: Vec<&str> = claims.iter().map(|claim| claim.session.as_str()).collect();
        let nodes: Vec<i32> = claims.iter().map(|claim| claim.node).collect();
        let taken_over = claims.iter().filter(|claim| claim.takes_over).map(|claim| claim.session.as_str());
        let taken_over: Vec<&str> = taken_over.collect();
        let known = STEPS.len() as i32;
        let (is_in_all, pools) = names(&self.options.pools);
        let values: [&(dyn ToSql + Sync); 6] = [&ids, &nodes, &taken_over, &known, &is_in_all, &pools];
        let rows = up.ask(up.client.query(&statement, &values)).await?;
        let mut given: HashMap<&str, Entry> = rows.iter().map(|row| (row.get("claimed"), Entry::of(row))).collect();
        Ok(ids.iter().map(|id| given.remove(id)).collect())
    }

    /// Why a session was not given to a process of these pools; its owner is looked at.
    async fn held(&self, up: &Up, session: &SessionId, pools: &Pools) -> Result<Held, Error> {
        let Some(row) = up.ask(up.client.query_opt(OWNER, &[&session.as_str()])).await? else { return Ok(Held::Free) };
        if let Some(damage) = row.get::<_, Option<&str>>(0) {
            return Ok(Held::Refused(damaged(&self.link.address, session, damage)));
        }
        let pool = row.get::<_, Option<&str>>(4).and_then(|name| PoolName::parse(name).ok());
        if let Some(pool) = pool.filter(|pool| !pools.reach(Some(pool))) {
            let processes = owners::of_pool(up, &pool).await?;
            return Ok(Held::Refused(StoreError::Unreachable { pool, processes }));
        }
        let Some(owner) = row.get::<_, Option<i32>>(1) else { return Ok(Held::Free) };
        // It would have been given, were its row not locked.
        if self.node.known() == Some(owner) || self.takes_over(session) {
            return Ok(Held::Free);
        }
        if node::is_dead(up, owner).await? {
            return Ok(Held::Free);
        }
        Ok(Held::Refused(StoreError::Busy { owner: owners::named(row.get(2), row.get(3)) }))
    }

    /// Why a session is not to be had that is free each time it is looked at.
    async fn not_to_be_had(&self, up: &Up, session: &SessionId) -> StoreError {
        let unlocked = up.ask(up.client.query(FREE, &[&&[session.as_str()][..]])).await;
        match unlocked.is_ok_and(|rows| rows.is_empty()) {
            true => self.locked(session),
            false => self.link.address.refuse("gives a session to others all the time; try again"),
        }
    }

    /// Ends an ownership. Best effort: after a failure the session stays owned until this process ends.
    pub(super) async fn release(&self, session: &SessionId, epoch: u64) {
        if self.node.known().is_none() {
            return;
        }
        self.node.released(session, epoch);
        if let Err(error) = self.try_release(session, epoch).await {
            tracing::debug!(%session, %error, "a session could not be released");
        }
    }

    async fn try_release(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let up = self.link.to_write(until).await?;
            let node = self.node.known().unwrap_or_default();
            let one = Releasing { session: session.clone(), epoch, node };
            let together = self.releases.ask(one.clone(), async |all| self.send_releases(&up, &all).await).await;
            let released = match together {
                Ok(None) => self.send_releases(&up, &[one]).await.map(|answers| answers.first().copied()),
                answered => answered,
            };
            match released.map(|released| released.unwrap_or((false, false))) {
                Ok((false, _)) if Instant::now() < until => sleep(PAUSE).await,
                Ok((false, _)) => return Err(self.locked(session)),
                // This process entered again meanwhile, and took the session along.
                Ok((true, false)) if self.node.known() != Some(node) && Instant::now() < until => {}
                Ok(_done) => return Ok(()),
                Err(error) if passes(&error) && Instant::now() < until => {}
                Err(error) => return Err(self.link.address.failed("write", &error)),
            }
        }
    }

    /// Ends ownerships in one statement. Of each: whether it is done, and whether there was one.
    async fn send_releases(&self, up: &Up, releases: &[Releasing]) -> Result<Vec<(bool, bool)>, Error> {
        let _turn = self.beside.acquire().await;
        let statement = up.prepared(RELEASE).await?;
        let ids: Vec<&str> = releases.iter().map(|one| one.session.as_str()).collect();
        let epochs: Vec<i64> = releases.iter().map(|one| signed(one.epoch)).collect();
        let nodes: Vec<i32> = releases.iter().map(|one| one.node).collect();
        let rows = up.ask(up.client.query(&statement, &[&ids, &epochs, &nodes])).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Removes a session that is no other living process's.
    pub(super) async fn delete(&self, session: &SessionId) -> Result<bool, StoreError> {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.link.to_read(until).await?.is_none() {
                return Ok(false);
            }
            let up = self.link.to_write(until).await?;
            let deleted = match self.try_delete(&up, session).await {
                Ok(true) => Ok(true),
                Ok(false) => match self.owner_of(&up, session).await {
                    Ok(None) => Ok(false),
                    Ok(Some(Held::Refused(error @ StoreError::Busy { .. }))) => return Err(error),
                    // Its owner died just now.
                    Ok(Some(_)) if Instant::now() < until => {
                        sleep(PAUSE).await;
                        continue;
                    }
                    Ok(Some(Held::Refused(error))) => return Err(error),
                    Ok(Some(Held::Free)) => return Err(self.not_to_be_had(&up, session).await),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            match deleted {
                Ok(deleted) => {
                    self.node.released(session, u64::MAX);
                    return Ok(deleted);
                }
                Err(error) if passes(&error) && Instant::now() < until => {}
                Err(error) => return Err(self.link.address.failed("write", &error)),
            }
        }
    }

    async fn owner_of(&self, up: &Up, session: &SessionId) -> Result<Option<Held>, Error> {
        match super::reader::find(up, session).await? {
            None => Ok(None),
            // A deletion is not bound to a pool.
            Some(_) => self.held(up, session, &Pools::All).await.map(Some),
        }
    }

    async fn try_delete(&self, up: &Up, session: &SessionId) -> Result<bool, Error> {
        let node = self.node.known().unwrap_or_default();
        let takes_over = self.takes_over(session);
        let delete = up.prepared(DELETE).await?;
        let values: [&(dyn ToSql + Sync); 3] = [&session.as_str(), &node, &takes_over];
        let Some(row) = up.ask(up.client.query_opt(&delete, &values)).await? else { return Ok(false) };
        up.ask(up.client.execute(DELETE_LATE, &[&row.get::<_, i64>(0)])).await?;
        Ok(true)
    }
}
