//! A connection that is up, and how long its server may take to answer.

use super::address::Address;
use bob_messages::store::StoreError;
use std::cell::Cell;
use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Client, Error, Statement};

/// How long a connection may be without an answer while one is waited for. A statement waits for a lock for less.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Up {
    pub(super) client: Client,
    driver: AbortHandle,
    /// When something was answered last.
    answered: Cell<Instant>,
    /// What was prepared on it, by its text.
    prepared: Mutex<HashMap<&'static str, Statement>>,
}

impl std::fmt::Debug for Up {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Up").finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) enum Unread {
    /// It is damaged, of a newer program, or of another one.
    Bad(StoreError),
    Failed(Error),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Unread {
    pub(super) fn told(self, address: &Address) -> StoreError {
        match self {
            Self::Bad(error) => error,
            Self::Failed(error) => address.failed("read", &error),
        }
    }
}

impl Up {
    pub(super) fn new(client: Client, driver: AbortHandle) -> Self {
        Self { client, driver, answered: Cell::new(Instant::now()), prepared: Mutex::default() }
    }

    /// Waits for an answer of the server. A connection that is silent for too long is ended, so that the answer is that
    /// it broke: its server is paused or gone, or something on the way keeps what was sent.
    pub(super) async fn ask<F: Future>(&self, answer: F) -> F::Output {
        self.ask_within(ANSWERED_WITHIN, answer).await
    }

    /// As [`ask`](Self::ask), for a statement that may take another time.
    pub(super) async fn ask_within<F: Future>(&self, silent: Duration, answer: F) -> F::Output {
        let mut answer = pin!(answer);
        let mut since = Instant::now();
        loop {
            match timeout_at(since + silent, answer.as_mut()).await {
                Ok(answer) => {
                    self.answered.set(Instant::now());
                    return answer;
                }
                // It waits for the answers before it: they come, in order.
                Err(_elapsed) if self.answered.get() > since => since = self.answered.get(),
                Err(_elapsed) => {
                    tracing::warn!("a connection to the database got no answer for {silent:?} and is made anew");
                    self.driver.abort();
                    return answer.await;
                }
            }
        }
    }

    /// A statement, prepared once on this connection.
    pub(super) async fn prepared(&self, sql: &'static str) -> Result<Statement, Error> {
        let mut prepared = self.prepared.lock().await;
        if let Some(statement) = prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.ask(self.client.prepare(sql)).await?;
        prepared.insert(sql, statement.clone());
        Ok(statement)
    }
}
