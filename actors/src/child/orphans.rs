//! Reaps orphans: children of this process that it did not start.
//!
//! The first process of a container, and a child subreaper, inherits every process whose parent has ended, and only
//! it can reap them. This module tracks the children started here, whose status is left to their waiters, and reaps
//! all others. It kills no process; the groups and the watcher do.

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};
use std::collections::HashSet;
use std::io;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};

/// Between two looks; a dead orphan is a zombie for as long as this, at most.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Children that were started here and are not reaped yet: of the whole process, since
/// the system gives orphans to a process and not to a runtime in it.
static OURS: LazyLock<Mutex<HashSet<Pid>>> = LazyLock::new(Mutex::default);

/// Whether this process inherits orphans: it is the first of its namespace, or it was
/// made their reaper. It does not change while the process lives.
static INHERITS: LazyLock<bool> = LazyLock::new(|| std::process::id() == 1 || is_reaper());

/// Starts a program while holding the lock, so that a child that ends immediately is not taken for an orphan.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    if !*INHERITS {
        return command.spawn();
    }
    let mut ours = ours();
    let child = command.spawn()?;
    ours.extend(child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())));
    Ok(child)
}

/// A child that was started here is reaped, or no longer waited for.
pub(crate) fn reaped(pid: Pid) {
    if *INHERITS {
        ours().remove(&pid);
    }
}

/// Reaps orphans for as long as it is polled, and comes back at once in a process that
/// inherits none. One task of a process runs it; it must be inside a runtime with time.
pub async fn reap_orphans() {
    if !*INHERITS {
        return;
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let any = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
        if matches!(any, Ok(Some(_dead))) {
            look();
        }
    }
}

fn look() {
    let ours = ours();
    for orphan in children().into_iter().filter(|pid| !ours.contains(pid)) {
        // No effect on a live one, or on one reaped elsewhere.
        let _dead_or_not = waitpid(Some(orphan), WaitOptions::NOHANG);
    }
}

/// All children of this process: Linux lists them for each thread.
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let read = |list: String| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>();
    lists.flat_map(read).filter_map(Pid::from_raw).collect()
}

fn ours() -> MutexGuard<'static, HashSet<Pid>> {
    // Every change is one call; a panic has spoiled nothing.
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(target_os = "linux")]
fn is_reaper() -> bool {
    rustix::process::child_subreaper().is_ok_and(|reaper| reaper.is_some())
}

#[cfg(not(target_os = "linux"))]
fn is_reaper() -> bool {
    false
}
