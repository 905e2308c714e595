use super::address::Address;
use super::bell::Bell;
use super::failure::is_lasting;
use super::schema::{self, Nature};
use super::tls::Untrusted;
use super::up::{Unread, Up};
use bob_messages::store::StoreError;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Connection, Error, Socket};

/// How long a question is repeated while the database is away. Its asker decides whether to ask again.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long one attempt may take, with all that is asked of a connection before it is used.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// The channel of the notifications that something changed: the schema's own, as a name that needs no quotes.
pub(super) const CHANNEL: &str = "'bob_' || to_hex(hashtext(current_schema())::bigint & 4294967295)";

/// The oldest server whose SQL has what is used here: 12.
const OLDEST: i32 = 120_000;

/// A plan that was made while a table was empty reads all of it, also when it has grown: all that is asked often has an index.
/// Where there is none the plan counts as one of great cost, for which the server would compile the statement each time.
pub(super) const LOOKED_UP: &str = "SET enable_seqscan = off; SET jit = off";

/// A plan that knows no values expects fewer or more rows than there are, and would read whole tables for that.
pub(super) const PLANNED_ONCE: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";

/// A connection, while there is one.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: Address,
    held: Mutex<Option<Held>>,
    /// Notified when a connection ended.
    ended: Arc<Notify>,
    /// What is told when another process says that something changed, on a connection that listens.
    bell: Option<Arc<Bell>>,
    /// How the server is to plan its statements.
    planned: &'static str,
}

#[derive(Debug)]
struct Held {
    up: Rc<Up>,
    nature: Nature,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self { address, held: Mutex::default(), ended: Arc::default(), bell: None, planned: LOOKED_UP }
    }

    /// One for what writes: its statements look up single rows by an index, however many there are, so that planning
    /// them anew for each set of values, which takes the server longer than an append does, finds nothing better.
    pub(super) fn writing(address: Address) -> Self {
        Self { planned: PLANNED_ONCE, ..Self::new(address) }
    }

    /// One whose connections listen to the notifications of all processes.
    pub(super) fn listening(address: Address, bell: Arc<Bell>) -> Self {
        Self { bell: Some(bell), ..Self::new(address) }
    }

    /// Waits until a connection has ended that was made here.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// The connection, for statements that only read; `None` while there are no tables.
    /// Errors: `Unavailable` when there is none before this time, `TooNew`.
    pub(super) async fn to_read(&self, until: Instant) -> Result<Option<Rc<Up>>, StoreError> {
        self.to_read_of(1, until).await
    }

    /// As [`to_read`](Self::to_read); `None` while there are no tables of this version.
    pub(super) async fn to_read_of(&self, version: usize, until: Instant) -> Result<Option<Rc<Up>>, StoreError> {
        let mut held = self.held.lock().await;
        let held = self.connected(&mut held, until).await?;
        let least = Nature::Ours(version);
        if held.nature < least {
            // They may have been made meanwhile.
            held.nature = schema::nature(&held.up, &self.address).await.map_err(|unread| unread.told(&self.address))?;
        }
        Ok(Some(Rc::clone(&held.up)).filter(|_| held.nature >= least))
    }

    /// The connection, with the tables, which are made or brought up to date first. Nothing else is asked on it meanwhile.
    /// Errors: as [`to_read`](Self::to_read).
    pub(super) async fn to_write(&self, until: Instant) -> Result<Rc<Up>, StoreError> {
        let mut held = self.held.lock().await;
        let held = self.connected(&mut held, until).await?;
        let newest = Nature::Ours(schema::STEPS.len());
        if held.nature != newest {
            schema::bring_up(&held.up, &self.address).await?;
            held.nature = newest;
        }
        Ok(Rc::clone(&held.up))
    }

    /// The connection, of which nothing is asked yet; one attempt. Errors: as [`to_read`](Self::to_read).
    pub(super) async fn connect_now(&self) -> Result<Rc<Up>, StoreError> {
        let mut held = self.held.lock().await;
        Ok(Rc::clone(&self.connected(&mut held, Instant::now()).await?.up))
    }

    async fn connected<'h>(&self, held: &'h mut Option<Held>, until: Instant) -> Result<&'h mut Held, StoreError> {
        held.take_if(|held| held.up.client.is_closed());
        if held.is_none() {
            *held = Some(self.connect_until(until).await?);
        }
        // It was put there.
        held.as_mut().ok_or_else(super::ended)
    }

    async fn connect_until(&self, until: Instant) -> Result<Held, StoreError> {
        loop {
            let silent = || Err((self.address.silent(CONNECTED_WITHIN), false));
            match timeout(CONNECTED_WITHIN, self.connect()).await.unwrap_or_else(|_elapsed| silent()) {
                Ok(held) => return Ok(held),
                Err((error, is_lasting)) if is_lasting || Instant::now() + PAUSE > until => return Err(error),
                Err(_for_now) => sleep(PAUSE).await,
            }
        }
    }

    /// A new connection, or why there is none and whether that lasts.
    async fn connect(&self) -> Result<Held, (StoreError, bool)> {
        let lasts = |error: &Error| is_lasting(error) || Untrusted::of(error).is_some();
        let refused = |error: Error| (self.address.refused(&error), lasts(&error));
        let failed = |error: Error| (self.address.failed("read", &error), is_lasting(&error));
        let (client, mut connection) = self.address.config.connect(self.address.tls.clone()).await.map_err(refused)?;
        let bell = self.bell.clone();
        let (told, is_used) = (Arc::clone(&self.ended), Arc::new(AtomicBool::new(false)));
        let notifies = NotifiesAtItsEnd(told, Arc::clone(&is_used));
        let driver = tokio::spawn(async move {
            // Also when it is ended from here.
            let _ended = notifies;
            if let Err(error) = driven(&mut connection, bell.as_deref()).await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        let up = Rc::new(Up::new(client, driver.abort_handle()));
        // What an owner was told to be stored is on the disk, also where the server would not wait for it. What another
        // transaction has locked is not waited for long: others are on the same connection.
        let settings = "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                          WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
                        current_setting('server_encoding'), current_setting('server_version_num')::integer,
                        current_setting('server_version'), pg_is_in_recovery(),
                        set_config('lock_timeout', CASE current_setting('lock_timeout')
                          WHEN '0' THEN '1s'
                          ELSE round(1000 * least(5, extract(epoch FROM current_setting('lock_timeout')::interval)))
                            || 'ms' END, false),
                        set_config('default_transaction_isolation', 'read committed', false)";
        let row = up.client.query_one(settings, &[]).await.map_err(failed)?;
        let refuse = |why: &str| Err((self.address.refuse(why), true));
        if row.get::<_, i32>(2) < OLDEST {
            return refuse(&format!("is of PostgreSQL {}; 12 or newer is needed", row.get::<_, &str>(3)));
        }
        if row.get::<_, &str>(1) != "UTF8" {
            return refuse(&format!("has the encoding {}; create a database with UTF8", row.get::<_, &str>(1)));
        }
        if row.get(4) {
            return Err((self.address.no_primary(), false));
        }
        up.client.batch_execute(self.planned).await.map_err(failed)?;
        let nature = schema::nature(&up, &self.address).await.map_err(|unread| match unread {
            Unread::Bad(error) => (error, true),
            Unread::Failed(error) => failed(error),
        })?;
        if let Some(bell) = &self.bell {
            self.listen(&up, bell).await.map_err(failed)?;
        }
        is_used.store(true, Ordering::Release);
        Ok(Held { up, nature })
    }
}

impl Link {
    /// Listens from now on. Earlier notifications are not received, so something is taken to have changed.
    async fn listen(&self, up: &Up, bell: &Bell) -> Result<(), Error> {
        let row = up.ask(up.client.query_one(&format!("SELECT {CHANNEL}"), &[])).await?;
        up.ask(up.client.batch_execute(&format!("LISTEN {}", row.get::<_, &str>(0)))).await?;
        bell.ring_all();
        Ok(())
    }
}

/// Drives a connection to its end, and passes notifications on.
async fn driven<T: TlsStream + Unpin>(
    connection: &mut Connection<Socket, T>,
    bell: Option<&Bell>,
) -> Result<(), Error> {
    poll_fn(|context| {
        loop {
            match ready!(connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notification(told))) => bell.iter().for_each(|bell| bell.ring(told.payload())),
                Some(Ok(_notice)) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    })
    .await
}

/// Tells the end of a connection that was used. The end of one that was refused would have the next one made at once, and
/// refused as well.
struct NotifiesAtItsEnd(Arc<Notify>, Arc<AtomicBool>);

impl Drop for NotifiesAtItsEnd {
    fn drop(&mut self) {
        if self.1.load(Ordering::Acquire) {
            self.0.notify_one();
        }
    }
}
