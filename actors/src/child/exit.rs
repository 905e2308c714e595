//! How a child ended, and the one task that waits for it.

use super::group::Group;
use super::orphans;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use tokio::sync::watch;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It ended by itself with this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Unknown: the runtime that waited for it has ended (and killed it), or another part of the process reaped it.
    Unknown,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

/// Reads after the name of a program: "`x` ended with status 3".
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with status {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::Unknown => f.write_str("ended with unknown status"),
        }
    }
}

/// Reports the exit of a child to any number of waiters.
#[derive(Debug, Clone)]
pub struct ExitWatch(watch::Receiver<Option<Exit>>);

impl ExitWatch {
    /// Waits until the child has ended and was reaped. Cancel-safe.
    pub async fn exited(&mut self) -> Exit {
        match self.0.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Unknown),
            Err(_the_runtime_ended) => Exit::Unknown,
        }
    }

    /// How it ended, if it has.
    pub fn now(&self) -> Option<Exit> {
        *self.0.borrow()
    }
}

/// The leader of a group, held by the only task that waits for it.
pub(crate) struct Leader {
    child: tokio::process::Child,
    group: Arc<Group>,
}

impl Leader {
    /// Waits for the leader in a task until it ends or the runtime does.
    pub(crate) fn watch(child: tokio::process::Child, group: Arc<Group>) -> ExitWatch {
        let (tell, told) = watch::channel(None);
        let mut leader = Self { child, group };
        tokio::spawn(async move {
            let exit = leader.ended().await;
            drop(leader);
            tell.send_replace(Some(exit));
        });
        ExitWatch(told)
    }

    /// The group is ended while the dead leader still holds its number, where the system can say that it died without
    /// reaping it. Where it cannot, the group is ended right after: its number is then still taken if any process is
    /// left in the group; if none is, the signal could only reach a group made in between.
    async fn ended(&mut self) -> Exit {
        let status = match died(self.group.pid()).await {
            Ok(()) => match self.group.end(|| self.child.try_wait()) {
                Ok(Some(status)) => Ok(status),
                Ok(None) => self.child.wait().await,
                Err(error) => Err(error),
            },
            Err(_not_on_this_system) => self.child.wait().await,
        };
        self.group.end(|| status.map_or(Exit::Unknown, Exit::from))
    }
}

/// When the runtime goes before the child, the group goes with it. The dead leader
/// is reaped by the next runtime of this process, or when the process ends.
impl Drop for Leader {
    fn drop(&mut self) {
        self.group.end(|| ());
        orphans::reaped(self.group.pid());
    }
}

/// Waits until a process has died, without reaping it.
#[cfg(target_os = "linux")]
async fn died(pid: rustix::process::Pid) -> std::io::Result<()> {
    use rustix::process::{PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe code, for types that lie about their descriptor; this owns one"
    )]
    let handle = AsyncFd::with_interest(handle, Interest::READABLE)?;
    loop {
        let mut ready = handle.readable().await?;
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if waitid(WaitId::Pid(pid), peek)?.is_some() {
            return Ok(());
        }
        ready.clear_ready();
    }
}

#[cfg(not(target_os = "linux"))]
async fn died(_pid: rustix::process::Pid) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
