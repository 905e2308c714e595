//! This process as an owner of sessions: a row that is renewed, and a lock that ends with its connection.
//!
//! Whether an owner lives is only a question of when its sessions may be claimed: what it writes afterwards is refused
//! by their epochs. A row that is not renewed in time is a dead owner's. A lock that is gone is a hint, which is looked
//! at twice: a restart of the database ends all locks, and an owner whose connection broke renews its row and takes its
//! lock again at once. While the server has the old connection still, the lock is not to be had; the row is renewed more
//! often then, so that the end of the old connection finds no owner without both.
//!
//! A side effect starts while the lease is held alone. A row that was dead is never renewed: the process makes another one,
//! which takes along the sessions that no other process has taken, and the lease of the others does not come back.

use super::held::Shared;
use super::link::{Link, PATIENCE};
use super::schema::LOCK_CLASS;
use super::tables::{epoch, names};
use super::up::Up;
use crate::store::StoreOptions;
use bob_messages::ids::SessionId;
use bob_messages::reply::{Answer, Reply};
use bob_messages::share::Share;
use bob_messages::store::StoreError;
use std::rc::{Rc, Weak};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

/// How long an owner lives without a renewal.
pub(super) const LEASE: Duration = Duration::from_millis(3_000);

/// Between two renewals.
const RENEWED_EACH: Duration = Duration::from_millis(1_000);

/// Between two renewals while the lock is not ours: several in the time of [`SUSPECTED_FOR`].
const RETAKEN_EACH: Duration = Duration::from_millis(100);

/// How long an owner without its lock is given to take it again.
const SUSPECTED_FOR: Duration = Duration::from_millis(300);

/// How long ending may take: dropping a store waits for it.
const LEFT_WITHIN: Duration = Duration::from_millis(500);

/// Rows of owners that have been dead for longer, and own nothing, are removed.
const REMOVED_AFTER: &str = "interval '1 hour'";

enum Ask {
    /// The number of our row, which is made if there is none.
    Enter(Reply<Result<i32, StoreError>>),
    /// Have a connection that listens.
    Listen,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    asks: UnboundedSender<Ask>,
    shared: Arc<Shared>,
}

impl Node {
    /// Starts the task. It ends, and with it the ownership, when all copies of the answer are dropped.
    pub(super) fn start(link: Link, options: StoreOptions, shared: Arc<Shared>) -> (Self, tokio::task::JoinHandle<()>) {
        let (asks, asked) = unbounded_channel();
        let task = Task {
            link,
            options,
            shared: Arc::clone(&shared),
            locked: Weak::new(),
            former: Vec::new(),
            unrenewed_since: None,
        };
        (Self { asks, shared }, tokio::task::spawn_local(task.run(asked)))
    }

    /// The number of our row, which is made if there is none.
    pub(super) async fn ours(&self) -> Result<i32, StoreError> {
        match self.known() {
            Some(number) => Ok(number),
            None => {
                let (reply, answer): (_, Answer<_>) = Reply::channel();
                // A task that ended answers by dropping the question.
                drop(self.asks.send(Ask::Enter(reply)));
                answer.await.unwrap_or_else(|| Err(super::ended()))
            }
        }
    }

    /// Has a connection that listens, again if it broke.
    pub(super) fn listen(&self) {
        drop(self.asks.send(Ask::Listen));
    }

    pub(super) fn known(&self) -> Option<i32> {
        self.shared.number()
    }

    pub(super) fn is_renewed(&self) -> bool {
        self.shared.is_renewed(std::time::Instant::now())
    }

    pub(super) fn claimed(&self, session: &SessionId, number: i32, epoch: u64) {
        self.shared.claimed(session, number, epoch);
    }

    /// A session is given back: nothing is begun in it any more under this epoch.
    pub(super) fn released(&self, session: &SessionId, epoch: u64) {
        self.shared.released(session, epoch);
    }
}

struct Task {
    link: Link,
    options: StoreOptions,
    shared: Arc<Shared>,
    /// The connection that has our lock.
    locked: Weak<Up>,
    /// Rows of ours that are dead, whose sessions are not taken along yet.
    former: Vec<i32>,
    /// When the first of the renewals that failed in a row began.
    unrenewed_since: Option<Instant>,
}

/// Whether the row `n` is that of an owner that lives. After a start of the server an owner has the time of a lease to renew it.
macro_rules! lives {
    () => {
        "(NOT n.dead AND greatest(n.expires_at, pg_postmaster_start_time() + interval '3 seconds') > clock_timestamp())"
    };
}
pub(super) use lives;

static LOCK: LazyLock<String> = LazyLock::new(|| format!("SELECT pg_try_advisory_lock({LOCK_CLASS}, $1)"));

static SWEEP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "DELETE FROM bob_nodes n WHERE expires_at < clock_timestamp() - {REMOVED_AFTER}
         AND NOT EXISTS (SELECT FROM bob_sessions s WHERE s.node = n.number)"
    )
});

const ENTER: &str = "INSERT INTO bob_nodes (name, address, expires_at, pools)
    VALUES ($1, coalesce(host(inet_client_addr()), ''), clock_timestamp() + $2 * interval '1 millisecond', $3)
    RETURNING number";

/// A row that was dead for a moment is not renewed: its sessions may have been taken meanwhile.
const RENEW: &str = concat!(
    "UPDATE bob_nodes n SET renewed_at = clock_timestamp(),
     expires_at = clock_timestamp() + $2 * interval '1 millisecond', figures = $3 WHERE n.number = $1 AND ",
    lives!()
);

/// How many processes that run turns live before this one, and in all. They divide the limits of providers.
const SHARE: &str = concat!(
    "SELECT count(*) FILTER (WHERE n.number < $1), count(*) FROM bob_nodes n WHERE n.pools <> '{*}' AND ",
    lives!()
);

/// Sessions of rows that are dead, and that no other process has taken, go on under a new row and the epoch that they have, and
/// artifacts that are not recorded under the new row.
const TAKE_ALONG: &str = concat!(
    "WITH former AS (UPDATE bob_nodes SET dead = true WHERE number = ANY ($2)),
     put AS (UPDATE bob_artifact_holders SET node = $1 WHERE node = ANY ($2))
     UPDATE bob_sessions s SET node = $1 WHERE s.node = ANY ($2) RETURNING s.id, ",
    epoch!()
);

impl Task {
    async fn run(mut self, mut asked: UnboundedReceiver<Ask>) {
        let mut next = Instant::now() + RENEWED_EACH;
        loop {
            tokio::select! {
                ask = asked.recv() => match ask {
                    Some(Ask::Enter(reply)) => {
                        let entered = self.enter().await;
                        reply.send(entered);
                    }
                    Some(Ask::Listen) => self.listen().await,
                    None => break,
                },
                () = self.link.ended() => {
                    // Without its lock this process may be taken for dead, sooner than its lease ends.
                    self.shared.hold_no_longer_than(std::time::Instant::now() + SUSPECTED_FOR / 2);
                    next = self.renew().await;
                }
                () = sleep_until(next) => next = self.renew().await,
            }
        }
        let _too_late = timeout(LEFT_WITHIN, self.leave()).await;
    }

    async fn listen(&self) {
        if let Err(error) = self.link.connect_now().await {
            tracing::debug!(%error, "there is no connection that listens; messages are found by looking");
        }
    }

    async fn enter(&mut self) -> Result<i32, StoreError> {
        match self.shared.number() {
            Some(number) => Ok(number),
            None => self.make_row().await,
        }
    }

    async fn make_row(&mut self) -> Result<i32, StoreError> {
        let up = self.link.to_write(Instant::now() + PATIENCE).await?;
        let mut sent = std::time::Instant::now();
        let entered = async {
            up.ask(up.client.execute(SWEEP.as_str(), &[])).await?;
            sent = std::time::Instant::now();
            // A process in all pools runs no turns; no pool has this name.
            let (is_in_all, names) = names(&self.options.pools);
            let pools = if is_in_all { vec!["*"] } else { names };
            let row = up.ask(up.client.query_one(ENTER, &[&self.options.owner_name, &LEASE_MS, &pools])).await?;
            let number: i32 = row.get(0);
            self.take_lock(&up, number).await?;
            self.note_share(&up, number).await;
            Ok::<_, Error>(number)
        };
        let number = entered.await.map_err(|error| self.link.address.failed("write", &error))?;
        // A claim under an earlier number that is answered from now on is made again.
        self.shared.enter(number);
        self.shared.hold(sent + LEASE);
        Ok(number)
    }

    /// Our row is dead: another one takes its place, and along what no other process has taken.
    async fn enter_again(&mut self, dead: i32) -> Result<(), StoreError> {
        if !self.former.contains(&dead) {
            self.former.push(dead);
        }
        self.make_row().await?;
        self.take_along().await
    }

    async fn take_along(&mut self) -> Result<(), StoreError> {
        let Some(number) = self.shared.number().filter(|_| !self.former.is_empty()) else { return Ok(()) };
        let up = self.link.to_write(Instant::now() + RENEWED_EACH).await?;
        let taken = up.ask_within(LEASE, up.client.query(TAKE_ALONG, &[&number, &self.former])).await;
        for row in taken.map_err(|error| self.link.address.failed("write", &error))? {
            if let (Ok(session), Ok(epoch)) = (SessionId::parse(row.get(0)), u64::try_from(row.get::<_, i64>(1))) {
                self.shared.taken_along(&session, number, epoch);
            }
        }
        self.former.clear();
        Ok(())
    }

    /// Renews the row, and the lock if it is not ours. Says when to do so again.
    async fn renew(&mut self) -> Instant {
        let began = Instant::now();
        let Some(number) = self.shared.number() else { return began + RENEWED_EACH };
        let renewed = match self.renewed(number).await {
            Ok(true) => self.take_along().await,
            Ok(false) => {
                self.shared.hold_no_longer_than(std::time::Instant::now());
                tracing::warn!(number, "the lease on the sessions was over; those that no other process took are kept");
                self.enter_again(number).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = renewed {
            // Once a second while the database is away: one warning is enough.
            match self.unrenewed_since.replace(self.unrenewed_since.unwrap_or(began)) {
                None => {
                    tracing::warn!(%error, "the lease on the sessions could not be renewed; it is attempted each second")
                }
                Some(_) => tracing::debug!(%error, "the lease on the sessions could not be renewed"),
            }
            return began + RENEWED_EACH;
        }
        if let Some(since) = self.unrenewed_since.take() {
            tracing::warn!(after = ?since.elapsed(), "the lease on the sessions is renewed again");
        }
        began + if self.locked.strong_count() == 0 { RETAKEN_EACH } else { RENEWED_EACH }
    }

    async fn renewed(&mut self, number: i32) -> Result<bool, StoreError> {
        let up = self.link.to_write(Instant::now() + RENEWED_EACH).await?;
        let renewed = async {
            // First the row: a process that finds the lock gone looks for a renewal.
            let figures = self.shared.figures();
            let sent = std::time::Instant::now();
            let values: [&(dyn ToSql + Sync); 3] = [&number, &LEASE_MS, &figures];
            let is_renewed = up.ask_within(LEASE, up.client.execute(RENEW, &values)).await? == 1;
            if is_renewed && !self.locked.upgrade().is_some_and(|locked| Rc::ptr_eq(&locked, &up)) {
                self.take_lock(&up, number).await?;
            }
            if is_renewed {
                let is_locked = self.locked.strong_count() > 0;
                self.shared.hold(sent + if is_locked { LEASE } else { SUSPECTED_FOR });
                self.note_share(&up, number).await;
            }
            Ok::<_, Error>(is_renewed)
        };
        renewed.await.map_err(|error| self.link.address.failed("write", &error))
    }

    /// Counts the processes. Without an answer the last one counts: the row and its sessions are no worse for that.
    async fn note_share(&self, up: &Up, number: i32) {
        let asked = async {
            let statement = up.prepared(SHARE).await?;
            up.ask_within(LEASE, up.client.query_one(&statement, &[&number])).await
        };
        match asked.await {
            Ok(row) => {
                let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
                self.shared.shares(Share { before: count(0), processes: count(1) });
            }
            Err(error) => tracing::warn!(%error, "the processes that share the limits could not be counted"),
        }
    }

    /// Takes the lock, unless another connection has it: one of ours that broke, and that the server has still.
    async fn take_lock(&mut self, up: &Rc<Up>, number: i32) -> Result<(), Error> {
        self.locked = Weak::new();
        let row = up.ask_within(LEASE, up.client.query_one(LOCK.as_str(), &[&number])).await?;
        if row.get(0) {
            self.locked = Rc::downgrade(up);
        }
        Ok(())
    }

    async fn leave(&mut self) {
        let Some(number) = self.shared.number() else { return };
        let Ok(up) = self.link.to_write(Instant::now()).await else { return };
        // When it fails, the end of the connection ends the lock.
        let _ = up.ask(up.client.execute("UPDATE bob_nodes SET dead = true WHERE number = $1", &[&number])).await;
    }
}

const LEASE_MS: f64 = LEASE.as_millis() as f64;

/// The locks that owners have.
macro_rules! locked {
    () => {
        "EXISTS (
             SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
             AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
             AND l.classid = ({LOCK_CLASS}::bigint & 4294967295)::oid AND l.objid = n.number::oid)"
    };
}

/// Other owners of sessions that are not dead and have no lock.
pub(super) static SUSPECTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        concat!(
            "SELECT n.number FROM bob_nodes n WHERE ",
            lives!(),
            " AND n.number <> $1 AND EXISTS (SELECT FROM bob_sessions s WHERE s.node = n.number) AND NOT ",
            locked!()
        ),
        LOCK_CLASS = LOCK_CLASS
    )
});

static LOOK: LazyLock<String> = LazyLock::new(|| {
    format!(
        concat!(
            "SELECT n.renewed_at::text, pg_postmaster_start_time() > n.renewed_at, ",
            locked!(),
            " FROM bob_nodes n WHERE n.number = $1 AND ",
            lives!()
        ),
        LOCK_CLASS = LOCK_CLASS
    )
});

const DECLARE: &str = "UPDATE bob_nodes SET dead = true WHERE number = $1 AND renewed_at = $2::text::timestamptz";

/// Notes that owners are dead whose lease is over, before their sessions are taken: a restart of the server would have their rows
/// good again for a while, and their processes would renew them.
pub(super) const NOTE_ALL_DEAD: &str =
    concat!("UPDATE bob_nodes n SET dead = true WHERE n.number <> $1 AND NOT n.dead AND NOT ", lives!());
const NOTE_DEAD: &str = concat!("UPDATE bob_nodes n SET dead = true WHERE n.number = $1 AND NOT ", lives!());

/// Looks whether an owner is dead, and if so notes it.
pub(super) async fn is_dead(up: &Up, number: i32) -> Result<bool, Error> {
    let mut renewed = None;
    loop {
        let Some(row) = up.ask(up.client.query_opt(LOOK.as_str(), &[&number])).await? else {
            up.ask(up.client.execute(NOTE_DEAD, &[&number])).await?;
            return Ok(true);
        };
        let (at, is_restarted, is_locked): (String, bool, bool) = (row.get(0), row.get(1), row.get(2));
        if is_locked || is_restarted {
            return Ok(false);
        }
        match renewed {
            None => renewed = Some(at),
            Some(before) if before == at => return Ok(up.ask(up.client.execute(DECLARE, &[&number, &at])).await? == 1),
            Some(_renewed_meanwhile) => return Ok(false),
        }
        sleep(SUSPECTED_FOR).await;
    }
}
