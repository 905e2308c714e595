//! One process group, from its start until its leader is reaped.
//!
//! The number of a group is safe to signal only while no other group can have it, so every signal and the reaping of
//! the leader meet in one lock here. Once the leader is reaped, nothing is sent to the number again.

use super::watcher::Watcher;
use rustix::process::{Pid, Signal, kill_process_group};
use std::sync::{Mutex, PoisonError};

/// The group a child leads. Its number is the leader's process id.
#[derive(Debug)]
pub(crate) struct Group {
    pid: Pid,
    /// Whether the number is still ours to signal.
    is_ours: Mutex<bool>,
    watcher: Watcher,
}

impl Group {
    /// A group whose leader was just started, and is registered with the watcher.
    pub(crate) fn new(pid: Pid, watcher: Watcher) -> Self {
        Self { pid, is_ours: Mutex::new(true), watcher }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Signals every process in the group. After its end this does nothing. It is a plain system call: it works
    /// outside a runtime and never waits.
    pub(crate) fn signal(&self, signal: Signal) {
        let is_ours = self.is_ours.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_ours {
            // It fails when no process is left, which is the aim.
            let _nobody_left = kill_process_group(self.pid, signal);
        }
    }

    /// Ends the group: kills its remaining processes, unregisters it from the watcher, then calls `reap`, which may
    /// release the pid. Repeating it only calls `reap`.
    ///
    /// The watcher is updated first, so that it never holds a free pid; if this process dies in between, no process
    /// is left, since all were killed.
    pub(crate) fn end<T>(&self, reap: impl FnOnce() -> T) -> T {
        let mut is_ours = self.is_ours.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *is_ours, false) {
            let _nobody_left = kill_process_group(self.pid, Signal::KILL);
            self.watcher.forget(self.pid);
        }
        reap()
    }
}
