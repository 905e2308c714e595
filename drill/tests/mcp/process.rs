//! The process table.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::stopwatch::Stopwatch;

use rustix::process::{Pid, Signal};

/// How long any one wait may take; nothing waits that long by plan.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits with the deadline.
#[track_caller]
pub(crate) fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let in_time = tokio::time::timeout(DEADLINE, future).await;
        in_time.unwrap_or_else(|_| panic!("nothing within {DEADLINE:?}, waited for at {caller}"))
    }
}

/// Waits until a condition holds that has no event. Returns how long that took.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let started = Stopwatch::start();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "waited {DEADLINE:?} until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    started.elapsed()
}

/// The fields of a process behind its name: its state, its parent, its group.
fn stat(pid: i32) -> Option<(char, i32, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Whether it runs: a zombie does not.
pub(crate) fn lives(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, ..)| state != 'Z')
}

fn all() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The live processes with this path in their command line.
pub(crate) fn living(marked: &Path) -> Vec<i32> {
    let mark = marked.to_string_lossy();
    let is_marked = |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| contains(&line, &mark));
    all().filter(|pid| is_marked(pid) && lives(*pid)).collect()
}

fn contains(line: &[u8], mark: &str) -> bool {
    line.windows(mark.len()).any(|window| window == mark.as_bytes())
}

/// Whether no process of this group is running.
pub(crate) fn is_gone(group: i32) -> bool {
    !all().any(|pid| stat(pid).is_some_and(|(state, _, of)| of == group && state != 'Z'))
}

/// Our children that ended and were not reaped.
pub(crate) fn zombies() -> usize {
    let us = i32::try_from(std::process::id()).unwrap();
    all().filter(|pid| stat(*pid).is_some_and(|(state, parent, _)| state == 'Z' && parent == us)).count()
}

/// Our open descriptors and our threads.
pub(crate) fn held() -> (usize, usize) {
    let count = |folder| fs::read_dir(folder).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Fails unless both counts are where they were, give or take five.
pub(crate) fn is_flat(before: (usize, usize), now: (usize, usize)) -> bool {
    before.0.abs_diff(now.0) <= 5 && before.1.abs_diff(now.1) <= 5
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The memory we hold now and the most we ever held, in MiB.
pub(crate) fn memory() -> (usize, usize) {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let field = |name| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Runs the test in a separate process and propagates its result. Returns `false` in that process.
pub(crate) fn is_run_elsewhere(test: &str) -> bool {
    const MARK: &str = "BOB_TEST_OWN_PROCESS";
    if std::env::var_os(MARK).is_some() {
        return false;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(MARK, "1").stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    said.lines().filter_map(|line| line.find("figure: ").map(|at| &line[at..])).for_each(|line| println!("{line}"));
    true
}
