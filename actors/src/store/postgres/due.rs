//! Which sessions have something to do and no living owner: they become this process's, each for one process.

use super::again::writing;
use super::link::Link;
use super::node::{self, Node, lives};
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

/// Owners that are dead by their row.
macro_rules! dead {
    () => {
        concat!("(SELECT n.number FROM bob_nodes n WHERE n.number <> $1 AND NOT ", lives!(), ")")
    };
}

/// The number of the newest message that waits for the session `s`.
macro_rules! newest {
    () => {
        "coalesce((SELECT max(w.number) FROM bob_inbox w WHERE w.session = s.id AND w.refusal IS NULL), 0)"
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
    ") AND NOT s.id = ANY ($4) AND s.number IN (
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
    epoch!(),
    ", ",
    newest!()
);

const NEW: &str = concat!(
    "INSERT INTO bob_sessions AS s (id, epoch, version, bytes, updated_at, node)
     SELECT i.session, 1, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $1 FROM bob_inbox i
     WHERE i.refusal IS NULL AND NOT EXISTS (SELECT FROM bob_sessions o WHERE o.id = i.session) AND NOT i.session = ANY ($4)
     AND (SELECT version FROM bob_meta WHERE application = 'bob') <= $3
     GROUP BY i.session ORDER BY min(i.number) LIMIT $2
     ON CONFLICT (id) DO NOTHING RETURNING s.id, ",
    epoch!(),
    ", ",
    newest!()
);

/// What this process has already and does not work on: it was given in an answer that was lost, or was not released.
const OURS: &str = concat!(
    "SELECT s.id, ",
    epoch!(),
    ", ",
    newest!(),
    " FROM bob_sessions s WHERE s.node = $1 AND s.damage IS NULL AND NOT s.id = ANY ($3)
     AND ((s.state = 'running' AND s.parent IS NULL)
          OR EXISTS (SELECT FROM bob_inbox i WHERE i.session = s.id AND i.refusal IS NULL))
     ORDER BY s.number LIMIT $2"
);

/// The messages of what is worked on.
const KNOWN: &str = "SELECT i.session, NULL::bigint, max(i.number) FROM bob_inbox i
    WHERE i.session = ANY ($1) AND i.refusal IS NULL GROUP BY i.session";

/// Refusals that nobody asked for.
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
        let mut left = most.min(MOST_AT_ONCE);
        let statement = up.prepared(OURS).await?;
        let had = sessions(&up.ask(up.client.query(&statement, &[&ours, &(left as i64), &known])).await?);
        left = left.saturating_sub(had.len());
        due.extend(had);
        // After an outage, a process whose own row is not renewed yet takes those of nobody else for dead.
        for sql in [FREE, NEW].iter().filter(|_| node.is_renewed()) {
            let most = left as i64;
            let statement = up.prepared(sql).await?;
            let taken = sessions(&up.ask(up.client.query(&statement, &[&ours, &most, &version, &known])).await?);
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
        let mark = u64::try_from(row.get::<_, i64>(2)).unwrap_or_default();
        Some(Due { session, epoch, mark })
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
