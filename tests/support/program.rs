//! Runs a program with an environment without keys or proxies and with a deadline, and captures its output.
//!
//! It owns the child and the threads that read its pipes; a child that is still running when the handle is dropped is
//! killed with its process group.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// Inherited variables. Provider keys, proxies and the program's own overrides are excluded.
pub(crate) const KEPT_VARIABLES: [&str; 7] =
    ["PATH", "HOME", "USER", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE"];

/// The state folder of programs, unless a test has its own: separate from that of the user who runs the tests.
pub(crate) const STATE_HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/state");

/// The folder of their configurations, in which there is none, so that the user's own has no part in a test.
pub(crate) const CONFIG_HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/config");

/// The folder of what can be made again.
pub(crate) const CACHE_HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cache");

/// A program about to be run.
pub(crate) struct Program {
    command: Command,
    stdin: Option<Vec<u8>>,
    deadline: Duration,
    /// Its stderr is a full pipe whose reader does not read.
    has_full_stderr: bool,
}

/// The result of a program.
#[derive(Debug)]
pub(crate) struct Run {
    /// `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) millis: u128,
}

impl Program {
    /// Empty standard input and a deadline of 120 s by default.
    pub(crate) fn new(path: impl AsRef<Path>) -> Self {
        let mut command = Command::new(path.as_ref());
        command.env_clear().process_group(0);
        command.envs(KEPT_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("XDG_STATE_HOME", STATE_HOME).env("XDG_CONFIG_HOME", CONFIG_HOME);
        command.env("XDG_CACHE_HOME", CACHE_HOME);
        Self { command, stdin: Some(Vec::new()), deadline: Duration::from_secs(120), has_full_stderr: false }
    }

    pub(crate) fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn dir(mut self, path: impl AsRef<Path>) -> Self {
        self.command.current_dir(path);
        self
    }

    /// The whole standard input; it ends after this.
    pub(crate) fn stdin(mut self, text: impl AsRef<[u8]>) -> Self {
        self.stdin = Some(text.as_ref().to_vec());
        self
    }

    /// Standard input stays open, for [`Running::type_line`].
    pub(crate) fn open_stdin(mut self) -> Self {
        self.stdin = None;
        self
    }

    /// How long one wait for this program may take before the test fails.
    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Its stderr is a pipe that is full from the beginning and never read: a write to it never comes back.
    pub(crate) fn full_stderr(mut self) -> Self {
        self.has_full_stderr = true;
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Run {
        self.spawn().finish()
    }

    /// Starts it, to be watched and signalled.
    #[track_caller]
    pub(crate) fn spawn(mut self) -> Running {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let unread = self.has_full_stderr.then(|| {
            let (reader, writer) = full_pipe();
            self.command.stderr(writer);
            reader
        });
        let mut child = self.command.spawn().unwrap_or_else(|why| panic!("failed to start {:?}: {why}", self.command));
        let started = Instant::now();
        let pid = Pid::from_child(&child);
        let board = Arc::new(Board::default());
        let mut stdin = child.stdin.take();
        if let Some(text) = self.stdin {
            let mut pipe = stdin.take().expect("a piped stdin");
            // On a thread, because a program that does not read would block the test; a refusal to read is no failure.
            std::thread::spawn(move || drop(pipe.write_all(&text)));
        }
        board.follow(child.stdout.take().expect("a piped stdout"), |said| &mut said.stdout);
        match child.stderr.take() {
            Some(stderr) => board.follow(stderr, |said| &mut said.stderr),
            None => board.change(|said| said.stderr.ended = true),
        }
        board.await_exit(child, pid, started);
        Running { board, pid, stdin, deadline: self.deadline, lines_taken: 0, _unread: unread }
    }
}

/// A pipe into which not one more byte goes.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // The flag belongs to both ends of a fork: the child must block, so it is taken back.
    rustix::io::ioctl_fionbio(&writer, true).expect("a pipe that does not block");
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("a pipe that blocks");
    (reader, writer)
}

/// A program under way.
pub(crate) struct Running {
    board: Arc<Board>,
    pid: Pid,
    stdin: Option<std::process::ChildStdin>,
    deadline: Duration,
    lines_taken: usize,
    /// Kept open, so that the pipe has a reader.
    _unread: Option<PipeReader>,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal to the program alone, as `kill PID` would; nothing happens when it has already ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let said = self.board.lock();
        // The child is reaped under this lock, so the pid cannot have been reused.
        if said.exit.is_none() {
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }

    /// Writes one line to a standard input kept open.
    #[track_caller]
    pub(crate) fn type_line(&mut self, line: &str) {
        let pipe = self.stdin.as_mut().expect("standard input was kept open");
        writeln!(pipe, "{line}").expect("a program that reads");
    }

    /// Ends a standard input kept open.
    pub(crate) fn end_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next complete line of stdout, as soon as it is there; `None` when stdout ended first.
    #[track_caller]
    pub(crate) fn next_line(&mut self) -> Option<String> {
        let index = self.lines_taken;
        let complete = |said: &Said| said.stdout.bytes.iter().filter(|byte| **byte == b'\n').count() > index;
        let said = self.board.wait("a line on stdout", self.deadline, |said| complete(said) || said.stdout.ended);
        let line = complete(&said).then(|| said.stdout.text().lines().nth(index).unwrap_or_default().to_owned());
        drop(said);
        self.lines_taken += usize::from(line.is_some());
        line
    }

    /// Whether it has ended, and its stderr so far.
    pub(crate) fn so_far(&self) -> String {
        let said = self.board.lock();
        format!("exit {:?}, stderr: {}", said.exit, String::from_utf8_lossy(&said.stderr.bytes))
    }

    /// Waits until stdout holds this text.
    #[track_caller]
    pub(crate) fn wait_stdout(&self, text: &str) {
        drop(self.board.wait(text, self.deadline, |said| contains(&said.stdout.bytes, text)));
    }

    /// Waits until stderr holds this text.
    #[track_caller]
    pub(crate) fn wait_stderr(&self, text: &str) {
        drop(self.board.wait(text, self.deadline, |said| contains(&said.stderr.bytes, text)));
    }

    /// Ends its standard input and waits for its exit and for the end of both pipes; a grandchild that keeps a pipe open
    /// makes this fail.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Run {
        self.end_stdin();
        let ended = |said: &Said| said.exit.is_some() && said.stdout.ended && said.stderr.ended;
        let said = self.board.wait("the exit and the end of both pipes", self.deadline, ended);
        let (status, millis) = said.exit.expect("an exit that was waited for");
        let (stdout, stderr) = (said.stdout.text(), said.stderr.text());
        Run { code: status.code(), signal: status.signal(), stdout, stderr, millis }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let said = self.board.lock();
        if said.exit.is_none() {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
    }
}

/// Written by the threads, and awaited by the test.
#[derive(Default)]
struct Board {
    said: Mutex<Said>,
    changed: Condvar,
}

#[derive(Default)]
struct Said {
    stdout: Pipe,
    stderr: Pipe,
    exit: Option<(ExitStatus, u128)>,
}

#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    ended: bool,
}

impl Pipe {
    /// Output that is not UTF-8 is a failure of the program, not something to repair here.
    fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).unwrap_or_else(|why| panic!("output is not UTF-8: {why}"))
    }
}

impl Board {
    /// A test that failed while holding the lock has spoiled nothing: every change is a single assignment.
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn follow(self: &Arc<Self>, mut source: impl Read + Send + 'static, pipe: fn(&mut Said) -> &mut Pipe) {
        let board = self.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = source.read(&mut buffer) {
                board.change(|said| pipe(said).bytes.extend_from_slice(&buffer[..length]));
            }
            board.change(|said| pipe(said).ended = true);
        });
    }

    fn await_exit(self: &Arc<Self>, mut child: Child, pid: Pid, started: Instant) {
        let board = self.clone();
        std::thread::spawn(move || {
            // Wait without reaping first, so that the number stays taken until the lock is held.
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let millis = started.elapsed().as_millis();
            board.change(|said| said.exit = child.wait().ok().map(|status| (status, millis)));
        });
    }

    #[track_caller]
    fn wait(&self, what: &str, deadline: Duration, reached: impl Fn(&Said) -> bool) -> MutexGuard<'_, Said> {
        let (said, _) = self
            .changed
            .wait_timeout_while(self.lock(), deadline, |said| !reached(said))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if reached(&said) {
            return said;
        }
        let (stdout, stderr) =
            (String::from_utf8_lossy(&said.stdout.bytes), String::from_utf8_lossy(&said.stderr.bytes));
        let report = format!("exit {:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", said.exit);
        drop(said);
        panic!("waited {deadline:?} for {what}; {report}");
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
