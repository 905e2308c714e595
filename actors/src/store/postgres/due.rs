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
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tokio_postgres::Row;

/// The most sessions that are taken in one statement.
const MOST_AT_ONCE: usize = 250;

/// Owners that are noted as dead.
macro_rules! dead {
    () => {
        "(SELECT n.number FROM bob_nodes n WHERE n.number <> $1 AND n.dead)"
    };
}

/// Whether the session `$session` has no owner, or a dead one.
macro_rules! is_free {
    ($session:literal) => {
        concat!("(", $session, ".node IS NULL OR ", $session, ".node IN ", dead!(), ")")
    };
}

/// Whether the tables are not those of a newer program.
macro_rules! is_known {
    () => {
        "(SELECT version FROM bob_meta WHERE application = 'bob') <= $3"
    };
}

/// The number of the newest message that waits for the session `s`.
macro_rules! newest {
    () => {
        "coalesce((SELECT max(w.number) FROM bob_inbox w WHERE w.session = s.id AND w.refusal IS NULL), 0)"
    };
}

/// Takes sessions: first turns that were left open, then those whose oldest message waits longest, whether they exist or not. A
/// damaged one has its messages refused.
///
/// The state `running` is that of a session whose turn has begun and not ended; one that works for another session is taken up
/// by the turn of that one. A row that another process has locked is being taken by it; what was taken meanwhile is looked at
/// again by PostgreSQL after the lock.
const FREE: &str = concat!(
    "WITH waiting AS MATERIALIZED (
         SELECT i.session AS id, min(i.number) AS oldest
         FROM bob_inbox i LEFT JOIN bob_sessions x ON x.id = i.session
         WHERE i.refusal IS NULL AND NOT i.session = ANY ($4) AND ",
    is_free!("x"),
    "    GROUP BY i.session
         UNION ALL
         SELECT x.id, 0 FROM bob_sessions x
         WHERE x.state = 'running' AND x.parent IS NULL AND x.damage IS NULL AND NOT x.id = ANY ($4) AND ",
    is_free!("x"),
    "),
     ranked AS MATERIALIZED (
         SELECT w.id, s.number IS NULL AS is_new, row_number() OVER (ORDER BY min(w.oldest), w.id) AS place
         FROM waiting w LEFT JOIN bob_sessions s ON s.id = w.id GROUP BY w.id, s.number),
     free AS MATERIALIZED (
         SELECT s.number FROM bob_sessions s JOIN ranked r ON r.id = s.id WHERE ",
    is_free!("s"),
    "    ORDER BY r.place LIMIT (SELECT $2 - count(*) FROM ranked WHERE is_new AND place <= $2)
         FOR UPDATE OF s SKIP LOCKED),
     taken AS (
         UPDATE bob_sessions s SET node = $1, epoch = s.epoch + 1 FROM free
         WHERE s.number = free.number AND ",
    is_known!(),
    "    RETURNING s.id, ",
    epoch!(),
    " AS epoch, ",
    newest!(),
    " AS newest),
     new AS (
         INSERT INTO bob_sessions AS s (id, epoch, version, bytes, updated_at, node)
         SELECT r.id, 1, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $1 FROM ranked r
         WHERE r.is_new AND r.place <= $2 AND ",
    is_known!(),
    "    ORDER BY r.place ON CONFLICT (id) DO NOTHING
         RETURNING s.id, ",
    epoch!(),
    " AS epoch, ",
    newest!(),
    " AS newest)
     SELECT id, epoch, newest FROM taken UNION ALL SELECT id, epoch, newest FROM new"
);

/// What this process has already and does not work on: it was given in an answer that was lost, or was not released.
const OURS: &str = concat!(
    "SELECT s.id, ",
    epoch!(),
    ", ",
    newest!(),
    " FROM bob_sessions s WHERE s.node = $1 AND NOT s.id = ANY ($3)
     AND ((s.state = 'running' AND s.parent IS NULL AND s.damage IS NULL)
          OR EXISTS (SELECT FROM bob_inbox i WHERE i.session = s.id AND i.refusal IS NULL))
     ORDER BY s.number LIMIT $2"
);

/// The messages of what is worked on.
const KNOWN: &str = "SELECT i.session, NULL::bigint, max(i.number) FROM bob_inbox i
    WHERE i.session = ANY ($1) AND i.refusal IS NULL GROUP BY i.session";

/// Refusals of the day before.
const SWEEP: &str =
    "DELETE FROM bob_inbox WHERE refusal IS NOT NULL AND refused_at < clock_timestamp() - interval '1 day'";

/// Takes at most `most` sessions. Those of `known` that have messages are given as well.
///
/// What is taken in an attempt whose answer is lost is this process's at the next one, and given by that.
pub(super) async fn due(
    link: &Link,
    node: &Node,
    suspects: &Suspects,
    most: usize,
    known: &BTreeSet<SessionId>,
) -> Result<Vec<Due>, StoreError> {
    let ours = node.ours().await?;
    let version = STEPS.len() as i32;
    let known: Vec<&str> = known.iter().map(SessionId::as_str).collect();
    writing(link, async |up| {
        suspects.look(&up, ours);
        let statement = up.prepared(KNOWN).await?;
        let mut due = sessions(&up.ask(up.client.query(&statement, &[&known])).await?);
        // A caller that takes none has no use for more: it takes nobody for dead and removes nothing.
        if most == 0 {
            return Ok(due);
        }
        let mut left = most.min(MOST_AT_ONCE);
        let statement = up.prepared(OURS).await?;
        let had = sessions(&up.ask(up.client.query(&statement, &[&ours, &(left as i64), &known])).await?);
        left = left.saturating_sub(had.len());
        due.extend(had);
        // After an outage, a process whose own row is not renewed yet takes those of nobody else for dead.
        if node.is_renewed() {
            let statement = up.prepared(node::NOTE_ALL_DEAD).await?;
            up.ask(up.client.execute(&statement, &[&ours])).await?;
            let statement = up.prepared(FREE).await?;
            let most = left as i64;
            due.extend(sessions(&up.ask(up.client.query(&statement, &[&ours, &most, &version, &known])).await?));
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
        let mark = u64::try_from(row.get::<_, i64>(2)).unwrap_or_default();
        Some(Due { session, epoch, mark })
    };
    rows.iter().filter_map(due).collect()
}

/// Owners whose lock is gone while their row is still good: they are looked at beside the answer, which does not wait.
#[derive(Debug, Clone)]
pub(super) struct Suspects {
    looking: Rc<Cell<bool>>,
    changed: Arc<Notify>,
}

impl Suspects {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { looking: Rc::default(), changed }
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
                Ok(true) => this.changed.notify_one(),
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
