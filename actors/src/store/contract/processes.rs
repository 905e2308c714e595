//! The rules that need a second process: the test program runs itself again, and is
//! paused while it owns a session. Those for which it is killed are beside this file. A rule
//! that is broken, and a process that cannot be started, panics: the test fails there.

use super::owners::{Open, busy, enter};
use super::{append, claim, session, store_one, stored};
use bob_messages::store::StoreError;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where the second process finds its folder; only there it is set.
const FOLDER: &str = "BOB_TEST_STORE_FOLDER";

/// The folder of this process, if it is the second one.
pub(super) fn given() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs only this test of the same program, with this folder.
pub(super) fn second(test: &str, folder: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    start(Command::new(std::env::current_exe().expect("a test has a program")), test, folder)
}

pub(super) fn start(mut program: Command, test: &str, folder: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let name = test.split_once("::").map_or(test, |(_program, path)| path);
    let mut child = program
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be run again");
    let told = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    (child, told)
}

/// What it tells behind this word, on a line of its own.
pub(super) fn told<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.strip_prefix(word)?.strip_prefix(' ')
}

pub(super) fn tell(what: &str) {
    // The first line is the harness's own, without an end.
    writeln!(std::io::stdout(), "\n{what}").expect("the first process reads");
}

/// An owner that is paused lives; once its session was taken over it writes nothing
/// when it goes on, and is told.
pub async fn a_paused_owner_is_busy_and_fenced_when_it_goes_on(test: &str, folder: &Path, open: Open) {
    if let Some(folder) = given() {
        return write_when_told(&folder, open).await;
    }
    let one = session("one");
    let (mut ann, mut lines) = second(test, folder);
    let mut hear = |word: &str| {
        let mut heard = lines.by_ref().map_while(Result::ok);
        heard.find_map(|line| told(&line, word).map(str::to_owned)).expect("it says the word before it ends")
    };
    assert_eq!(hear("stored"), "Ok(1)");
    let pid = Pid::from_child(&ann);
    kill_process(pid, Signal::STOP).expect("it can be paused");
    let paused = waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is our child").expect("it is waited for");
    assert!(paused.1.stopped(), "it is paused and not gone");
    let ben = enter(folder, open, "ben", false);
    assert_eq!(ben.claim(&one).await, Err(busy("ann")));
    let cyd = enter(folder, open, "cyd", true);
    let claimed = cyd.claim(&one).await.expect("it is taken over");
    let epoch = claimed.epoch;
    assert_eq!(claimed.version, 1);
    assert_eq!(store_one(&cyd, append(&one, epoch, 1, 1)).await, Ok(2));
    kill_process(pid, Signal::CONT).expect("it can be resumed");
    writeln!(ann.stdin.take().expect("it is piped"), "go on").expect("it reads");
    assert_eq!(hear("stored"), format!("{:?}", Err::<u64, _>(StoreError::Fenced { epoch })));
    assert_eq!(hear("claimed"), format!("{:?}", Err::<u64, _>(busy("cyd"))));
    assert!(ann.wait().expect("it ends").success());
    assert_eq!(stored(&ben, &one).await.len(), 2, "it wrote nothing");
    assert_eq!(store_one(&cyd, append(&one, epoch, 2, 1)).await, Ok(3));
}

async fn write_when_told(folder: &Path, open: Open) {
    let (ann, one) = (enter(folder, open, "ann", false), session("one"));
    let epoch = claim(&ann, &one).await;
    tell(&format!("stored {:?}", store_one(&ann, append(&one, epoch, 0, 1)).await));
    std::io::stdin().read_line(&mut String::new()).expect("it is told to go on");
    tell(&format!("stored {:?}", store_one(&ann, append(&one, epoch, 1, 1)).await));
    tell(&format!("claimed {:?}", ann.claim(&one).await.map(|claimed| claimed.epoch)));
}
