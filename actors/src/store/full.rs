//! A disk without room, named as such.

use bob_messages::store::StoreError;
use std::io;

/// What could not be done to which file.
pub(super) fn unavailable(doing: &str, what: &str, error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => no_room(doing, what),
        _another_reason => StoreError::Unavailable(format!("cannot {doing} {what}: {error}")),
    }
}

/// The disk is full.
pub(super) fn no_room(doing: &str, what: &str) -> StoreError {
    StoreError::Unavailable(format!("the disk is full: cannot {doing} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_called_so() {
        let full = unavailable("write", "a.jsonl", &io::Error::from_raw_os_error(28));
        assert_eq!(full, no_room("write", "a.jsonl"));
        assert_eq!(full.to_string(), "the store is unavailable: the disk is full: cannot write a.jsonl");
        let other = unavailable("write", "a.jsonl", &io::Error::from_raw_os_error(13));
        assert!(other.to_string().contains("cannot write a.jsonl: Permission denied"), "{other}");
    }
}
