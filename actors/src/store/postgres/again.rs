use super::failure::{is_broken, is_in_the_way};
use super::link::{Link, PATIENCE};
use super::up::{Unread, Up};
use bob_messages::store::StoreError;
use std::rc::Rc;
use tokio::time::Instant;
use tokio_postgres::Error;

/// Writes, and again when the connection broke or another statement was in the way: each of these statements may be repeated.
/// Errors: `InDoubt` once an attempt was sent on a connection that broke: it may have been done.
pub(super) async fn writing<T>(link: &Link, write: impl AsyncFn(Rc<Up>) -> Result<T, Unread>) -> Result<T, StoreError> {
    writing_until(Instant::now() + PATIENCE, link, write).await
}

/// As [`writing`], which is repeated until another time.
pub(super) async fn writing_until<T>(
    until: Instant,
    link: &Link,
    write: impl AsyncFn(Rc<Up>) -> Result<T, Unread>,
) -> Result<T, StoreError> {
    let mut in_doubt = false;
    let error = loop {
        let up = match link.to_write(until).await {
            Ok(up) => up,
            Err(error) => break error,
        };
        match write(up).await {
            Ok(written) => return Ok(written),
            Err(Unread::Bad(error)) => break error,
            Err(Unread::Failed(error)) => {
                in_doubt |= is_broken(&error);
                if !passes(&error) || Instant::now() >= until {
                    break link.address.failed("write", &error);
                }
            }
        }
    };
    Err(match error {
        StoreError::Unavailable(why) | StoreError::Away(why) if in_doubt => StoreError::InDoubt(why),
        error => error,
    })
}

/// Reads tables of this version, and again when the connection broke or another statement was in the way.
pub(super) async fn reading<T>(
    link: &Link,
    version: usize,
    empty: impl FnOnce() -> T,
    read: impl AsyncFn(Rc<Up>) -> Result<T, Unread>,
) -> Result<T, StoreError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let Some(up) = link.to_read_of(version, until).await? else { return Ok(empty()) };
        match read(up).await {
            Ok(read) => return Ok(read),
            Err(Unread::Bad(error)) => return Err(error),
            Err(Unread::Failed(error)) if passes(&error) && Instant::now() < until => {}
            Err(Unread::Failed(error)) => return Err(link.address.failed("read", &error)),
        }
    }
}

/// Whether a statement may work when it is repeated.
pub(super) fn passes(error: &Error) -> bool {
    is_broken(error) || is_in_the_way(error)
}
