//! Failures of the database in our words.

use super::file;
use crate::store::full;
use bob_messages::store::StoreError;
use rusqlite::ErrorCode;
use std::path::Path;
use std::time::Duration;

/// How long another process may hold the database before we give up: it holds it only to commit.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// A failure in our words: what could not be done to which file, and what to do.
pub(super) fn failed(path: &Path, doing: &str, error: &rusqlite::Error) -> StoreError {
    let (at, path) = (path, path.display());
    // Statements are this program's own: that one does not fit is the database's fault.
    let misfit = match error {
        rusqlite::Error::SqlInputError { msg, .. } => Some(msg),
        rusqlite::Error::SqliteFailure(failure, Some(msg)) if failure.code == ErrorCode::Unknown => Some(msg),
        _ => None,
    };
    if let Some(said) = misfit {
        return StoreError::Unavailable(format!(
            "{path} does not have the tables of its version ({said}); another program has changed it: put a copy of it back"
        ));
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(format!(
            "the database {path} has damaged pages ({error}); what can be read of it can be exported, session by session"
        )),
        Some(ErrorCode::NotADatabase) => {
            StoreError::Unavailable(format!("{path} is no database; it was left as it is: name another file"))
        }
        // Also what only reads may have to write an index or a lock.
        Some(ErrorCode::DiskFull) => full::no_room("write", &path.to_string()),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if file::is_disk_full(at) => {
            full::no_room("write", &path.to_string())
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(format!(
            "another process has kept {path} locked for {} s; is it paused?",
            LOCK_PATIENCE.as_secs()
        )),
        _ => StoreError::Unavailable(format!("cannot {doing} {path}: {error}")),
    }
}
