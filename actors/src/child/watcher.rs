//! The watcher: a small process that ends the children if this process is killed.
//!
//! One `sh` per runtime, started with its first child, in its own group, with its stdin on a pipe that only this
//! process holds. It reads the list of live groups; when the pipe is closed, deliberately or by a kill, it sends
//! SIGTERM to all remaining groups, SIGKILL a second later, and exits. It ignores the signals of a terminal and knows
//! nothing but those numbers.
//!
//! A child is registered just after its start; one started within microseconds of a kill can be missed.

#[cfg(test)]
#[path = "watcher_tests.rs"]
mod tests;

use super::orphans;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Pid;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// `+N` and `-N` register and forget group N. POSIX sh has no lists, so the numbers
/// stand in one text, each with a space on both sides.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
groups=' '
while read -r line; do
  id=${line#?}
  case $line in
    +*) groups="$groups$id " ;;
    -*) case $groups in *" $id "*) groups="${groups%%" $id "*} ${groups#*" $id "}" ;; esac ;;
  esac
done
[ "$groups" = ' ' ] && exit 0
tell() { for id in $groups; do kill -s "$1" -- "-$id" 2>/dev/null; done; }
tell TERM
sleep 1
tell KILL
"#;

/// A watcher that was killed is replaced, but not more often than this.
const REPLACED_EVERY: Duration = Duration::from_secs(1);

/// The watcher of one runtime's children. Clones share it; when the last is
/// dropped, the process ends, and with it every group that is still registered.
#[derive(Debug, Clone, Default)]
pub struct Watcher(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// How many groups are registered.
    living: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    groups: HashSet<Pid>,
    process: Option<Process>,
    /// Counts the processes, so that the end of an earlier one is recognised.
    started: u64,
}

#[derive(Debug)]
struct Process {
    /// Non-blocking: a line fits into one atomic pipe write, or fails.
    pipe: File,
    pid: Option<u32>,
    number: u64,
    /// Takes the pipe of a process that does not read. It must be dead before the
    /// pipe closes, since it would take the end of the pipe for our own end.
    retire: oneshot::Sender<File>,
}

impl Process {
    /// Has it killed; without effect when it is dead already.
    fn retire(self) {
        drop(self.retire.send(self.pipe));
    }
}

impl Watcher {
    /// A watcher whose process starts with the first child.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until every child of this runtime has ended, up to `limit`; returns whether they have. Cancel-safe.
    pub async fn idle(&self, limit: Duration) -> bool {
        let mut living = self.0.living.subscribe();
        tokio::time::timeout(limit, living.wait_for(|count| *count == 0)).await.is_ok()
    }

    /// The process id of the watcher, while it has one.
    pub fn id(&self) -> Option<u32> {
        self.lock().process.as_ref().and_then(|process| process.pid)
    }

    /// Makes sure that the process runs.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.0.ensure(&mut self.lock())
    }

    /// Registers a group whose leader was just started.
    pub(crate) fn remember(&self, group: Pid) -> io::Result<()> {
        let mut state = self.lock();
        state.groups.insert(group);
        self.0.living.send_replace(state.groups.len());
        self.0.tell(&mut state, '+', group)
    }

    /// Forgets a group that was killed and whose number is about to be free.
    pub(crate) fn forget(&self, group: Pid) {
        let mut state = self.lock();
        if state.groups.remove(&group) {
            self.0.living.send_replace(state.groups.len());
            if let Err(error) = self.0.tell(&mut state, '-', group) {
                tracing::warn!(%error, "the watcher of child processes cannot be reached");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one line. A process that does not take it is replaced by a new one, which gets all groups.
    fn tell(self: &Arc<Self>, state: &mut State, sign: char, group: Pid) -> io::Result<()> {
        let told = match &mut state.process {
            Some(process) => write_line(&mut process.pipe, sign, group),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        if told.is_ok() {
            return Ok(());
        }
        if let Some(process) = state.process.take() {
            process.retire();
        }
        self.ensure(state)
    }

    fn ensure(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        if state.process.is_some() {
            return Ok(());
        }
        state.started += 1;
        let mut process = start(state.started, Arc::downgrade(self))?;
        for group in &state.groups {
            if let Err(error) = write_line(&mut process.pipe, '+', *group) {
                process.retire();
                return Err(error);
            }
        }
        state.process = Some(process);
        Ok(())
    }
}

fn write_line(pipe: &mut File, sign: char, group: Pid) -> io::Result<()> {
    // One call of `write`: a pipe takes a line this short whole or not at all.
    pipe.write_all(format!("{sign}{}\n", group.as_raw_nonzero()).as_bytes())
}

/// Starts the process and a task that follows it to its end.
fn start(number: u64, shared: Weak<Shared>) -> io::Result<Process> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "bob-watcher"]).env_clear().current_dir("/").process_group(0);
    // For `sleep`, the one program the script calls.
    command.env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = orphans::start(&mut command)?;
    let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let pipe = File::from(stdin.into_owned_fd()?);
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
    let (retire, retired) = oneshot::channel();
    let process = Process { pipe, pid: child.id(), number, retire };
    tokio::spawn(follow(child, number, retired, shared));
    Ok(process)
}

/// Reaps the process, and has it replaced when it ended while it was needed.
async fn follow(mut child: Child, number: u64, retired: oneshot::Receiver<File>, shared: Weak<Shared>) {
    let started = Instant::now();
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let retired = tokio::select! { biased;
        _ended = child.wait() => None,
        Ok(pipe) = retired => {
            // It cannot fail in a way that matters: the process is dead or dying.
            let _dying = child.kill().await;
            Some(pipe)
        }
    };
    pid.into_iter().for_each(orphans::reaped);
    if retired.is_some() {
        return;
    }
    // The usual end: it is no longer needed.
    if shared.strong_count() == 0 {
        return;
    }
    tokio::time::sleep_until(started + REPLACED_EVERY).await;
    let Some(shared) = shared.upgrade() else { return };
    let mut state = shared.lock();
    if state.process.as_ref().is_some_and(|process| process.number == number) {
        state.process = None;
        if !state.groups.is_empty()
            && let Err(error) = shared.ensure(&mut state)
        {
            tracing::warn!(%error, "the watcher of child processes ended and cannot be replaced");
        }
    }
}
