//! Who owns a session, and taking it away.

use super::again::{reading, writing};
use super::link::{Link, PATIENCE};
use super::node::lives;
use super::schema::{self, STEPS};
use super::up::{Unread, Up};
use super::writer::Writer;
use crate::store::SessionOwner;
use bob_messages::ids::{PoolName, SessionId};
use bob_messages::store::StoreError;
use std::cell::Cell;
use std::rc::Rc;
use tokio::time::Instant;
use tokio_postgres::{Error, Row};

const OWNER: &str = concat!(
    "SELECT n.number, n.name, n.address FROM bob_sessions s JOIN bob_nodes n ON n.number = s.node WHERE s.id = $1 AND ",
    lives!()
);

const EPOCH: &str = "SELECT epoch FROM bob_sessions WHERE id = $1";

/// In one statement: of two that take a session, one is told whose it was. A session is locked before its owner is looked at.
/// One whose lease is over is an owner as well: it may be a process that stands still and goes on later, under its epoch.
const TAKE: &str =
    "WITH former AS MATERIALIZED (SELECT s.number, s.node FROM bob_sessions s WHERE s.id = $1 FOR UPDATE)
     UPDATE bob_sessions s SET epoch = s.epoch + 1, node = NULL
     FROM former f JOIN bob_nodes n ON n.number = f.node
     WHERE s.number = f.number AND s.epoch = $3 AND (SELECT version FROM bob_meta WHERE application = 'bob') <= $2
     RETURNING n.number, n.name, n.address";

/// The living processes of a pool, those that were renewed last first.
const OF_POOL: &str = concat!(
    "SELECT n.name, n.address FROM bob_nodes n WHERE $1 = ANY (n.pools) AND ",
    lives!(),
    " ORDER BY n.renewed_at DESC LIMIT 8"
);

/// The names of some of them, for people.
pub(super) async fn of_pool(up: &Up, pool: &PoolName) -> Result<Vec<String>, Error> {
    let statement = up.prepared(OF_POOL).await?;
    let rows = up.ask(up.client.query(&statement, &[&pool.as_str()])).await?;
    Ok(rows.iter().map(|row| named(row.get(0), row.get(1))).collect())
}

/// A process for people, with its address where that is another machine's.
pub(super) fn named(name: String, address: &str) -> String {
    let is_near = address.is_empty() || address == "127.0.0.1" || address == "::1";
    if is_near { name } else { format!("{name} on {address}") }
}

pub(super) async fn owner(link: &Link, session: &SessionId) -> Result<Option<SessionOwner>, StoreError> {
    reading(
        link,
        1,
        || None,
        async |up| {
            let statement = up.prepared(OWNER).await?;
            Ok(up.ask(up.client.query_opt(&statement, &[&session.as_str()])).await?.map(|row| of(&row)))
        },
    )
    .await
}

fn of(row: &Row) -> SessionOwner {
    let address = Some(row.get::<_, String>(2)).filter(|address| !address.is_empty());
    SessionOwner { node: u32::try_from(row.get::<_, i32>(0)).ok(), name: row.get(1), address }
}

impl Writer {
    /// Takes a session from its owner, alive or not, and leaves it without one.
    /// Errors: `InDoubt` where an attempt may have taken it whose answer was lost.
    pub(super) async fn take(&self, session: &SessionId) -> Result<Option<SessionOwner>, StoreError> {
        if self.link.to_read(Instant::now() + PATIENCE).await?.is_none() {
            return Ok(None);
        }
        let epoch = async |up: Rc<Up>| {
            let statement = up.prepared(EPOCH).await?;
            let row = up.ask(up.client.query_opt(&statement, &[&session.as_str()])).await?;
            Ok(row.map(|row| row.get::<_, i64>(0)))
        };
        let Some(epoch) = reading(&self.link, 1, || None, epoch).await? else { return Ok(None) };
        let known = STEPS.len() as i32;
        let attempts = Cell::new(0);
        let taken = writing(&self.link, async |up| {
            attempts.set(attempts.get() + 1);
            let statement = up.prepared(TAKE).await?;
            let row = up.ask(up.client.query_opt(&statement, &[&session.as_str(), &known, &epoch])).await?;
            if row.is_none() && attempts.get() > 1 {
                let why = "the answer was lost, and the session may have been taken".to_owned();
                return Err(Unread::Bad(StoreError::InDoubt(why)));
            }
            if row.is_none() {
                // A newer program may have been here since the connection was made.
                schema::nature(&up, &self.link.address).await?;
            }
            Ok::<_, Unread>(row.map(|row| of(&row)))
        });
        let taken = taken.await?;
        if taken.is_some() {
            self.node.released(session, u64::MAX);
        }
        Ok(taken)
    }
}
