//! A disk without room, named as such.

use bob_messages::store::StoreError;
use std::io;

/// What could not be done to which file.
pub(super) fn unavailable(doing: &str, what: &str, error: &io::Error) -> StoreError {
    StoreError::Unavailable(why(doing, what, error))
}

/// What may or may not have been done to which file.
pub(super) fn in_doubt(doing: &str, what: &str, error: &io::Error) -> StoreError {
    StoreError::InDoubt(why(doing, what, error))
}

#[cfg(any(feature = "sqlite", test))]
pub(super) fn no_room(doing: &str, what: &str) -> StoreError {
    StoreError::Unavailable(full(doing, what))
}

fn why(doing: &str, what: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(doing, what),
        _another_reason => format!("cannot {doing} {what}: {error}"),
    }
}

fn full(doing: &str, what: &str) -> String {
    format!("the disk is full: cannot {doing} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_called_so() {
        let full = unavailable("write", "a.jsonl", &io::Error::from_raw_os_error(28));
        assert_eq!(full, no_room("write", "a.jsonl"));
        assert_eq!(full.to_string(), "the store is unavailable: the disk is full: cannot write a.jsonl");
        let doubt = in_doubt("write", "a.jsonl", &io::Error::from_raw_os_error(28));
        assert_eq!(doubt, StoreError::InDoubt("the disk is full: cannot write a.jsonl".to_owned()));
        let other = unavailable("write", "a.jsonl", &io::Error::from_raw_os_error(13));
        assert!(other.to_string().contains("cannot write a.jsonl: Permission denied"), "{other}");
    }
}
