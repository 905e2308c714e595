//! A program on a pseudo-terminal of 80 columns and 24 rows, and its screen.
//!
//! Tests check the *screen* of a terminal emulator, not the bytes. One thread feeds the emulator, another waits for
//! the exit; a program that is still running when the handle is dropped is killed.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};

use super::program::{CACHE_HOME, CONFIG_HOME, KEPT_VARIABLES, STATE_HOME};

const SIZE: PtySize = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };

/// Bytes that the keys send.
pub(crate) const ENTER: &[u8] = b"\r";
pub(crate) const CTRL_C: &[u8] = b"\x03";
pub(crate) const CTRL_D: &[u8] = b"\x04";
pub(crate) const UP: &[u8] = b"\x1b[A";

/// A program on a terminal.
pub(crate) struct Terminal {
    view: Arc<View>,
    writer: Box<dyn Write + Send>,
    /// Keeps the terminal open while it is used.
    master: Box<dyn MasterPty + Send>,
    process: Option<u32>,
    deadline: Duration,
}

impl Terminal {
    /// Starts a program with the kept variables, `TERM=xterm-256color`, and those given.
    #[track_caller]
    pub(crate) fn start(program: impl AsRef<Path>, args: &[&str], dir: &Path, env: &[(&str, &str)]) -> Self {
        Self::start_on(SIZE.cols, program, args, dir, env)
    }

    /// Starts it on a terminal of this width.
    #[track_caller]
    pub(crate) fn start_on(
        columns: u16,
        program: impl AsRef<Path>,
        args: &[&str],
        dir: &Path,
        env: &[(&str, &str)],
    ) -> Self {
        let size = PtySize { cols: columns, ..SIZE };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(program.as_ref());
        command.args(args);
        command.cwd(dir);
        command.env_clear();
        for name in KEPT_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("TERM", "xterm-256color");
        command.env("XDG_STATE_HOME", STATE_HOME);
        command.env("XDG_CONFIG_HOME", CONFIG_HOME);
        command.env("XDG_CACHE_HOME", CACHE_HOME);
        for (name, value) in env {
            command.env(name, value);
        }
        let mut child = pair.slave.spawn_command(command).expect("a program that starts");
        // With our own end of the program's side closed, the reader sees the end when the program does.
        drop(pair.slave);
        let reader = pair.master.try_clone_reader().expect("a reader of the terminal");
        let writer = pair.master.take_writer().expect("a writer to the terminal");
        let process = child.process_id();
        let view = Arc::new(View { seen: Mutex::new(Seen::new(size)), changed: Condvar::new() });
        view.watch(reader);
        let inside = view.clone();
        std::thread::spawn(move || {
            let status = child.wait().expect("the exit of a child");
            inside.change(|seen| seen.exit = Some(status));
        });
        Self { view, writer, master: pair.master, process, deadline: Duration::from_secs(60) }
    }

    /// Sets the limit of one wait; default 5 s.
    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Gives the terminal another width. The emulator cuts its rows, as xterm does, and does not wrap them anew.
    #[track_caller]
    pub(crate) fn resize(&self, columns: u16) {
        let size = PtySize { cols: columns, ..SIZE };
        self.view.change(|seen| {
            let [rows, columns] = counts(size);
            seen.parser.screen_mut().set_size(rows, columns);
        });
        self.master.resize(size).expect("a terminal that takes its size");
    }

    /// Sends these bytes as keys.
    #[track_caller]
    pub(crate) fn press(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).and_then(|()| self.writer.flush()).expect("a terminal that takes keys");
    }

    /// Types a line and Enter.
    #[track_caller]
    pub(crate) fn type_line(&mut self, line: &str) {
        self.press(line.as_bytes());
        self.press(ENTER);
    }

    /// Sends a signal to the program alone, as `kill PID` would; nothing happens when it has already ended.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let seen = self.view.lock();
        let pid = self.process.and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let (None, Some(pid)) = (&seen.exit, pid) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// The screen as text, rows separated by newlines, without trailing blanks.
    pub(crate) fn screen(&self) -> String {
        self.view.lock().parser.screen().contents()
    }

    /// Everything the program wrote so far, unread by any emulator.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.view.lock().bytes.clone()
    }

    /// Row and column of the cursor, both from 0.
    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.view.lock().parser.screen().cursor_position()
    }

    /// Waits until the screen holds this text.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(&format!("{text:?} on the screen"), |screen| screen.contents().contains(text));
    }

    /// Waits for a condition of the screen.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, reached: impl Fn(&vt100::Screen) -> bool) {
        drop(self.wait(what, |seen| reached(seen.parser.screen())));
    }

    /// Waits until the program has written this often.
    #[track_caller]
    pub(crate) fn wait_written(&self, text: &str, times: usize) {
        let written = |seen: &Seen| seen.bytes.windows(text.len()).filter(|at| *at == text.as_bytes()).count();
        drop(self.wait(&format!("{text:?} written {times} times"), |seen| written(seen) >= times));
    }

    /// Waits until the program has ended and everything it wrote is on the screen.
    #[track_caller]
    pub(crate) fn wait_exit(&self) -> ExitStatus {
        let seen = self.wait("the exit", |seen| seen.exit.is_some() && seen.ended);
        seen.exit.clone().expect("an exit that was waited for")
    }

    /// Presses a key until the program has ended, once a second.
    #[track_caller]
    pub(crate) fn press_until_exit(&mut self, bytes: &[u8]) -> ExitStatus {
        let end = Instant::now() + self.deadline;
        while Instant::now() < end {
            // A program that has just ended takes none.
            let _ended = self.writer.write_all(bytes).and_then(|()| self.writer.flush());
            let is_there = |seen: &mut Seen| !(seen.exit.is_some() && seen.ended);
            let waited = self.view.changed.wait_timeout_while(self.view.lock(), Duration::from_secs(1), is_there);
            let (mut seen, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if !is_there(&mut seen) {
                break;
            }
        }
        self.wait_exit()
    }

    #[track_caller]
    fn wait(&self, what: &str, reached: impl Fn(&Seen) -> bool) -> MutexGuard<'_, Seen> {
        let (seen, _) = self
            .view
            .changed
            .wait_timeout_while(self.view.lock(), self.deadline, |seen| !reached(seen))
            .unwrap_or_else(PoisonError::into_inner);
        if reached(&seen) {
            return seen;
        }
        let (exit, screen) = (seen.exit.clone(), seen.parser.screen().contents());
        drop(seen);
        panic!("waited {:?} for {what}; exit {exit:?}; the screen:\n{screen}", self.deadline);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let seen = self.view.lock();
        let pid = self.process.and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let (None, Some(pid)) = (&seen.exit, pid) {
            // The program leads a session, so this reaches the processes in its group.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Rows and columns.
fn counts(size: PtySize) -> [NonZeroU16; 2] {
    [size.rows, size.cols].map(|count| NonZeroU16::new(count).expect("a terminal of some size"))
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    ended: bool,
    exit: Option<ExitStatus>,
}

impl Seen {
    fn new(size: PtySize) -> Self {
        let [rows, columns] = counts(size);
        Self { parser: vt100::Parser::new(rows, columns, 0), bytes: Vec::new(), ended: false, exit: None }
    }
}

struct View {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl View {
    /// A test that failed while holding the lock has changed nothing.
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn watch(self: &Arc<Self>, mut reader: Box<dyn Read + Send>) {
        let view = self.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of a pseudo-terminal is an error on Linux and an empty read elsewhere; both end the loop.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                view.change(|seen| {
                    seen.bytes.extend_from_slice(&buffer[..length]);
                    seen.parser.process(&buffer[..length]);
                });
            }
            view.change(|seen| seen.ended = true);
        });
    }
}
