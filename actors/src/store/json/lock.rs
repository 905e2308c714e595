//! A mutex that a panic does not close.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here is left half changed by a panic that a later reader would miss:
    // slots are compared with the file before they are relied on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
