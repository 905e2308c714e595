//! Which sessions have something to do and no living owner: they become this process's, each for one process.

use super::again::writing;
use super::link::Link;
use super::node::{self, Node};
use super::schema::{self, STEPS};
use super::tables::epoch;
use super::up::{Unread, Up};
use crate::store::inbox::Due;
use bob_messages::ids::SessionId;
use bob_messages::store::StoreError;
use futures_util::future::join_all;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tokio_postgres::Row;

/// The most sessions that are taken in one statement.
const MOST_AT_ONCE: usize = 250;

/// Owners that are dead by their row.
macro_rules! dead {
    () => {
        "(SELECT n.number FROM bob_nodes n WHERE n.dead OR n.expires_at <= clock_timestamp())"
    };
}

/// The state `running` is that of a session whose turn has begun and not ended; one that works for another session is taken up
/// by the turn of that one. A row that another process has locked is being
/// taken by it; what was taken meanwhile is looked at again by PostgreSQL after the lock.
const FREE: &str = concat!(
    "WITH free AS MATERIALIZED (
         SELECT s.number FROM bob_sessions s
         WHERE s.damage IS NULL AND (s.node IS NULL OR s.node IN ",
    dead!(),
    ") AND s.number IN (
             SELECT x.number FROM bob_sessions x JOIN bob_inbox i ON i.session = x.id
             WHERE i.refusal IS NULL AND (x.node IS NULL OR x.node IN ",
    dead!(),
    ") UNION
             SELECT x.number FROM bob_sessions x
             WHERE x.state = 'running' AND x.parent IS NULL AND (x.node IS NULL OR x.node IN ",
    dead!(),
    ")) ORDER BY s.number LIMIT $2 FOR UPDATE OF s SKIP LOCKED)
     UPDATE bob_sessions s SET node = $1, epoch = s.epoch + 1 FROM free WHERE s.number = free.number
     AND (SELECT version FROM bob_meta WHERE application = 'bob') <= $3
     RETURNING s.id, ",
    epoch!()
);

const NEW: &str = concat!(
    "INSERT INTO bob_sessions AS s (id, epoch, version, bytes, updated_at, node)
     SELECT i.session, 1, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $1 FROM bob_inbox i
     WHERE i.refusal IS NULL AND NOT EXISTS (SELECT FROM bob_sessions o WHERE o.id = i.session)
     AND (SELECT version FROM bob_meta WHERE application = 'bob') <= $3
     GROUP BY i.session ORDER BY min(i.number) LIMIT $2
     ON CONFLICT (id) DO NOTHING RETURNING s.id, ",
    epoch!()
);

const OURS: &str = "SELECT DISTINCT s.id, NULL::bigint FROM bob_sessions s JOIN bob_inbox i ON i.session = s.id
    WHERE s.node = $1 AND i.refusal IS NULL";

/// Refusals that nobody asked for.
const SWEEP: &str = "DELETE FROM bob_inbox WHERE refusal IS NOT NULL AND put_at < clock_timestamp() - interval '1 day'";

/// Takes at most `most` sessions. Those that this process has already are given as well.
pub(super) async fn due(link: &Link, node: &Node, suspects: &Suspects, most: usize) -> Result<Vec<Due>, StoreError> {
    let ours = node.ours().await?;
    let known = STEPS.len() as i32;
    writing(link, async |up| {
        suspects.look(&up, ours);
        let statement = up.prepared(OURS).await?;
        let mut due = sessions(&up.ask(up.client.query(&statement, &[&ours])).await?);
        let mut left = most.min(MOST_AT_ONCE);
        for sql in [FREE, NEW] {
            let most = left as i64;
            let statement = up.prepared(sql).await?;
            let taken = sessions(&up.ask(up.client.query(&statement, &[&ours, &most, &known])).await?);
            left = left.saturating_sub(taken.len());
            due.extend(taken);
        }
        let statement = up.prepared(SWEEP).await?;
        up.ask(up.client.execute(&statement, &[])).await?;
        if due.is_empty() {
            // A newer program may have been here since the connection was made.
            schema::nature(&up, &link.address).await?;
        }
        Ok::<_, Unread>(due)
    })
    .await
}

fn sessions(rows: &[Row]) -> Vec<Due> {
    let due = |row: &Row| {
        let session = SessionId::parse(row.get(0)).ok()?;
        let epoch = row.get::<_, Option<i64>>(1).and_then(|epoch| u64::try_from(epoch).ok());
        Some(Due { session, epoch })
    };
    rows.iter().filter_map(due).collect()
}

/// Owners whose lock is gone while their row is still good: they are looked at beside the answer, which does not wait.
#[derive(Debug, Clone)]
pub(super) struct Suspects {
    looking: Rc<Cell<bool>>,
    bell: Arc<Notify>,
}

impl Suspects {
    pub(super) fn new(bell: Arc<Notify>) -> Self {
        Self { looking: Rc::default(), bell }
    }

    /// Looks at those who own sessions. When one is dead, its sessions are due.
    fn look(&self, up: &Rc<Up>, ours: i32) {
        if self.looking.replace(true) {
            return;
        }
        let (this, up) = (self.clone(), Rc::clone(up));
        spawn_local(async move {
            let began = Instant::now();
            match this.look_at_all(&up, ours).await {
                Ok(true) => this.bell.notify_one(),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, after = ?began.elapsed(), "the owners could not be looked at"),
            }
            this.looking.set(false);
        });
    }

    async fn look_at_all(&self, up: &Up, ours: i32) -> Result<bool, tokio_postgres::Error> {
        let rows = up.ask(up.client.query(node::SUSPECTS.as_str(), &[&ours])).await?;
        let looked = rows.iter().map(|row| node::is_dead(up, row.get(0)));
        let dead = join_all(looked).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(dead.contains(&true))
    }
}
