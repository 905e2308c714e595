//! Statements that may be repeated, and are.

use super::link::{Link, PATIENCE};
use super::up::{Unread, Up, is_broken, is_in_the_way};
use bob_messages::store::StoreError;
use std::rc::Rc;
use tokio::time::Instant;
use tokio_postgres::Error;

/// Writes, and again when the connection broke or another statement was in the way: each of these statements may be repeated.
pub(super) async fn writing<T>(link: &Link, write: impl AsyncFn(Rc<Up>) -> Result<T, Unread>) -> Result<T, StoreError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let up = link.to_write(until).await?;
        match write(up).await {
            Ok(written) => return Ok(written),
            Err(Unread::Bad(error)) => return Err(error),
            Err(Unread::Failed(error)) if passes(&error) && Instant::now() < until => {}
            Err(Unread::Failed(error)) if is_broken(&error) => {
                return Err(StoreError::InDoubt(link.address.failed("write", &error).to_string()));
            }
            Err(Unread::Failed(error)) => return Err(link.address.failed("write", &error)),
        }
    }
}

fn passes(error: &Error) -> bool {
    is_broken(error) || is_in_the_way(error)
}
