//! The quantile that the freeze of the interface depends on (`docs/api.md`): the P95 of a turn beside that of a plain loop
//! that makes the same calls, under one load.
//!
//! The load: 100 sessions at a time, each with four turns; a turn is a model call that answers after 50 ms, one call of a tool
//! that reads, and a second model call of 50 ms. Rounds of the loop and of the runtime take turns. Beside each is how late
//! a thread woke that sleeps 2 ms at a time: what that is of the round says how busy the machine was with other things.

use bob::model::{Capabilities, ScriptedLlm};
use bob::sessions::FinishReason;
use bob::tools::tool;
use bob::{AgentRequest, AgentRuntime, ModelName, Runtime, RuntimeBuilder, SessionId};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SESSIONS: usize = 100;
const TURNS: usize = 4;
const LATENCY: Duration = Duration::from_millis(50);
const WAKES: Duration = Duration::from_millis(2);

static LATE_US: AtomicU64 = AtomicU64::new(0);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// Runs so many rounds of each, and prints a line of JSON for each.
pub(crate) async fn print(rounds: usize) {
    let _runs_until_the_end = std::thread::spawn(|| {
        loop {
            let began = Instant::now();
            std::thread::sleep(WAKES);
            LATE_US.fetch_add(began.elapsed().saturating_sub(WAKES * 2).as_micros() as u64, Relaxed);
        }
    });
    let runtime = runtime().await;
    for round in 0..=rounds {
        let (plain, plain_late) = timed(|_| plain_turn()).await;
        let (bob, bob_late) = timed(|session| turn(&runtime, round, session)).await;
        // The first round warms up.
        if round > 0 {
            println!(
                "{}",
                json!({ "loop_p95_ms": plain * 1e3, "bob_p95_ms": bob * 1e3, "ratio": bob / plain, "late": plain_late.max(bob_late) })
            );
        }
    }
}

/// The P95 of all turns in seconds, and which part of the round the probe was late.
async fn timed<F: Future<Output = ()>>(turn: impl Fn(usize) -> F) -> (f64, f64) {
    let (began, late) = (Instant::now(), LATE_US.load(Relaxed));
    let sessions = (0..SESSIONS).map(async |session| {
        let mut seconds = Vec::with_capacity(TURNS);
        for _ in 0..TURNS {
            let began = Instant::now();
            turn(session).await;
            seconds.push(began.elapsed().as_secs_f64());
        }
        seconds
    });
    let mut seconds: Vec<f64> = join_all(sessions).await.into_iter().flatten().collect();
    seconds.sort_by(f64::total_cmp);
    let late = (LATE_US.load(Relaxed) - late) as f64 / 1e6;
    (seconds[seconds.len() * 95 / 100], late / began.elapsed().as_secs_f64())
}

async fn plain_turn() {
    let mut messages = vec![json!({ "role": "user", "content": "Echo, then finish." })];
    for reply in [json!({ "tool": "echo", "arguments": r#"{"text":"x"}"# }), json!({ "content": "done" })] {
        tokio::time::sleep(LATENCY).await;
        if let Some(arguments) = reply["arguments"].as_str() {
            let echo: Echo = serde_json::from_str(arguments).unwrap();
            messages.push(json!({ "role": "tool", "content": echo.text }));
        }
        messages.push(reply);
    }
    assert_eq!(messages.len(), 4);
}

async fn runtime() -> Runtime {
    let call = json!({ "calls": [{ "name": "local/echo", "arguments": r#"{"text":"x"}"# }] });
    let script = json!([{ "replies": [call, { "text": "done" }], "delay_ms": LATENCY.as_millis() as u64 }]).to_string();
    let capabilities = Capabilities { native_tools: true, ..Capabilities::default() };
    let model = ScriptedLlm::from_json(&script).unwrap().with_capabilities(capabilities);
    let echo = tool("local/echo", "Echo text", |echo: Echo, _| async move { Ok(echo.text) });
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:counts").unwrap()).model(Arc::new(model));
    builder.local_tools(false).tools(Arc::new(echo.read_only())).build().await.unwrap()
}

async fn turn(runtime: &Runtime, round: usize, session: usize) {
    let session = SessionId::parse(&format!("profile-{round}-{session}")).unwrap();
    let result = runtime.run(AgentRequest::text(session, "Echo, then finish.")).await.unwrap();
    let outcome = result.response();
    assert_eq!((&*outcome.content, outcome.finish_reason, outcome.steps), ("done", FinishReason::Final, 2));
}
