//! This process as an owner of sessions: a row that is renewed, and a lock that ends with its connection.
//!
//! Whether an owner lives is only a question of when its sessions may be claimed: what it writes afterwards is refused
//! by their epochs. A row that is not renewed in time is a dead owner's. A lock that is gone is a hint, which is looked
//! at twice: a restart of the database ends all locks, and an owner whose connection broke renews its row and takes its
//! lock again at once. While the server has the old connection still, the lock is not to be had; the row is renewed more
//! often then, so that the end of the old connection finds no owner without both.

use super::link::{Link, PATIENCE};
use super::schema::LOCK_CLASS;
use super::up::Up;
use crate::store::StoreLease;
use bob_messages::reply::{Answer, Reply};
use bob_messages::store::StoreError;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::Error;

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

/// What is asked of the task that renews the row.
enum Ask {
    /// The number of our row, which is made if there is none.
    Enter(Reply<Result<i32, StoreError>>),
    /// Have a connection that listens.
    Listen,
}

/// This process as the writers see it.
#[derive(Debug, Clone)]
pub(super) struct Node {
    asks: UnboundedSender<Ask>,
    shared: Arc<Shared>,
}

/// What is known of our row outside its task.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// 0 while there is none.
    number: AtomicI32,
    /// The end of the lease, from when the last renewal was sent.
    held_until: Mutex<Option<std::time::Instant>>,
}

impl Shared {
    /// The number of our row, if there is one.
    fn number(&self) -> Option<i32> {
        Some(self.number.load(Ordering::Acquire)).filter(|number| *number != 0)
    }

    /// How long the sessions of this process are its own.
    pub(super) fn lease(&self) -> StoreLease {
        StoreLease::Until(*self.held_until.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hold(&self, until: Option<std::time::Instant>) {
        *self.held_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

impl Node {
    /// Starts the task. It ends, and with it the ownership, when all copies of the answer are dropped.
    pub(super) fn start(link: Link, name: String, shared: Arc<Shared>) -> (Self, tokio::task::JoinHandle<()>) {
        let (asks, asked) = unbounded_channel();
        let task = Task { link, name, shared: Arc::clone(&shared), locked: Weak::new() };
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

    /// The number of our row, if there is one.
    pub(super) fn known(&self) -> Option<i32> {
        self.shared.number()
    }
}

struct Task {
    link: Link,
    name: String,
    shared: Arc<Shared>,
    /// The connection that has our lock.
    locked: Weak<Up>,
}

static LOCK: LazyLock<String> = LazyLock::new(|| format!("SELECT pg_try_advisory_lock({LOCK_CLASS}, $1)"));

static SWEEP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "DELETE FROM bob_nodes n WHERE expires_at < clock_timestamp() - {REMOVED_AFTER}
         AND NOT EXISTS (SELECT FROM bob_sessions s WHERE s.node = n.number)"
    )
});

const ENTER: &str = "INSERT INTO bob_nodes (name, address, expires_at)
    VALUES ($1, coalesce(host(inet_client_addr()), ''), clock_timestamp() + $2 * interval '1 millisecond') RETURNING number";

const RENEW: &str = "UPDATE bob_nodes SET renewed_at = clock_timestamp(),
    expires_at = clock_timestamp() + $2 * interval '1 millisecond' WHERE number = $1 AND NOT dead";

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
                () = self.link.ended() => next = self.renew().await,
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
        if let Some(number) = self.shared.number() {
            return Ok(number);
        }
        let up = self.link.to_write(Instant::now() + PATIENCE).await?;
        let mut sent = std::time::Instant::now();
        let entered = async {
            up.ask(up.client.execute(SWEEP.as_str(), &[])).await?;
            sent = std::time::Instant::now();
            let row = up.ask(up.client.query_one(ENTER, &[&self.name, &LEASE_MS])).await?;
            let number: i32 = row.get(0);
            self.take_lock(&up, number).await?;
            Ok::<_, Error>(number)
        };
        let number = entered.await.map_err(|error| self.link.address.failed("write", &error))?;
        self.shared.hold(Some(sent + LEASE));
        self.shared.number.store(number, Ordering::Release);
        Ok(number)
    }

    /// Renews the row, and the lock if it is not ours. Says when to do so again.
    async fn renew(&mut self) -> Instant {
        let began = Instant::now();
        let Some(number) = self.shared.number() else { return began + RENEWED_EACH };
        match self.renewed(number).await {
            Ok(true) if self.locked.strong_count() == 0 => return began + RETAKEN_EACH,
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(number, "another process took this one for dead; it enters again with its next claim");
                self.shared.hold(None);
                self.shared.number.store(0, Ordering::Release);
            }
            Err(error) => tracing::warn!(%error, "the lease on the sessions could not be renewed"),
        }
        began + RENEWED_EACH
    }

    async fn renewed(&mut self, number: i32) -> Result<bool, StoreError> {
        let up = self.link.to_write(Instant::now() + RENEWED_EACH).await?;
        let renewed = async {
            // First the row: a process that finds the lock gone looks for a renewal.
            let sent = std::time::Instant::now();
            let rows = up.ask_within(LEASE, up.client.execute(RENEW, &[&number, &LEASE_MS])).await?;
            if rows == 1 {
                self.shared.hold(Some(sent + LEASE));
            }
            if !self.locked.upgrade().is_some_and(|locked| Rc::ptr_eq(&locked, &up)) {
                self.take_lock(&up, number).await?;
            }
            Ok::<_, Error>(rows == 1)
        };
        renewed.await.map_err(|error| self.link.address.failed("write", &error))
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
            "SELECT n.number FROM bob_nodes n WHERE NOT n.dead AND n.expires_at > clock_timestamp() AND n.number <> $1
             AND EXISTS (SELECT FROM bob_sessions s WHERE s.node = n.number) AND NOT ",
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
            " FROM bob_nodes n WHERE n.number = $1 AND NOT n.dead AND n.expires_at > clock_timestamp()"
        ),
        LOCK_CLASS = LOCK_CLASS
    )
});

const DECLARE: &str = "UPDATE bob_nodes SET dead = true WHERE number = $1 AND renewed_at = $2::text::timestamptz";

/// Looks whether an owner whose row is still good is dead, and if so notes it.
pub(super) async fn is_dead(up: &Up, number: i32) -> Result<bool, Error> {
    let mut renewed = None;
    loop {
        let Some(row) = up.ask(up.client.query_opt(LOOK.as_str(), &[&number])).await? else { return Ok(true) };
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
