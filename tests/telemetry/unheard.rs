//! Turns of a runtime whose receiver of telemetry is away, silent or slow take as long as turns without telemetry.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bob::model::ScriptedReply;
use bob::telemetry::{Telemetry, TelemetrySettings};
use bob::{AgentRequest, AgentRuntime, Runtime};

use crate::support::runtime::{build, scripted, within};
use crate::support::stopwatch::Stopwatch;

/// Turns of a round, one after the other. Each that waited for the receiver would take `PAUSE` or longer.
const TURNS: usize = 30;
const PAUSE: Duration = Duration::from_millis(100);
/// How many rounds there are at most, each without and with telemetry. One is enough that keeps the ratio: a wait for
/// the receiver is in all of them, and other load is not.
const ROUNDS: usize = 9;
const RATIO: f64 = 1.5;

/// An address at which the receiver behaves in this way.
fn receiver(behaves: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    match behaves {
        "away" => drop(listener),
        "silent" => keep(listener, |stream| {
            let _never_answered = std::io::copy(&mut { stream }, &mut std::io::sink());
        }),
        "slow" => keep(listener, answer_slowly),
        other => panic!("a receiver that is {other}"),
    }
    address
}

fn keep(listener: TcpListener, serve: fn(TcpStream)) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream));
        }
    });
}

fn answer_slowly(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            thread::sleep(PAUSE);
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// Seconds of a round, and the part of them in which a task that could run had no processor.
async fn round(runtime: &Runtime) -> (f64, f64) {
    let watch = Stopwatch::start();
    for _ in 0..TURNS {
        within(runtime.run(AgentRequest::once("hi"))).await.unwrap();
    }
    let wall = watch.wall().as_secs_f64();
    (wall, 1.0 - watch.elapsed().as_secs_f64() / wall)
}

async fn costs_no_time(behaves: &str) {
    let telemetry = Telemetry::start(TelemetrySettings::new(&receiver(behaves), "agent")).unwrap();
    let replies = || scripted(vec![ScriptedReply::text("hello")]);
    let (without, with) = (build(replies()).await, build(replies().sink(telemetry.clone())).await);
    let (mut best, mut busy) = (f64::INFINITY, 0_f64);
    for _ in 0..ROUNDS {
        let ((alone, busy_alone), (told, busy_told)) = (round(&without).await, round(&with).await);
        best = best.min(told / alone);
        busy = busy.max(busy_alone).max(busy_told);
        if best <= RATIO {
            break;
        }
    }
    println!("{behaves}: {best:.2} times as long with telemetry as without, {} spans dropped", telemetry.dropped());
    for runtime in [without, with] {
        within(runtime.shutdown()).await;
    }
    if best > RATIO && busy > 0.5 {
        println!("not judged: busy");
        return;
    }
    assert!(best <= RATIO, "a receiver that is {behaves}: {best:.2} times as long in the best of {ROUNDS} rounds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_take_as_long_with_a_receiver_that_is_away_as_without_one() {
    costs_no_time("away").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_take_as_long_with_a_receiver_that_is_silent_as_without_one() {
    costs_no_time("silent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_take_as_long_with_a_receiver_that_is_slow_as_without_one() {
    costs_no_time("slow").await;
}

/// The check finds a sink that waits for its receiver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_waits_would_be_found() {
    struct Waiting;
    impl bob::events::EventSink for Waiting {
        fn emit(&self, event: &bob::events::Envelope) {
            if event.event.is_terminal().is_some() {
                thread::sleep(PAUSE);
            }
        }

        // As a part of the turn, which `Telemetry` never is.
        fn is_called_in_place(&self) -> bool {
            true
        }
    }
    let replies = || scripted(vec![ScriptedReply::text("hello")]);
    let (without, with) = (build(replies()).await, build(replies().sink(Arc::new(Waiting))).await);
    let ((alone, _), (told, _)) = (round(&without).await, round(&with).await);
    for runtime in [without, with] {
        within(runtime.shutdown()).await;
    }
    assert!(told >= TURNS as f64 * PAUSE.as_secs_f64() && told > alone, "{told} and {alone}");
}
