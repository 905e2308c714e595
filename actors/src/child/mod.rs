//! Child processes: started in their own process group, drained, watched, and never left behind.
//!
//! A [`Child`] belongs to one actor or one task. It has a cleared environment; its stderr is kept in a bounded
//! [`Ring`]; one task waits for it and publishes its exit ([`ExitWatch`]). When its leader ends, the remaining
//! processes of its group are killed. It is stopped by the [`Ladder`]; dropping it kills its group at once. When Bob
//! itself is killed, the [`Watcher`] ends the group.
//!
//! Nothing here runs a shell line, writes to a terminal, or uses the parent-death signal, which ending threads fire.

mod exit;
mod group;
mod ladder;
mod orphans;
mod ring;
mod spec;
mod watcher;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
#[path = "child_tests.rs"]
mod tests;

pub use exit::{Exit, ExitWatch};
pub use ladder::Ladder;
pub use orphans::reap_orphans;
pub(crate) use ring::BETWEEN_LINES;
pub use ring::{RING_BYTES, Ring};
pub use spec::{ChildSpec, OnLine, SpawnError, Stdin, Stdout};
pub use watcher::Watcher;

pub(crate) use exit::Leader;
pub(crate) use group::Group;
pub(crate) use orphans::start;

use rustix::process::{Pid, Signal};
use std::convert::Infallible;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

/// How long draining continues after the leader ended, if a process outside the group holds the pipe; also the time
/// to wait for last output.
const DRAIN_AFTER_EXIT: Duration = Duration::from_millis(500);

/// How many lines an error repeats.
const LAST_LINES: usize = 5;

/// A child process. Dropping it kills its whole group at once, inside a runtime or
/// outside; to end it politely, [`stop`](Child::stop) it first.
#[derive(Debug)]
pub struct Child {
    group: Arc<Group>,
    had_stdin: bool,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    exit: ExitWatch,
    said: Ring,
    /// Closed when every drain has read its pipe to the end.
    drained: mpsc::Receiver<Infallible>,
}

impl Child {
    /// Starts a child in its own process group and registers it with the watcher.
    ///
    /// Blocks while the system starts the program (about a millisecond). Must be called inside a tokio runtime with
    /// I/O and time.
    ///
    /// # Errors
    /// [`SpawnError`] has the program and the reason: not found, not executable, missing folder, too many files or
    /// processes. Then no process is left.
    pub fn spawn(spec: ChildSpec, watcher: &Watcher) -> Result<Self, SpawnError> {
        // First, so that no child ever runs unwatched.
        watcher.start().map_err(|error| spec.unwatched(error))?;
        let mut child = start(&mut command(&spec)).map_err(|error| spec.refused(error))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or_else(|| SpawnError::new(&spec.program, "it ended during its start"))?;
        let (stdin, mut stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = Arc::new(Group::new(pid, watcher.clone()));
        let remembered = watcher.remember(pid);
        let exit = Leader::watch(child, Arc::clone(&group));
        if let Err(error) = remembered {
            group.signal(Signal::KILL);
            return Err(spec.unwatched(error));
        }

        let said = Ring::default();
        let (drain, drained) = Drains::new(&said, &exit, spec.on_line);
        if spec.stdout == Stdout::Drained {
            drain.start(stdout.take());
        }
        drain.start(stderr);
        Ok(Self { group, had_stdin: stdin.is_some(), stdin, stdout, exit, said, drained })
    }

    /// The process id of the leader, which is also the number of the group.
    pub fn id(&self) -> i32 {
        self.group.pid().as_raw_nonzero().get()
    }

    /// The pipe to its stdin, once, when it has one.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The pipe from its stdout, once, when it is piped.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Returns a handle that reports the exit, independent of the child's owner.
    pub fn exit_watch(&self) -> ExitWatch {
        self.exit.clone()
    }

    /// The end of its output on the drained pipes.
    pub fn said(&self) -> &Ring {
        &self.said
    }

    /// Waits until it has ended and was reaped. Cancel-safe.
    pub async fn exited(&self) -> Exit {
        self.exit_watch().exited().await
    }

    /// The last lines of a child that ended, for an error message: waits, at most half a second, until all it wrote
    /// was read. Empty if it wrote nothing.
    pub async fn last_output(&mut self) -> String {
        let _no_drain_speaks = tokio::time::timeout(DRAIN_AFTER_EXIT, self.drained.recv()).await;
        self.said.last_lines(LAST_LINES)
    }

    /// Kills the whole group now, without waiting for its end.
    pub fn kill(&self) {
        self.group.signal(Signal::KILL);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(spec: &ChildSpec) -> Command {
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().envs(spec.environment(std::env::vars_os()));
    command.process_group(0).kill_on_drop(true);
    if let Some(folder) = &spec.folder {
        command.current_dir(folder);
    }
    command.stdin(match spec.stdin {
        Stdin::Null => Stdio::null(),
        Stdin::Piped => Stdio::piped(),
    });
    command.stdout(match spec.stdout {
        Stdout::Null => Stdio::null(),
        Stdout::Piped | Stdout::Drained => Stdio::piped(),
    });
    command.stderr(Stdio::piped());
    command
}

/// Starts the drains of one child; each holds the channel open while it reads.
struct Drains {
    ring: Ring,
    exit: ExitWatch,
    on_line: Option<OnLine>,
    reading: mpsc::Sender<Infallible>,
}

impl Drains {
    fn new(ring: &Ring, exit: &ExitWatch, on_line: Option<OnLine>) -> (Self, mpsc::Receiver<Infallible>) {
        let (reading, drained) = mpsc::channel(1);
        (Self { ring: ring.clone(), exit: exit.clone(), on_line, reading }, drained)
    }

    fn start(&self, pipe: Option<impl tokio::io::AsyncRead + Send + Unpin + 'static>) {
        let Some(pipe) = pipe else { return };
        let (reading, mut exit) = (self.reading.clone(), self.exit.clone());
        let drain = ring::drain(pipe, self.ring.clone(), self.on_line.clone());
        tokio::spawn(async move {
            let held_too_long = async {
                exit.exited().await;
                tokio::time::sleep(DRAIN_AFTER_EXIT).await;
            };
            tokio::select! { biased;
                () = drain => {}
                () = held_too_long => {}
            }
            drop(reading);
        });
    }
}
