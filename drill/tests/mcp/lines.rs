//! M13 to M15: other output of a server.

use std::process::Command;
use std::time::Duration;

use bob_messages::chat::CallStatus;
use bob_messages::mcp::ServerState;
use rustix::process::Signal;
use serde_json::json;

use crate::fixture::Fixture;
use crate::process::{is_run_elsewhere, memory, signal, soon};
use crate::stopwatch::Stopwatch;

/// The longest line that is taken, MiB.
const CAP_MIB: usize = 64;

/// The kinds of garbage, and whether each corrupts the following response.
fn kinds() -> Vec<(String, bool)> {
    let listed = Command::new(env!("CARGO_BIN_EXE_drill-server")).arg("--list-garbage").output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let kind = |line: &str| (line.split(' ').next().unwrap().to_owned(), line.contains("(damages the answer)"));
    text.lines().map(kind).collect()
}

/// An answer under the text of the question's number is taken for the answer, which it is not.
const MISTAKEN: &str = "text-id";

/// After any garbage on stdout, the next call is answered. Only a corrupted response may be lost, with an error; what is taken
/// for the answer and is none leaves the outcome unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m13_garbage_harms_no_call_but_the_one_whose_answer_it_damages() {
    let kinds = kinds();
    assert!(kinds.len() >= 25);
    let fixture = Fixture::new();
    let mut lost = Vec::new();
    for (kind, is_damaged) in &kinds {
        let garbage = ["--garbage", kind, "--garbage-on", "tools/call", "--garbage-times", "1"];
        let server = fixture.ready("mine", &garbage).await;
        let limit_ms = if *is_damaged { 700 } else { 30_000 };
        let first = fixture.perform("mine/echo", json!({ "text": "first" }), limit_ms).await;
        if first.status != CallStatus::Ok {
            assert!(*is_damaged || kind == MISTAKEN, "{kind}: {first:?}");
            let expected = if kind == MISTAKEN { CallStatus::Unknown } else { CallStatus::Error };
            assert_eq!(first.status, expected, "{kind}");
            lost.push(kind.as_str());
        }
        fixture.is_well("mine").await;
        assert_eq!(server.spawns(), 1, "{kind}");
        server.watched.actor.stop(None);
        fixture.is_empty().await;
        std::fs::remove_file(&server.log).unwrap();
    }
    println!("figure: M13 {} kinds, the next call well after each; answers lost: {lost:?}", kinds.len());
}

/// Garbage before every response, from the handshake on: also a response with an unknown id before the first one, and
/// an error without an id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m13_garbage_before_every_answer_is_passed_over() {
    let fixture = Fixture::new();
    for (kind, _) in kinds().into_iter().filter(|(kind, is_damaged)| !is_damaged && kind != MISTAKEN) {
        let server = fixture.join("mine", &["--garbage", &kind]).await;
        let begun = fixture.begin("mine/echo", json!({ "text": "x" }), 30_000).await;
        let begun = begun.unwrap_or_else(|complaint| panic!("{kind}: {complaint}"));
        assert_eq!(soon(begun).await.unwrap().output.plain(), "x", "{kind}");
        assert_eq!(server.spawns(), 1, "{kind}");
        server.watched.actor.stop(None);
        fixture.is_empty().await;
        std::fs::remove_file(&server.log).unwrap();
    }
}

/// Goal: memory grows by at most two lines of the maximum length. The call fails as soon as its line is too long, and
/// the connection stays.
#[test]
fn m14_a_line_without_end_fails_its_call_and_is_not_kept() {
    if is_run_elsewhere("lines::m14_a_line_without_end_fails_its_call_and_is_not_kept") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new();
        let _endless = fixture.ready("endless", &["--mode", "bigline=300000000"]).await;
        let pid = fixture.pid("endless");
        let (base, _) = memory();
        for round in 1..=2 {
            let began = Stopwatch::start();
            let returned = fixture.perform("endless/echo", json!({ "text": "x" }), 300_000).await;
            let (took, (_, peak)) = (began.elapsed(), memory());
            println!("figure: M14 call {round} failed in {took:?}, memory {base} MiB before, {peak} MiB at most");
            let text = returned.output.plain();
            assert!(
                text.contains("answered with a line of more than 67108864 bytes") && text.contains("has run"),
                "{text}"
            );
            assert_eq!(returned.status, CallStatus::Error);
            assert!(peak <= base + 2 * CAP_MIB, "{base} {peak}");
        }
        let status = fixture.status("endless");
        assert_eq!((status.state, status.pid), (ServerState::Ready, Some(pid)));
    });
}

/// Goal: the call works, and of 100 MB on stderr 64 KiB are kept, of which an error shows a few lines.
#[test]
fn m15_a_server_that_talks_on_stderr_is_drained() {
    if is_run_elsewhere("lines::m15_a_server_that_talks_on_stderr_is_drained") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new();
        let mut server = fixture.ready("mine", &["--mode", "stderr-flood=100000000"]).await;
        let (base, _) = memory();
        let began = Stopwatch::start();
        fixture.is_well("mine").await;
        let took = began.elapsed();
        let (_, peak) = memory();
        println!("figure: M15 100 MB drained in {took:?}, memory {base} MiB before, {peak} MiB at most");
        assert!(took < Duration::from_secs(60) && peak <= base + 16, "{took:?} {base} {peak}");
        signal(fixture.pid("mine"), Signal::KILL);
        let end = server.end().await;
        assert!(end.contains("last output: xxx") && end.len() < 6 * 1024, "{}", end.len());
    });
}
