//! One connection to the database, which is made again when it broke.

use super::address::{Address, is_lasting};
use super::schema::{self, Nature};
use super::tls::Tls;
use bob_messages::store::StoreError;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Statement};

/// How long a question is repeated while the database is away. Its asker decides whether to ask again.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// The oldest server whose SQL has what is used here: 12.
const OLDEST: i32 = 120_000;

/// A connection, while there is one.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: Address,
    up: Mutex<Option<Rc<Up>>>,
}

/// A connection that is up.
pub(super) struct Up {
    pub(super) client: Client,
    /// What was prepared on it, by its text.
    prepared: Mutex<HashMap<&'static str, Statement>>,
    nature: Cell<Nature>,
}

impl std::fmt::Debug for Up {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Up").field("nature", &self.nature).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self { address, up: Mutex::default() }
    }

    /// The connection, for statements that only read; `None` while there are no tables.
    ///
    /// # Errors
    /// `Unavailable` when there is none before this time, `TooNew`.
    pub(super) async fn to_read(&self, until: Instant) -> Result<Option<Rc<Up>>, StoreError> {
        let mut held = self.up.lock().await;
        let up = self.connected(&mut held, until).await?;
        if up.nature() == Nature::Empty {
            // They may have been made meanwhile.
            up.note(schema::nature(&up.client, &self.address).await?);
        }
        Ok(Some(up).filter(|up| up.nature() != Nature::Empty))
    }

    /// The connection, with the tables, which are made or brought up to date first. Nothing else is asked on it meanwhile.
    ///
    /// # Errors
    /// As [`to_read`](Self::to_read).
    pub(super) async fn to_write(&self, until: Instant) -> Result<Rc<Up>, StoreError> {
        let mut held = self.up.lock().await;
        let up = self.connected(&mut held, until).await?;
        if up.nature() != Nature::Ours(schema::STEPS.len()) {
            schema::bring_up(&up.client, &self.address).await?;
            up.note(Nature::Ours(schema::STEPS.len()));
        }
        Ok(up)
    }

    /// The connection, of which nothing is asked yet; one attempt.
    ///
    /// # Errors
    /// As [`to_read`](Self::to_read).
    pub(super) async fn connect_now(&self) -> Result<Rc<Up>, StoreError> {
        self.connected(&mut *self.up.lock().await, Instant::now()).await
    }

    async fn connected(&self, held: &mut Option<Rc<Up>>, until: Instant) -> Result<Rc<Up>, StoreError> {
        if let Some(up) = held.as_ref().filter(|up| !up.client.is_closed()) {
            return Ok(Rc::clone(up));
        }
        loop {
            match self.connect().await {
                Ok(up) => return Ok(Rc::clone(held.insert(Rc::new(up)))),
                Err((error, is_lasting)) if is_lasting || Instant::now() + PAUSE > until => return Err(error),
                Err(_for_now) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// A new connection, or why there is none and whether that lasts.
    async fn connect(&self) -> Result<Up, (StoreError, bool)> {
        let refused = |error: Error| (self.address.refused(&error), is_lasting(&error));
        let (client, connection) = self.address.config.connect(Tls).await.map_err(refused)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        // What an owner was told to be stored is on the disk, also where the server would not wait for it.
        let settings = "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                          WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
                        current_setting('server_encoding'), current_setting('server_version_num')::integer,
                        current_setting('server_version'), pg_is_in_recovery()";
        let row = client
            .query_one(settings, &[])
            .await
            .map_err(|error| (self.address.failed("read", &error), !is_broken(&error)))?;
        let refuse = |why: &str| Err((self.address.refuse(why), true));
        if row.get::<_, i32>(2) < OLDEST {
            return refuse(&format!("is of PostgreSQL {}; 12 or newer is needed", row.get::<_, &str>(3)));
        }
        if row.get::<_, &str>(1) != "UTF8" {
            return refuse(&format!("has the encoding {}; create a database with UTF8", row.get::<_, &str>(1)));
        }
        if row.get(4) {
            return Err((self.address.refuse("is a replica that cannot be written; name the primary"), false));
        }
        let nature = schema::nature(&client, &self.address).await.map_err(|error| (error, true))?;
        Ok(Up { client, prepared: Mutex::default(), nature: Cell::new(nature) })
    }
}

impl Up {
    fn nature(&self) -> Nature {
        self.nature.get()
    }

    fn note(&self, nature: Nature) {
        self.nature.set(nature);
    }

    /// A statement, prepared once on this connection.
    pub(super) async fn prepared(&self, sql: &'static str) -> Result<Statement, Error> {
        let mut prepared = self.prepared.lock().await;
        if let Some(statement) = prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        prepared.insert(sql, statement.clone());
        Ok(statement)
    }
}

/// Whether the connection is gone or going, so that what it was asked may or may not have happened.
pub(super) fn is_broken(error: &Error) -> bool {
    match error.as_db_error() {
        None => true,
        Some(said) => {
            [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(said.code())
        }
    }
}

/// Whether a statement did nothing because another one was in its way, and may be repeated.
pub(super) fn is_in_the_way(error: &Error) -> bool {
    let Some(said) = error.as_db_error() else { return false };
    [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::LOCK_NOT_AVAILABLE]
        .contains(said.code())
}
