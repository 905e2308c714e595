//! Confines the commands of the shell where the kernel can: they write only below the session's folders and the
//! temporary one, and reach no network.
//!
//! Files are confined by Landlock, sockets by a seccomp filter. Both hold for the thread that asks for them and for
//! what it starts, and cannot be taken back. So a command is started from a thread of its own, which ends then; nothing
//! runs between fork and exec, and this process stays as it is. The kernel sees to the rest, for children of the
//! command, too.
//!
//! Not confined: what is read, the time and the mode of a file that is there, and a process of the same user that is
//! asked for something over a pipe in the file system.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{fmt, io};

/// Whether commands of the shell are confined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// They can do what the user can who runs this program.
    #[default]
    Off,
    /// They are where the kernel can; elsewhere they run all the same.
    On,
    /// They are, and where the kernel cannot no command runs.
    Required,
}

/// What commands of the shell are confined to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether they are.
    pub mode: SandboxMode,
    /// Whether they may open sockets.
    pub network: bool,
    /// Where they may write beside the session's folders and the temporary one. Missing folders are passed over.
    pub folders: Vec<PathBuf>,
}

/// What the kernel can hold a command to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kernel {
    /// All of it.
    Whole,
    /// The files, but not signals and abstract sockets, or not every way to change a file: it is an older one.
    Older,
    /// Nothing, for this reason.
    Nothing(String),
}

impl Kernel {
    /// What this machine's can. Asked once.
    pub fn of_this_machine() -> &'static Self {
        static KERNEL: LazyLock<Kernel> = LazyLock::new(|| {
            // A thread of its own, since what it asks for holds until it ends.
            let asked = std::thread::spawn(|| kernel::confine(&[], false)).join();
            asked
                .unwrap_or_else(|_panic| Ok(Kernel::Nothing("it could not be asked".into())))
                .unwrap_or_else(|error| Kernel::Nothing(error.to_string()))
        });
        &KERNEL
    }
}

/// What is in force.
impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.mode, Kernel::of_this_machine()) {
            (SandboxMode::Off, _) => f.write_str("off: commands can do what you can"),
            (SandboxMode::On, Kernel::Nothing(why)) => write!(f, "not in force, commands can do what you can: {why}"),
            (SandboxMode::Required, Kernel::Nothing(why)) => write!(f, "not in force, so no command runs: {why}"),
            (SandboxMode::On | SandboxMode::Required, kernel) => {
                f.write_str("in force: writes only below the workspace and the temporary folder")?;
                for folder in &self.folders {
                    write!(f, ", {}", folder.display())?;
                }
                f.write_str(if self.network { "; the network is allowed" } else { "; no network" })?;
                if *kernel == Kernel::Older {
                    f.write_str(" (this kernel is an older one: signals and some changes of files are not held)")?;
                }
                Ok(())
            }
        }
    }
}

impl Sandbox {
    /// The few words that a question about a command shows; empty when commands are not confined.
    pub fn short(&self) -> &'static str {
        match (self.is_in_force(), self.network) {
            (false, _) => "",
            (true, false) => "sandbox: writes in the workspace and the temporary folder, no network",
            (true, true) => "sandbox: writes in the workspace and the temporary folder",
        }
    }

    fn is_in_force(&self) -> bool {
        self.mode != SandboxMode::Off && !matches!(Kernel::of_this_machine(), Kernel::Nothing(_))
    }

    /// Starts something confined; `start` runs on another thread, inside the runtime of this one.
    /// Errors: when it cannot be started, or cannot be confined although it must be.
    pub(super) fn start<T: Send>(
        &self,
        roots: &[String],
        start: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        if self.mode == SandboxMode::Off {
            return start();
        }
        if let Kernel::Nothing(why) = Kernel::of_this_machine() {
            return match self.mode {
                SandboxMode::Required => Err(io::Error::other(format!(
                    "commands must be confined ([policy] sandbox = \"required\"), and this machine cannot: {why}"
                ))),
                SandboxMode::On | SandboxMode::Off => start(),
            };
        }
        let temporary = std::env::temp_dir();
        let writable: Vec<&Path> =
            roots.iter().map(Path::new).chain(self.folders.iter().chain([&temporary]).map(PathBuf::as_path)).collect();
        let runtime = tokio::runtime::Handle::current();
        let confined = || {
            let _inside = runtime.enter();
            kernel::confine(&writable, self.network)?;
            start()
        };
        let ended = std::thread::scope(|scope| scope.spawn(confined).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    //! What holds for this thread from now on, and for what it starts.

    use super::Kernel;
    use landlock::{
        ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
    };
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
    use std::collections::BTreeMap;
    use std::io;
    use std::path::Path;
    use std::sync::LazyLock;

    /// The newest rules of Landlock that are asked for; an older kernel holds to those it knows.
    const NEWEST: ABI = ABI::V6;

    /// Devices that anything may write to, and the memory that is shared like a temporary folder.
    const DEVICES: [&str; 8] =
        ["/dev/shm", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom", "/dev/ptmx"];

    /// System calls that make a socket. A ring of io_uring makes them, too, past any filter.
    const SOCKETS: [i64; 2] = [libc::SYS_socket, libc::SYS_io_uring_setup];

    /// The bit of a call of the x32 ABI, which some kernels take beside the usual ones.
    const X32: i64 = 0x4000_0000;

    pub(super) fn confine(writable: &[&Path], network: bool) -> io::Result<Kernel> {
        let held = files(writable).map_err(io::Error::other)?;
        let kernel = match held {
            RulesetStatus::FullyEnforced => Kernel::Whole,
            RulesetStatus::PartiallyEnforced => Kernel::Older,
            RulesetStatus::NotEnforced => {
                return Ok(Kernel::Nothing(
                    "the kernel has no Landlock, or it is switched off (Linux 5.13 has it)".into(),
                ));
            }
        };
        if !network {
            let filter = NO_SOCKETS.as_ref().map_err(|why| io::Error::other(why.as_str()))?;
            seccompiler::apply_filter(filter).map_err(io::Error::other)?;
        }
        Ok(kernel)
    }

    fn files(writable: &[&Path]) -> Result<RulesetStatus, landlock::RulesetError> {
        let (all, read) = (AccessFs::from_all(NEWEST), AccessFs::from_read(NEWEST));
        let rules = Ruleset::default().handle_access(all)?.scope(Scope::from_all(NEWEST))?.create()?;
        let rules = rules
            .add_rules(path_beneath_rules(["/"], read))?
            .add_rules(path_beneath_rules(DEVICES, all))?
            .add_rules(path_beneath_rules(writable, all))?;
        Ok(rules.restrict_self()?.ruleset)
    }

    static NO_SOCKETS: LazyLock<Result<BpfProgram, String>> = LazyLock::new(|| {
        let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
        let every = SOCKETS
            .into_iter()
            .chain(cfg!(target_arch = "x86_64").then_some(SOCKETS.map(|call| call | X32)).into_iter().flatten());
        let rules: BTreeMap<i64, Vec<_>> = every.map(|call| (call, Vec::new())).collect();
        // EACCES, as a firewall would say.
        let refuse = SeccompAction::Errno(libc::EACCES.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture);
        filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())
    });
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    //! No other system than Linux has what this needs.

    use super::Kernel;
    use std::io;
    use std::path::Path;

    pub(super) fn confine(_writable: &[&Path], _network: bool) -> io::Result<Kernel> {
        Ok(Kernel::Nothing("only Linux can".into()))
    }
}

#[cfg(test)]
#[path = "sandbox_tests.rs"]
mod tests;
