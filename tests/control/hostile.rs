//! Clients that send nonsense, too much, or nothing, and that do not read: they are disconnected, without an effect
//! on others.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control::far::{Far, LONG, batch, node, runs, socket};
use crate::control::lines::home;
use crate::support::stopwatch::Stopwatch;

fn refused(answer: &Value) -> &str {
    assert_eq!(answer["answer"]["type"], "refused", "{answer}");
    answer["answer"]["kind"].as_str().expect("a kind")
}

#[test]
fn nonsense_is_answered_and_the_connection_goes_on() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall")]);
    let (mut far, _) = Far::connect(&home, running.pid());
    let deep = "[".repeat(50_000);
    let cases = [
        ("", "invalid"),
        ("hello", "invalid"),
        ("{}", "invalid"),
        ("\u{1b}[31m\u{0}", "invalid"),
        (deep.as_str(), "invalid"),
        (r#"{"v":1,"id":3,"ask":{"type":"explode"}}"#, "invalid"),
        (r#"{"v":2,"id":3,"ask":{"type":"look"}}"#, "version"),
        (r#"{"v":3,"id":3,"ask":["something","else"]}"#, "version"),
        (r#"{"v":1,"id":3,"ask":{"type":"cancel","session":"../../etc"}}"#, "invalid"),
        (r#"{"v":1,"id":3,"ask":{"type":"restart_server","server":"\u001b[2J"}}"#, "not_found"),
    ];
    for (line, kind) in cases {
        far.write(line).expect("a process that reads");
        let answer = far.read().expect("an answer");
        assert_eq!(refused(&answer), kind, "{line:.60}: {answer}");
        assert!(!answer.to_string().contains('\u{1b}'));
    }
    // A line that comes in pieces is one line.
    far.stream.write_all(b"{\"v\":1,\"id\":9,").expect("a process that reads");
    far.stream.write_all(b"\"ask\":{\"type\":\"look\",\"odd\":1}}\n").expect("a process that reads");
    assert_eq!(far.read().expect("an answer")["id"], 9);
    // A client that disconnects within a line is harmless.
    far.stream.write_all(b"{\"v\":1,").expect("a process that reads");
    drop(far);
    assert_eq!(home.run(["cancel", "alpha"]).code, Some(0));
    running.finish();
}

#[test]
fn a_line_of_ten_megabytes_is_the_last_of_its_connection() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall")]);
    let (mut far, _) = Far::connect(&home, running.pid());
    let before = far.look()["process"]["rss_bytes"].as_u64().expect("a figure");
    let mut writer = far.stream.try_clone().expect("a second handle");
    // The process hangs up long before its end.
    let writing = std::thread::spawn(move || writer.write_all("x".repeat(10 << 20).as_bytes()).is_err());
    if let Some(answer) = far.read() {
        assert_eq!(refused(&answer), "too_long");
        assert!(far.read().is_none(), "it hangs up");
    }
    assert!(writing.join().expect("no panic"), "nobody reads it to its end");
    let (mut next, _) = Far::connect(&home, running.pid());
    let after = next.look()["process"]["rss_bytes"].as_u64().expect("a figure");
    assert!(after < before + (8 << 20), "{before} {after}");
    assert_eq!(home.run(["cancel", "alpha"]).code, Some(0));
    running.finish();
}

#[test]
fn who_does_not_read_is_let_go_and_slows_nobody() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall")]);
    let (mut stalled, _) = Far::connect(&home, running.pid());
    let (mut other, _) = Far::connect(&home, running.pid());
    let question = json!({ "v": 1, "id": 1, "ask": { "type": "look" } }).to_string();
    stalled.stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a time limit");
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    // It sends requests without reading; then it is no longer read, and its connection ends.
    loop {
        assert!(began.elapsed() < LONG, "it is never let go");
        match stalled.write(&question) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_hung_up) => break,
        }
        let asked = Stopwatch::start();
        other.look();
        slowest = slowest.max(asked.assert_within(Duration::from_secs(2), "a look beside it"));
    }
    println!("figure: let go after {:?}; the slowest look beside it {slowest:?}", began.elapsed());
    assert_eq!(home.run(["cancel", "alpha"]).code, Some(0));
    running.finish();
}

#[test]
fn a_crowd_is_turned_away_and_turns_go_on() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall"), ("beta", "slow")]);
    let path = socket(&home, running.pid());
    let (mut first, _) = Far::connect(&home, running.pid());
    let crowd: Vec<_> = (0..200).filter_map(|_| UnixStream::connect(&path).ok()).collect();
    let look = first.until("the slow one has ended", |look| look["metrics"]["turns"]["final"] == 2 && runs(1)(look));
    assert!(node(&look, "sessions/alpha").is_some());
    assert!(look["process"]["files"].as_u64().is_some_and(|files| files < 150), "{}", look["process"]);
    drop(crowd);
    // After they are gone, new connections are accepted.
    let began = Instant::now();
    while home.run(["cancel", "alpha"]).code != Some(0) {
        assert!(began.elapsed() < LONG);
    }
    running.finish();
}
