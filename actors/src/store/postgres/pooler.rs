//! Whether a pooler stands between here and the database, which gives a connection to others between two statements:
//! locks and notifications would then belong to the next user of that connection.

use super::link::Link;
use super::up::Up;
use bob_messages::store::StoreError;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::{Error, SimpleQueryMessage};

/// How long a pooler may keep a question waiting that a database answers at once.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// How often two connections are compared.
const ROUNDS: usize = 5;

/// Which process of the server answers here. Not a prepared statement: it is closed after its answer, and while a pooler passes
/// that on, the next client gets another connection of the server, as without a pooler.
async fn process(up: &Up) -> Result<Option<String>, Error> {
    let answer = up.ask(up.client.simple_query("SELECT pg_backend_pid()")).await?;
    Ok(answer.iter().find_map(|part| match part {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _other => None,
    }))
}

/// Connects both, and refuses them when one does not keep its process of the server.
/// Errors: `Unavailable` for a pooler; that of the first connection that was not made.
pub(super) async fn refuse(one: &Link, other: &Link) -> Result<(), StoreError> {
    let failed = |error: Error| one.address.failed("read", &error);
    let (first, second) = (one.connect_now().await?, other.connect_now().await?);
    let before = process(&first).await.map_err(failed)?;
    let mut other_before = None;
    // A pooler gives the connection that was released last.
    for _ in 0..ROUNDS {
        let now = timeout(ANSWERED_WITHIN, process(&first)).await;
        let mut is_kept = matches!(&now, Ok(Ok(now)) if *now == before);
        // A transaction keeps its connection from the first one.
        let begun = second.ask(second.client.batch_execute("BEGIN")).await;
        begun.map_err(|error| match error.as_db_error() {
            // As a pooler says that changes the connection after each statement.
            Some(said) if said.message().contains("not allowed in statement pooling") => one.address.pooled(),
            _other => failed(error),
        })?;
        let other_now = process(&second).await.map_err(failed)?;
        is_kept &= other_now != before && other_now == *other_before.get_or_insert_with(|| other_now.clone());
        let now = timeout(ANSWERED_WITHIN, process(&first)).await;
        is_kept &= matches!(&now, Ok(Ok(now)) if *now == before);
        second.ask(second.client.batch_execute("COMMIT")).await.map_err(failed)?;
        if !is_kept {
            return Err(one.address.pooled());
        }
    }
    Ok(())
}
