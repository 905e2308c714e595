//! Claims, releases and deletions: whose a session is.

use super::again::passes;
use super::link::PATIENCE;
use super::node;
use super::schema::{self, STEPS};
use super::tables::{Entry, damaged, entry_columns, epoch, records, signed};
use super::up::{Unread, Up};
use super::writer::Writer;
use crate::store::Ledger;
use crate::store::span::Span;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Claim, StoreError};
use futures_util::future::join_all;
use tokio::time::Instant;
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

/// A session that was claimed here.
pub(super) struct Claimed {
    pub(super) ledger: Ledger,
    pub(super) claim: Claim,
}

/// Whether the session `s` may be claimed: it has no owner, its owner is `$2` or noted as dead, or it is to be taken over (`$3`).
macro_rules! is_free {
    () => {
        "(s.node IS NULL OR s.node = $2 OR $3
          OR NOT EXISTS (SELECT FROM bob_nodes n WHERE n.number = s.node AND NOT n.dead))"
    };
}

const CLAIM: &str = concat!(
    "INSERT INTO bob_sessions AS s (id, epoch, version, bytes, updated_at, node)
     SELECT $1, 1, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $2
     WHERE (SELECT version FROM bob_meta WHERE application = 'bob') <= $4
     ON CONFLICT (id) DO UPDATE SET epoch = s.epoch + 1, node = $2 WHERE s.damage IS NULL AND ",
    is_free!(),
    " RETURNING ",
    entry_columns!()
);

const DELETE: &str = concat!("DELETE FROM bob_sessions s WHERE s.id = $1 AND ", is_free!(), " RETURNING s.number");

const DELETE_MESSAGES: &str =
    "DELETE FROM bob_inbox WHERE session = $1 AND NOT EXISTS (SELECT FROM bob_sessions WHERE id = $1)";

const RELEASE: &str =
    concat!("UPDATE bob_sessions s SET node = NULL WHERE s.id = $1 AND s.node = $3 AND $2 = ", epoch!());

/// A session that was not given.
const OWNER: &str = "SELECT s.damage, n.number, n.name, n.address
    FROM bob_sessions s LEFT JOIN bob_nodes n ON n.number = s.node AND NOT n.dead WHERE s.id = $1";

const SET_ASIDE: &str = "UPDATE bob_sessions SET damage = $2, node = NULL WHERE number = $1";

/// Ends the ownership that a claim began, which cannot be used.
const GIVE_BACK: &str = concat!("UPDATE bob_sessions s SET node = NULL WHERE s.number = $1 AND $2 = ", epoch!());

/// Why a session was not given.
enum Held {
    /// It is free by now.
    Free,
    Refused(StoreError),
}

impl Writer {
    /// Claims a session, and reads these of its records. A claim that was lost with its connection is made again
    /// under the same name.
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
                Ok(Err(Held::Free)) if Instant::now() < until => {}
                Ok(Err(Held::Free)) => {
                    return Err(self.link.address.refuse("gives a session to others all the time; try again"));
                }
                Err(Unread::Failed(error)) if passes(&error) && Instant::now() < until => {}
                Err(Unread::Failed(error)) => return Err(self.link.address.failed("write", &error)),
            }
        }
    }

    fn takes_over(&self, session: &SessionId) -> bool {
        self.options.take_over && !self.taken.contains(session)
    }

    async fn try_claim(
        &self,
        up: &Up,
        session: &SessionId,
        node: i32,
        span: Span,
    ) -> Result<Result<Claimed, Held>, Unread> {
        let statement = up.prepared(CLAIM).await?;
        let takes_over = self.takes_over(session);
        let known = STEPS.len() as i32;
        let values: [&(dyn ToSql + Sync); 4] = [&session.as_str(), &node, &takes_over, &known];
        let row = up.ask(up.client.query_opt(&statement, &values)).await?;
        let Some(entry) = row.map(|row| Entry::of(&row)) else {
            // A newer program has been here since the connection was made.
            schema::nature(up, &self.link.address).await?;
            return Ok(Err(self.held(up, session).await?));
        };
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

    /// Why a session was not given; its owner is looked at.
    async fn held(&self, up: &Up, session: &SessionId) -> Result<Held, Error> {
        let Some(row) = up.ask(up.client.query_opt(OWNER, &[&session.as_str()])).await? else { return Ok(Held::Free) };
        if let Some(damage) = row.get::<_, Option<&str>>(0) {
            return Ok(Held::Refused(damaged(&self.link.address, session, damage)));
        }
        let Some(owner) = row.get::<_, Option<i32>>(1) else { return Ok(Held::Free) };
        if node::is_dead(up, owner).await? {
            return Ok(Held::Free);
        }
        let (name, address): (String, &str) = (row.get(2), row.get(3));
        let is_near = address.is_empty() || address == "127.0.0.1" || address == "::1";
        let owner = if is_near { name } else { format!("{name} on {address}") };
        Ok(Held::Refused(StoreError::Busy { owner }))
    }

    /// Ends ownerships. Best effort: after a failure a session stays owned until this process ends.
    pub(super) async fn release(&self, releases: Vec<(SessionId, u64, Reply<()>)>) {
        if self.node.known().is_none() || releases.is_empty() {
            return releases.into_iter().for_each(|(_, _, reply)| reply.send(()));
        }
        let until = Instant::now() + PATIENCE;
        join_all(releases.into_iter().map(async |(session, epoch, reply)| {
            self.node.released(&session, epoch);
            if let Err(error) = self.try_release(&session, epoch, until).await {
                tracing::debug!(%session, %error, "a session could not be released");
            }
            reply.send(());
        }))
        .await;
    }

    async fn try_release(&self, session: &SessionId, epoch: u64, until: Instant) -> Result<(), StoreError> {
        loop {
            let up = self.link.to_write(until).await?;
            let node = self.node.known().unwrap_or_default();
            let released = async {
                let statement = up.prepared(RELEASE).await?;
                up.ask(up.client.execute(&statement, &[&session.as_str(), &signed(epoch), &node])).await
            };
            match released.await {
                // This process entered again meanwhile, and took the session along.
                Ok(0) if self.node.known() != Some(node) && Instant::now() < until => {}
                Ok(_rows) => return Ok(()),
                Err(error) if passes(&error) && Instant::now() < until => {}
                Err(error) => return Err(self.link.address.failed("write", &error)),
            }
        }
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
                    Ok(Some(_)) if Instant::now() < until => continue,
                    Ok(Some(Held::Refused(error))) => return Err(error),
                    Ok(Some(Held::Free)) => {
                        return Err(self.link.address.refuse("gives a session to others all the time; try again"));
                    }
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

    /// Who holds a session, if there is one.
    async fn owner_of(&self, up: &Up, session: &SessionId) -> Result<Option<Held>, Error> {
        match super::reader::find(up, session).await? {
            None => Ok(None),
            Some(_) => self.held(up, session).await.map(Some),
        }
    }

    /// In two statements of one transaction, so that the second one sees what was appended before the first.
    async fn try_delete(&self, up: &Up, session: &SessionId) -> Result<bool, Error> {
        let node = self.node.known().unwrap_or_default();
        let delete = up.prepared(DELETE).await?;
        let takes_over = self.takes_over(session);
        up.ask(up.client.batch_execute("BEGIN")).await?;
        let deleted = async {
            let values: [&(dyn ToSql + Sync); 3] = [&session.as_str(), &node, &takes_over];
            let Some(row) = up.ask(up.client.query_opt(&delete, &values)).await? else {
                // It may have messages before it exists.
                up.ask(up.client.execute(DELETE_MESSAGES, &[&session.as_str()])).await?;
                return Ok(false);
            };
            let number: i64 = row.get(0);
            up.ask(up.client.execute("DELETE FROM bob_records WHERE session = $1", &[&number])).await?;
            up.ask(up.client.execute(DELETE_MESSAGES, &[&session.as_str()])).await?;
            Ok(true)
        };
        let deleted = deleted.await;
        let end = if deleted.is_ok() { "COMMIT" } else { "ROLLBACK" };
        up.ask(up.client.batch_execute(end)).await?;
        deleted
    }
}
