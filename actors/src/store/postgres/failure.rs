//! What the failure of a connection or a statement says: whether it lasts, and whether it may be repeated.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Whether the connection is gone or going, so that what it was asked may or may not have happened.
pub(super) fn is_broken(error: &Error) -> bool {
    match error.as_db_error() {
        None => true,
        Some(said) => {
            let ends = [
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            ];
            ends.contains(said.code())
        }
    }
}

/// Whether a statement did nothing because another one was in its way, and may be repeated.
pub(super) fn is_in_the_way(error: &Error) -> bool {
    let Some(said) = error.as_db_error() else { return false };
    [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(said.code()) || is_locked(error)
}

/// Whether a statement did nothing because another transaction kept a lock that it needed.
pub(super) fn is_locked(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the database refused for a reason that a configuration has to change, so that waiting does not help.
pub(super) fn is_lasting(error: &Error) -> bool {
    let passing = [
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        // Usual for some seconds after a restart, when all come back at once.
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    error.as_db_error().is_some_and(|said| !passing.contains(said.code()))
}
