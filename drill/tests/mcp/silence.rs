//! M6, M16 and M18: servers that live and do not answer.

use std::time::Duration;

use bob_messages::chat::CallStatus;
use bob_messages::mcp::ServerState;
use bob_messages::reply::Reply;
use rustix::process::Signal;
use serde_json::json;

use crate::fixture::Fixture;
use crate::process::{is_gone, signal, soon, until};
use crate::stopwatch::Stopwatch;

/// The limit of a call here, milliseconds.
const LIMIT_MS: u64 = 500;

/// Goal: a call ends at its limit plus 250 ms.
const ENDS_WITHIN: Duration = Duration::from_millis(3 * (LIMIT_MS + 250));

/// Makes a call that gets no answer in time; fails unless its limit holds.
async fn ends_at_its_limit(fixture: &Fixture, tool: &str, arguments: serde_json::Value) -> Duration {
    let begun = fixture.begin(tool, arguments, LIMIT_MS).await.unwrap();
    let began = Stopwatch::start();
    let returned = soon(begun).await.unwrap();
    let (took, wall) = (began.elapsed(), began.wall());
    assert_eq!(returned.status, CallStatus::Error);
    assert!(returned.output.plain().contains("timed out after 500 ms"), "{returned:?}");
    assert!(wall >= Duration::from_millis(LIMIT_MS - 5) && took < ENDS_WITHIN, "{tool}: {took:?} of {wall:?}");
    took
}

/// Goal: a start ends at its limit plus 250 ms, whatever the server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_a_start_ends_at_its_limit() {
    let fixture = Fixture::new();
    for mode in ["silent-init", "silent-list", "late-init=162000", "slow-start=162000", "junk-init", "deaf"] {
        let began = Stopwatch::start();
        let mut server = fixture.join_as("mine", &["--mode", mode], |spec| spec.startup_timeout_ms = LIMIT_MS).await;
        let end = server.end().await;
        let took = began.elapsed();
        println!("figure: M6 {mode}: a start of {LIMIT_MS} ms at most ended in {took:?}");
        assert!(end.contains("was not ready within 500 ms"), "{mode}: {end}");
        assert!(took < ENDS_WITHIN, "{mode}: {took:?}");
        fixture.is_empty().await;
    }
}

/// Goal: the prompt is ready within 500 ms while ten servers hang, and other tools can be used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_servers_that_hang_keep_nobody_waiting_but_a_first_turn() {
    let fixture = Fixture::new();
    let began = Stopwatch::start();
    let mut servers = Vec::new();
    for number in 0..10 {
        let id = format!("hung{number}");
        servers.push(fixture.join_as(&id, &["--mode", "silent-init"], |spec| spec.startup_timeout_ms = 4_000).await);
    }
    let statuses = fixture.registry.servers();
    let took = began.elapsed();
    println!("figure: M6 ten hung servers joined in {took:?}");
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    assert!(statuses.iter().all(|status| status.state == ServerState::Starting), "{statuses:?}");
    // A call of a tool of this server needs no list, which would wait for the others.
    let well = fixture.ready("well", &[]).await;
    fixture.is_well("well").await;
    let (reply, listed) = Reply::channel();
    fixture.registry.list(None, move |set| reply.send(set));
    assert_eq!(soon(listed).await.unwrap().tools().len(), 18);
    began.assert_within(Duration::from_secs(12), "all of them");
    for mut server in servers {
        assert!(server.end().await.contains("was not ready within"));
    }
    assert_eq!(well.spawns(), 1);
}

/// Goal: progress does not lengthen a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_a_call_ends_at_its_limit_whatever_progress_is_told() {
    let fixture = Fixture::new();
    for mode in ["progress-flood", "silent-call", "trickle=1000"] {
        let server = fixture.ready(&mode[..7], &["--mode", mode]).await;
        let took = ends_at_its_limit(&fixture, &format!("{}/echo", &mode[..7]), json!({ "text": "x" })).await;
        println!("figure: M6 {mode}: a call of {LIMIT_MS} ms at most ended in {took:?}");
        // The one that trickles reads nothing while it does.
        until("it is told", || mode.starts_with("trickle") || server.events("cancelled").len() == 1).await;
        server.watched.actor.stop(None);
    }
}

/// Goal: the timeout of a call holds, and a stop takes at most 5 s and leaves no process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m16_a_server_that_reads_nothing_delays_neither_calls_nor_the_stop() {
    let fixture = Fixture::new();
    for modes in [&["--mode", "spin"][..], &["--mode", "spin", "--mode", "ignore-term"]] {
        let server = fixture.ready("mine", modes).await;
        let group = fixture.pid("mine");
        // From this call on it reads nothing.
        ends_at_its_limit(&fixture, "mine/echo", json!({ "text": "x" })).await;
        // Much more than a pipe holds.
        ends_at_its_limit(&fixture, "mine/echo", json!({ "text": "x".repeat(1_000_000) })).await;
        ends_at_its_limit(&fixture, "mine/echo", json!({ "text": "behind it" })).await;
        server.watched.actor.stop(None);
        let took = until("its group is gone", || is_gone(group)).await;
        println!("figure: M16 {modes:?}: stopped in {took:?}");
        assert!(took < Duration::from_secs(15), "{took:?}");
        fixture.is_empty().await;
    }
}

/// Goal: limits as in M6; a server that continues is usable again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m18_a_server_that_is_halted_or_busy_delays_nobody() {
    let fixture = Fixture::new();
    let server = fixture.ready("mine", &[]).await;
    let group = fixture.pid("mine");
    signal(group, Signal::STOP);
    let took = ends_at_its_limit(&fixture, "mine/echo", json!({ "text": "x" })).await;
    println!("figure: M18 halted: a call of {LIMIT_MS} ms at most ended in {took:?}");
    signal(group, Signal::CONT);
    fixture.is_well("mine").await;
    signal(group, Signal::STOP);
    server.watched.actor.stop(None);
    let took = until("its group is gone", || is_gone(group)).await;
    println!("figure: M18 halted: stopped in {took:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");

    let busy = fixture.ready("busy", &["--mode", "spin"]).await;
    ends_at_its_limit(&fixture, "busy/echo", json!({ "text": "x" })).await;
    busy.watched.actor.stop(None);
    fixture.is_empty().await;
}
