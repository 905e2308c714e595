//! The rules that need a second process: the test program runs itself again, and is
//! killed or paused while it writes.

use super::owners::{Open, busy, enter};
use super::{append, claim, session, store_one, stored};
use bob_messages::store::StoreError;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the second process finds its folder; only there it is set.
const FOLDER: &str = "BOB_TEST_STORE_FOLDER";
const SESSIONS: u64 = 4;
const ROUNDS: usize = 25;

/// The folder of this process, if it is the second one.
fn given() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs only this test of the same program, with this folder.
fn second(test: &str, folder: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let name = test.split_once("::").map_or(test, |(_program, path)| path);
    let mut child = Command::new(std::env::current_exe().expect("a test has a program"))
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
fn told<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.strip_prefix(word)?.strip_prefix(' ')
}

fn tell(what: &str) {
    // The first line is the harness's own, without an end.
    writeln!(std::io::stdout(), "\n{what}").expect("the first process reads");
}

/// Every acknowledged append is there after a kill at a random moment, whole and in
/// order. `examine` looks at the folder after each.
pub async fn s1_what_was_acknowledged_survives_a_kill_at_any_time(
    test: &str,
    folder: &Path,
    open: Open,
    examine: fn(&Path),
) {
    if let Some(folder) = given() {
        return write_until_killed(&folder, open).await;
    }
    let mut acknowledged: HashMap<String, usize> = HashMap::new();
    for round in 0..ROUNDS {
        let (mut writer, mut lines) = second(test, folder);
        // The first answer shows that it writes; then it has some moments left.
        let left = Duration::from_micros(fastrand::u64(0..20_000));
        let mut deadline = None;
        let mut note = |line: &str| {
            let stored = told(line, "stored").and_then(|stored| stored.split_once(' '));
            if let Some((one, version)) = stored {
                acknowledged.insert(one.to_owned(), version.parse().expect("it tells a version"));
            }
            stored.is_some()
        };
        for line in lines.by_ref().map_while(Result::ok) {
            if note(&line) && Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + left) {
                break;
            }
        }
        writer.kill().expect("it can be killed");
        for line in lines.map_while(Result::ok) {
            note(&line);
        }
        writer.wait().expect("it ends");
        assert!(deadline.is_some(), "the writer wrote in round {round}");
        let reader = enter(folder, open, "reader", false);
        for (one, version) in &acknowledged {
            let there = stored(&reader, &session(one)).await.len();
            assert!((*version..=version + 3).contains(&there), "round {round}: {one} has {there} of {version}");
        }
        drop(reader);
        examine(folder);
    }
}

/// The life of the process that is killed: it tells each append that was answered.
async fn write_until_killed(folder: &Path, open: Open) {
    let store = enter(folder, open, &format!("writer {}", std::process::id()), false);
    let mut owned = Vec::new();
    for index in 0..SESSIONS {
        let one = session(&format!("s{index}"));
        let claimed = store.claim(&one).await.expect("its last owner is dead");
        owned.push((one, claimed.epoch, claimed.version));
    }
    loop {
        let batch = owned.iter().map(|(one, epoch, version)| append(one, *epoch, *version, 3));
        let answers = store.append(batch.collect()).await;
        for ((one, _, version), answer) in owned.iter_mut().zip(answers) {
            *version = answer.expect("it is stored");
            tell(&format!("stored {one} {version}"));
        }
    }
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
    assert_eq!((claimed.epoch, claimed.version), (2, 1));
    assert_eq!(store_one(&cyd, append(&one, 2, 1, 1)).await, Ok(2));
    kill_process(pid, Signal::CONT).expect("it can be resumed");
    writeln!(ann.stdin.take().expect("it is piped"), "go on").expect("it reads");
    assert_eq!(hear("stored"), format!("{:?}", Err::<u64, _>(StoreError::Fenced { epoch: 2 })));
    assert_eq!(hear("claimed"), format!("{:?}", Err::<u64, _>(busy("cyd"))));
    assert!(ann.wait().expect("it ends").success());
    assert_eq!(stored(&ben, &one).await.len(), 2, "it wrote nothing");
    assert_eq!(store_one(&cyd, append(&one, 2, 2, 1)).await, Ok(3));
}

async fn write_when_told(folder: &Path, open: Open) {
    let (ann, one) = (enter(folder, open, "ann", false), session("one"));
    let epoch = claim(&ann, &one).await;
    tell(&format!("stored {:?}", store_one(&ann, append(&one, epoch, 0, 1)).await));
    std::io::stdin().read_line(&mut String::new()).expect("it is told to go on");
    tell(&format!("stored {:?}", store_one(&ann, append(&one, epoch, 1, 1)).await));
    tell(&format!("claimed {:?}", ann.claim(&one).await.map(|claimed| claimed.epoch)));
}
