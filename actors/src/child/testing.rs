//! Support for tests of children: deadlines, and the process table.

use super::{Child, Watcher};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, BufReader};

/// How long any one wait of a test may take; nothing here waits that long by plan.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Waits with the deadline.
#[track_caller]
pub(crate) fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let in_time = tokio::time::timeout(DEADLINE, future).await;
        in_time.unwrap_or_else(|_| panic!("nothing within {DEADLINE:?}, waited for at {caller}"))
    }
}

/// Waits until a claim about the world holds; for facts that send no event.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "waited {DEADLINE:?} until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The next line of a piped stdout.
pub(crate) async fn next_line(child: &mut Child) -> String {
    let stdout = child.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    loop {
        match soon(stdout.read_u8()).await {
            Ok(b'\n') => return String::from_utf8(line).unwrap(),
            Ok(byte) => line.push(byte),
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&line)),
        }
    }
}

/// Everything a child writes to a piped stdout.
pub(crate) async fn all_lines(child: &mut Child) -> Vec<String> {
    let mut text = String::new();
    soon(BufReader::new(child.take_stdout().unwrap()).read_to_string(&mut text)).await.unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Waits until no process of a group is alive. A zombie is dead: grandchildren are reaped by the first process of the
/// machine, at its leisure.
pub(crate) async fn group_is_gone(group: i32) {
    until(&format!("group {group} is gone"), || processes().iter().all(|p| p.group != group || p.is_zombie)).await;
}

/// Writes a file that can be run, in a process of its own: a program that another thread starts meanwhile would have a
/// copy of our descriptor for a moment, and a file that somebody has open for writing cannot be run ("text file busy").
pub(crate) fn write_program(path: &Path, content: &[u8]) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(path).stdin(Stdio::piped());
    let mut writer = shell.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(content).unwrap();
    assert!(writer.wait().unwrap().success());
}

pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) is_zombie: bool,
}

/// The process table, as `ps` shows it.
pub(crate) fn processes() -> Vec<Process> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,ppid=,pgid=,stat="]).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let row = |line: &str| {
        let mut fields = line.split_whitespace();
        let mut number = || fields.next()?.parse().ok();
        let (pid, parent, group) = (number()?, number()?, number()?);
        Some(Process { pid, parent, group, is_zombie: fields.next()?.starts_with('Z') })
    };
    text.lines().filter_map(row).collect()
}

/// Runs one test again in a separate process and propagates its result. Returns `None` in the original test and
/// `Some` in the separate process.
pub(crate) fn in_own_process(test: &str) -> Option<()> {
    if is_own_process() {
        return Some(());
    }
    let output = own_process(test).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    None
}

/// Whether this process was started for one test.
pub(crate) fn is_own_process() -> bool {
    std::env::var_os(OWN_PROCESS).is_some()
}

const OWN_PROCESS: &str = "BOB_TEST_OWN_PROCESS";

/// This test program, which runs only one test.
pub(crate) fn own_process(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(OWN_PROCESS, "1").stdin(Stdio::null());
    command
}

/// How many descriptors are open once every child is reaped and every drain has
/// ended; fails when a child stays a zombie.
#[cfg(target_os = "linux")]
pub(crate) async fn settled_descriptors(watcher: &Watcher) -> usize {
    assert!(watcher.idle(DEADLINE).await);
    let us = i32::try_from(std::process::id()).unwrap();
    until("no child is left", || {
        let watched = watcher.id().and_then(|pid| i32::try_from(pid).ok());
        // `ps` itself is a child of ours, and a living one.
        !processes().iter().any(|p| p.parent == us && Some(p.pid) != watched && p.is_zombie)
    })
    .await;
    let mut count = usize::MAX;
    until("the number of descriptors is steady", || {
        let now = std::fs::read_dir("/proc/self/fd").unwrap().count();
        std::mem::replace(&mut count, now) == now
    })
    .await;
    count
}
