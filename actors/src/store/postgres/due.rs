//! Which sessions have something to do and no living owner: they become this process's, each for one process.

use super::again::writing;
use super::bell::Bell;
use super::link::Link;
use super::node::{self, Node};
use super::schema::{self, STEPS};
use super::tables::{epoch, names};
use super::up::{Unread, Up};
use crate::store::inbox::Due;
use bob_messages::ids::SessionId;
use bob_messages::store::{Pools, StoreError};
use futures_util::future::join_all;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The most sessions that are taken in one statement.
const MOST_AT_ONCE: usize = 250;

/// How many messages one look walks over at most: those in front may be of sessions that are not given to this process.
macro_rules! walked {
    () => {
        5000
    };
}

/// How many sessions one look considers at most: those that are taken, and as many as two other processes take of the same ones.
macro_rules! considered {
    () => {
        "least(300, 3 * $2::bigint + 16)"
    };
}

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
/// The messages behind `$7` are walked one by one in their order, as far as is needed and no further than `walked!`: one that is
/// the oldest of its session stands for that, whose row is looked up. More sessions are considered than are taken, since other
/// processes take some of them at the same time. A session that is bound to no pool yet is bound by its first message that names
/// one; `$6` are the pools of this process, and `$5` is whether it is in all of them. Where no more are considered than that, a row
/// without a session has the message at which the walk ended.
///
/// The state `running` is that of a session whose turn has begun and not ended; one that works for another session is taken up
/// by the turn of that one. A row that another process has locked is being taken by it; what was taken meanwhile is looked at
/// again by PostgreSQL after the lock.
pub(super) const FREE: &str = concat!(
    "WITH RECURSIVE walk AS (
         (SELECT i.number, i.session FROM bob_inbox i WHERE i.refusal IS NULL AND i.number > $7 ORDER BY i.number LIMIT 1)
         UNION ALL
         SELECT n.number, n.session FROM walk w CROSS JOIN LATERAL
             (SELECT i.number, i.session FROM bob_inbox i WHERE i.refusal IS NULL AND i.number > w.number
              ORDER BY i.number LIMIT 1) n),
     messages AS MATERIALIZED (
         SELECT i.session AS id, i.number AS oldest FROM (SELECT number, session FROM walk LIMIT ",
    walked!(),
    ") i
         LEFT JOIN LATERAL (SELECT x.number, x.node, x.pool FROM bob_sessions x WHERE x.id = i.session OFFSET 0) s ON true
         CROSS JOIN LATERAL (
             SELECT coalesce(s.pool, (SELECT p.pool FROM bob_inbox p WHERE p.session = i.session AND p.refusal IS NULL
                 AND p.pool IS NOT NULL ORDER BY p.number LIMIT 1)) AS pool OFFSET 0) b
         WHERE NOT i.session = ANY ($4)
         AND i.number = (SELECT min(e.number) FROM bob_inbox e WHERE e.session = i.session AND e.refusal IS NULL)
         AND (s.number IS NULL OR ",
    is_free!("s"),
    ") AND ($5 OR b.pool IS NULL OR b.pool = ANY ($6)) LIMIT ",
    considered!(),
    "),
     open AS MATERIALIZED (
         SELECT x.id, 0::bigint AS oldest FROM bob_sessions x
         WHERE x.state = 'running' AND x.parent IS NULL AND x.damage IS NULL AND NOT x.id = ANY ($4)
         AND ($5 OR x.pool IS NULL OR x.pool = ANY ($6)) AND ",
    is_free!("x"),
    "    ORDER BY x.number LIMIT ",
    considered!(),
    "),
     waiting AS (SELECT id, oldest FROM messages UNION ALL SELECT id, oldest FROM open),
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
    "    ORDER BY r.id ON CONFLICT (id) DO NOTHING
         RETURNING s.id, ",
    epoch!(),
    " AS epoch, ",
    newest!(),
    " AS newest)
     SELECT id, epoch, newest FROM taken UNION ALL SELECT id, epoch, newest FROM new
     UNION ALL SELECT NULL, NULL, max(oldest) FROM messages HAVING count(*) = ",
    considered!()
);

const WALKED: i64 = walked!();

/// How many looks begin at one place, one after the other, before the next one begins in front: what was not given to this
/// process there may be now.
const LOOKS_AT_A_PLACE: u32 = 100;

/// Where a walk ended that was not the last one.
const WALKED_TO: &str = "SELECT number FROM bob_inbox WHERE refusal IS NULL AND number > $1 ORDER BY number
    OFFSET $2 LIMIT 1";

/// Which sessions are given to this process, and where its next look goes on.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pools: Pools,
    /// Behind this message; 0 is the beginning.
    after: Cell<i64>,
    /// How many looks began there.
    looks: Cell<u32>,
}

impl Walk {
    pub(super) fn of(pools: Pools) -> Self {
        Self { pools, ..Self::default() }
    }

    /// Takes at most so many.
    async fn take(&self, up: &Up, ours: i32, most: usize, known: &[&str]) -> Result<Vec<Due>, Unread> {
        let statement = up.prepared(FREE).await?;
        let (version, (is_in_all, names)) = (STEPS.len() as i32, names(&self.pools));
        let after = self.after.get();
        let values: [&(dyn ToSql + Sync); 7] = [&ours, &(most as i64), &version, &known, &is_in_all, &names, &after];
        let rows = up.ask(up.client.query(&statement, &values)).await?;
        let taken = sessions(&rows);
        let considered = rows.iter().find(|row| row.get::<_, Option<&str>>(0).is_none());
        let goes_on = match considered {
            _ if taken.len() >= most => None,
            // Other processes took some of them at the same time. What they left waits longer than what is behind: the look
            // after the next one begins in front.
            Some(row) => {
                self.next(Some(row.get(2)));
                self.looks.set(LOOKS_AT_A_PLACE - 1);
                return Ok(taken);
            }
            None => {
                let statement = up.prepared(WALKED_TO).await?;
                up.ask(up.client.query_opt(&statement, &[&after, &(WALKED - 1)])).await?.map(|row| row.get(0))
            }
        };
        self.next(goes_on);
        Ok(taken)
    }

    /// Where the next look begins: there, or at the same place, where there is more, or where new messages are put.
    pub(super) fn next(&self, at: Option<i64>) -> i64 {
        let looks = self.looks.get() + 1;
        let (after, looks) = match at {
            Some(at) => (at, 0),
            None if looks < LOOKS_AT_A_PLACE => (self.after.get(), looks),
            None => (0, 0),
        };
        self.after.set(after);
        self.looks.set(looks);
        after
    }
}

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
    (node, walk): (&Node, &Walk),
    suspects: &Suspects,
    most: usize,
    known: &BTreeSet<SessionId>,
) -> Result<Vec<Due>, StoreError> {
    let ours = node.ours().await?;
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
            due.extend(walk.take(&up, ours, left, &known).await?);
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
        let session = SessionId::parse(row.get::<_, Option<&str>>(0)?).ok()?;
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
    bell: Arc<Bell>,
}

impl Suspects {
    pub(super) fn new(bell: Arc<Bell>) -> Self {
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
                Ok(true) => this.bell.changed.notify_one(),
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
