//! The stop ladder: close stdin, TERM to the group, KILL to the group.

use super::Child;
use super::exit::Exit;
use rustix::process::Signal;
use std::time::Duration;

/// How long each rung may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// From the end of its input to TERM; skipped for a child that has no input.
    pub after_eof: Duration,
    /// From TERM to KILL.
    pub after_term: Duration,
    /// The wait after SIGKILL. Only a process stuck in the kernel outlives this; it is reaped whenever it gets free.
    pub after_kill: Duration,
}

/// 1 s, 2 s, 1 s: at most 4 s in all.
impl Default for Ladder {
    fn default() -> Self {
        Self {
            after_eof: Duration::from_secs(1),
            after_term: Duration::from_secs(2),
            after_kill: Duration::from_secs(1),
        }
    }
}

impl Child {
    /// Stops the child and its whole group, with increasing force. The caller must have dropped the child's stdin.
    /// Repeating it is harmless and returns the first result. Dropping the future and then the child kills the group
    /// at once.
    ///
    /// As soon as the leader has ended, the remaining processes of its group are killed. A grandchild in a group of
    /// its own is not reached.
    pub async fn stop(&mut self, ladder: Ladder) -> Exit {
        let mut exit = self.exit_watch();
        if self.had_stdin {
            drop(self.stdin.take());
            if let Ok(exit) = tokio::time::timeout(ladder.after_eof, exit.exited()).await {
                return exit;
            }
        }
        self.group.signal(Signal::TERM);
        if let Ok(exit) = tokio::time::timeout(ladder.after_term, exit.exited()).await {
            return exit;
        }
        self.kill();
        tokio::time::timeout(ladder.after_kill, exit.exited()).await.unwrap_or(Exit::Unknown)
    }
}
