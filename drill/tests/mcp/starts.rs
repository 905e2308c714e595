//! M1 to M5 and M8 to M11: servers that end, and servers that never start.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bob_messages::chat::CallStatus;
use bob_messages::options::{CommandSpec, ServerStart, ServerTransport};
use rustix::process::{Resource, Rlimit, Signal};
use serde_json::json;

use crate::fixture::{Fixture, family, percentile};
use crate::process::{held, is_flat, is_gone, is_run_elsewhere, lives, living, signal, soon, until, zombies};
use crate::stopwatch::Stopwatch;

/// How long a test repeats its fault.
const FOR: Duration = Duration::from_secs(12);

/// Goal: every call in flight is answered within 100 ms of the kill (p99), the next one succeeds within 2 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m1_a_server_that_is_killed_during_calls_is_noticed_at_once() {
    const ROUNDS: usize = 40;
    let fixture = Fixture::new();
    let mut server = fixture.ready("mine", &[]).await;
    let _other = fixture.ready("other", &[]).await;
    let beside = fixture.begin("other/sleep", json!({ "ms": 100 }), 60_000).await.unwrap();
    let (mut noticed, mut back, mut arrived) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        let mut calls = Vec::new();
        for _ in 0..5 {
            calls.push(fixture.begin("mine/sleep", json!({ "ms": 60_000 }), 60_000).await.unwrap());
        }
        // Some rounds hit the calls on their way, some after they have arrived.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..20))).await;
        let killed = Stopwatch::start();
        signal(fixture.pid("mine"), Signal::KILL);
        for call in calls {
            let returned = soon(call).await.unwrap();
            noticed.push(killed.elapsed());
            let said = returned.output.plain();
            match returned.status {
                CallStatus::Unknown => assert!(said.contains("outcome unknown"), "round {round}: {said}"),
                // It had not been written to the server yet.
                CallStatus::Cancelled => assert!(said.contains("not run"), "round {round}: {said}"),
                other => panic!("round {round}: {other:?}, {said}"),
            }
            arrived += usize::from(returned.status == CallStatus::Unknown);
        }
        // Called before the successor was started.
        let asked = fixture.perform("mine/echo", json!({ "text": "again" }), 60_000);
        let restarted = async {
            server.end().await;
            server.start_again().await;
        };
        let (returned, ()) = tokio::join!(asked, restarted);
        assert_eq!(returned.status, CallStatus::Ok, "{returned:?}");
        back.push(killed.elapsed());
    }
    assert_eq!(soon(beside).await.unwrap().status, CallStatus::Ok);
    assert_eq!((server.spawns(), fixture.status("other").restarts), (ROUNDS + 1, 0));
    fixture.is_well("other").await;
    assert!(arrived > 0, "none of the calls was on its way");
    let (p99, next) = (percentile(noticed.clone(), 99), percentile(back, 100));
    println!(
        "figure: M1 {} calls told in {:?} (p50), {p99:?} (p99); next call ok in {next:?} (worst)",
        noticed.len(),
        percentile(noticed, 50)
    );
    assert!(p99 < Duration::from_millis(300) && next < Duration::from_secs(6), "{p99:?} {next:?}");
}

/// Goal: no process of the server's group 5 s after the stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_grandchildren_go_with_their_server() {
    let fixture = Fixture::new();
    for modes in [
        &["--mode", "launcher"][..],
        &["--mode", "ignore-term"],
        &["--mode", "grandchild"],
        &["--mode", "launcher", "--mode", "grandchild"],
        &["--mode", "ignore-term", "--mode", "grandchild"],
    ] {
        let server = fixture.ready("mine", modes).await;
        let group = fixture.pid("mine");
        let has_family = modes.contains(&"grandchild");
        until("its family is there", || !has_family || family(&server).len() == 3).await;
        let stopped = Stopwatch::start();
        server.watched.actor.stop(None);
        let took = until("its group is gone", || is_gone(group)).await;
        println!("figure: M2 {modes:?} gone in {took:?}");
        assert!(stopped.elapsed() < Duration::from_secs(15), "{modes:?}: {took:?}");
        assert_eq!(family(&server), [], "{modes:?}");
        fixture.is_empty().await;
        std::fs::remove_file(&server.log).unwrap();
    }
}

/// A process in its own session is out of reach, which is a known limit; all others end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_a_process_that_left_the_group_holds_nothing_up() {
    let fixture = Fixture::new();
    let server = fixture.ready("mine", &["--mode", "grandchild-setsid"]).await;
    let group = fixture.pid("mine");
    until("its family is there", || family(&server).len() == 3).await;
    server.watched.actor.stop(None);
    let took = until("its group is gone", || is_gone(group)).await;
    assert!(took < Duration::from_secs(15), "{took:?}");
    let left = family(&server);
    for (_, pid) in &left {
        signal(*pid, Signal::KILL);
    }
    let far: BTreeSet<u64> = left.iter().map(|(level, _)| *level).collect();
    println!("figure: M2 setsid: {} left", far.len());
    assert!(far.is_subset(&BTreeSet::from([3])), "{far:?}");
}

/// Goal: no zombie at any sample, descriptors and threads flat, give or take five.
#[test]
fn m3_servers_that_end_are_reaped() {
    if !is_run_elsewhere("starts::m3_servers_that_end_are_reaped") {
        repeat(&["init-exit", "exit-init=1", "crash", "kill"], "M3");
    }
}

/// Goal: no process is left of any try.
#[test]
fn m5_a_handshake_that_fails_leaves_nothing() {
    if !is_run_elsewhere("starts::m5_a_handshake_that_fails_leaves_nothing") {
        repeat(&["junk-init", "error-init", "wrong-protocol", "exit-init", "protocol-echo", "silent-list"], "M5");
    }
}

/// Starts servers that end in these ways, four at a time, until the time is over; then nothing may be left of them.
fn repeat(ways: &[&'static str], row: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new();
        for way in ways {
            end_once(&fixture, "warm", way).await;
        }
        fixture.is_empty().await;
        // All see that its children are gone once they were reaped.
        until("nobody is a zombie", || zombies() == 0).await;
        let (before, began) = (held(), Instant::now());
        let (mut ends, mut samples, mut longest) = (0, 0, Duration::ZERO);
        while began.elapsed() < FOR || ends < 40 {
            let ids: Vec<String> = (0..4).map(|lane| format!("lane{lane}")).collect();
            let lanes = ids.iter().enumerate().map(|(lane, id)| end_once(&fixture, id, ways[(ends + lane) % ways.len()]));
            futures_util::future::join_all(lanes).await;
            ends += ids.len();
            fixture.is_empty().await;
            samples += 1;
            // One that was killed this moment is reaped the next.
            longest = longest.max(until("nobody is a zombie", || zombies() == 0).await);
        }
        until("descriptors and threads are as before", || is_flat(before, held())).await;
        let now = held();
        println!("figure: {row} {ends} ends, no zombie in {samples} samples, the last reaped within {longest:?}; (fds, threads) {before:?} then {now:?}");
        assert!(longest < Duration::from_secs(1), "{longest:?} {ends}");
    });
}

async fn end_once(fixture: &Fixture, id: &str, way: &str) {
    let mode = if matches!(way, "crash" | "kill" | "protocol-echo") { "healthy" } else { way };
    let startup_timeout_ms = if matches!(way, "junk-init" | "silent-list") { 300 } else { 20_000 };
    let mut server = fixture.join_as(id, &["--mode", mode], |spec| spec.startup_timeout_ms = startup_timeout_ms).await;
    match way {
        "crash" => {
            let crashed = fixture.perform(&format!("{id}/crash"), json!({}), 60_000).await;
            assert_eq!(crashed.status, CallStatus::Unknown);
        }
        "kill" => {
            fixture.until_ready(id).await;
            signal(fixture.pid(id), Signal::KILL);
        }
        "protocol-echo" => {
            fixture.until_ready(id).await;
            server.watched.actor.stop(None);
        }
        _ => {}
    }
    let end = server.end().await;
    assert!(way == "protocol-echo" || end.contains(&format!("the tool server `{id}`")), "{way}: {end}");
    server.retire();
}

/// Goal: never more processes than servers, plus one that is on its way out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m4_a_successor_waits_for_the_end_of_its_predecessor() {
    let fixture = Fixture::new();
    let mut server = fixture.ready("mine", &[]).await;
    let (began, mut rounds, mut most, mut samples) = (Instant::now(), 0, 0, 0);
    while began.elapsed() < FOR {
        let before = fixture.pid("mine");
        match rounds % 2 {
            0 => server.watched.actor.kill(),
            _ => server.watched.actor.stop(None),
        }
        server.start_again().await;
        let (mut changes, mut first) = (fixture.registry.changes(), true);
        while fixture.status("mine").pid == Some(before) || std::mem::take(&mut first) {
            let count = living(fixture.folder.path()).len();
            (most, samples) = (most.max(count), samples + 1);
            let _or_look_again = tokio::time::timeout(Duration::from_millis(1), changes.changed()).await;
        }
        assert!(!lives(before), "the old one lives beside the new one");
        fixture.is_well("mine").await;
        rounds += 1;
    }
    println!("figure: M4 {rounds} replacements, at most {most} processes in {samples} samples");
    assert!(most <= 2 && rounds >= 20, "{most} {rounds}");
    assert_eq!(server.spawns(), rounds + 1);
}

/// Goal: one start for all callers; they succeed or fail together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m8_a_thousand_sessions_start_a_server_once() {
    let fixture = Fixture::new();
    // One that refuses the question for its version and ends is started once more, without the question. All have asked
    // before it ends: later ones would wait for another start.
    let slow = ["--mode", "slow-start=200"];
    let broken = [slow, ["--mode", "exit-init=3"]].concat();
    for (id, modes, is_well, spawns) in [("cold", slow.to_vec(), true, 1), ("broken", broken, false, 2)] {
        let server = fixture.join_as(id, &modes, |spec| spec.start = ServerStart::Lazy).await;
        assert_eq!(server.spawns(), 0);
        let tool = format!("{id}/echo");
        let asked = (0..1_000).map(|number| {
            let (fixture, tool) = (&fixture, &tool);
            async move {
                let text = format!("{number}");
                match fixture.begin(tool, json!({ "text": text }), 60_000).await {
                    Ok(begun) => soon(begun).await.unwrap().output.plain() == text,
                    Err(complaint) => {
                        assert!(complaint.starts_with("not run: "), "{complaint}");
                        false
                    }
                }
            }
        });
        let answers = futures_util::future::join_all(asked).await;
        assert_eq!(answers.iter().filter(|is_ok| **is_ok == is_well).count(), 1_000, "{id}");
        assert_eq!(server.spawns(), spawns, "{id}");
    }
}

/// The message names the server, the command and the reason; other servers are not affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m9_a_command_that_cannot_be_started_says_why() {
    let fixture = Fixture::new();
    let _other = fixture.ready("other", &[]).await;
    let text = fixture.folder.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let missing = fixture.folder.path().join("no-such-program");
    for (program, folder, why) in
        [(missing.clone(), None, "ENOENT"), (text, None, "EACCES"), ("sh".into(), Some(missing), "folder")]
    {
        let mut server = fixture
            .join_as("mine", &[], |spec| {
                let command = program.to_string_lossy().into_owned();
                spec.transport = ServerTransport::Stdio(CommandSpec { command, args: vec![], env: vec![], folder });
            })
            .await;
        let end = server.end().await;
        assert!(end.contains("the tool server `mine` does not start") && end.contains(why), "{why}: {end}");
        assert!(end.contains(&*program.to_string_lossy()), "{end}");
    }
    fixture.is_well("other").await;
}

#[test]
fn m9_without_descriptors_nothing_starts_and_nothing_breaks() {
    if is_run_elsewhere("starts::m9_without_descriptors_nothing_starts_and_nothing_breaks") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new();
        let _other = fixture.ready("other", &[]).await;
        let whole = rustix::process::getrlimit(Resource::Nofile);
        let few = Rlimit { current: Some(held().0 as u64), ..whole };
        rustix::process::setrlimit(Resource::Nofile, few).unwrap();
        let mut server = fixture.join("mine", &[]).await;
        let end = server.end().await;
        assert!(end.contains("the tool server `mine` does not start") && end.contains("EMFILE"), "{end}");
        fixture.is_well("other").await;
        rustix::process::setrlimit(Resource::Nofile, whole).unwrap();
        server.start_again().await;
        fixture.is_well("mine").await;
    });
}

/// Goal: no process is left 5 s after the runtime ended during calls.
#[test]
fn m10_a_runtime_that_is_dropped_takes_its_servers_along() {
    for mode in ["healthy", "ignore-term", "grandchild", "launcher"] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (fixture, server, group, call) = runtime.block_on(async {
            let fixture = Fixture::new();
            let server = fixture.ready("mine", &["--mode", mode]).await;
            let call = fixture.begin("mine/sleep", json!({ "ms": 60_000 }), 60_000).await.unwrap();
            until("its family is there", || mode != "grandchild" || family(&server).len() == 3).await;
            let group = fixture.pid("mine");
            (fixture, server, group, call)
        });
        let dropped = Stopwatch::start();
        runtime.shutdown_background();
        let last = Instant::now() + Duration::from_secs(60);
        while !is_gone(group) {
            assert!(Instant::now() < last, "{mode}: its group is still there");
            std::thread::sleep(Duration::from_millis(2));
        }
        dropped.assert_within(Duration::from_secs(15), mode);
        println!("figure: M10 {mode}: gone in {:?}", dropped.elapsed());
        assert_eq!((family(&server), living(fixture.folder.path())), (vec![], vec![]), "{mode}");
        drop(call);
    }
}

/// The end of the thread that started a server is not the server's end.
#[test]
fn m11_a_server_outlives_the_thread_that_started_it() {
    let begun = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let fixture = runtime.block_on(async {
            let fixture = Fixture::new();
            let server = fixture.ready("mine", &[]).await;
            (fixture, server)
        });
        (runtime, fixture)
    });
    let (runtime, (fixture, server)) = begun.join().unwrap();
    runtime.block_on(async {
        let pid = fixture.pid("mine");
        // Another thread of the machine has had its turn many times by then.
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(lives(pid));
        }
        fixture.is_well("mine").await;
        assert_eq!((fixture.pid("mine"), server.spawns()), (pid, 1));
    });
}
