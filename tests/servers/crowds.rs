//! More work than there are descriptors for, and a server that one kind of work keeps busy.

use std::sync::Arc;
use std::time::Duration;

use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::Policy;
use bob::tools::servers::{ServerId, ServerSpec};
use bob::{AgentRequest, AgentRuntime, Runtime, RuntimeBuilder};
use bob_actors::llm::scripted::ScriptedRule;
use serde_json::{Value, json};

use crate::servers::fixture::{AGENT, Fixture, drill};
use crate::support::program::Program;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{model_name, session, within};
use crate::support::stopwatch::Stopwatch;

/// Concurrent sessions, each with a connection to the provider: more than there are descriptors.
const CROWD: usize = 200;

#[test]
fn o5_without_descriptors_new_calls_fail_and_what_runs_goes_on() {
    let provider = FakeProvider::repeating([Reply::text("hello").delayed(Duration::from_millis(300))]);
    let fixture = Fixture::new(&provider, &drill("drill", &[], ""));
    let lines = (0..CROWD).map(|number| format!("{}\n", json!({ "session": format!("s{number}"), "prompt": "hi" })));
    fixture.scratch.write("lines", lines.collect::<String>());
    let script = format!("ulimit -n 128 && exec {AGENT} --config agent.toml batch lines --concurrency {CROWD}");
    let run = Program::new("/bin/sh")
        .dir(fixture.scratch.path())
        .args(["-c", &script])
        .deadline(Duration::from_secs(120))
        .run();
    let results: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect();
    assert_eq!(results.len(), CROWD, "every line has its result: {}", run.stderr);
    let (fine, rest): (Vec<_>, Vec<_>) = results.iter().partition(|result| result["finish_reason"] == "final");
    println!("{} answered, {} refused, exit {:?}", fine.len(), rest.len(), run.code);
    assert!(fine.len() >= 50, "what had its descriptors goes on: {}", fine.len());
    for result in &rest {
        assert_eq!((&result["finish_reason"], &result["error"]["kind"]), (&json!("error"), &json!("llm")), "{result}");
    }
    assert!(run.code == Some(if rest.is_empty() { 0 } else { 5 }), "{run:?}");
    assert!(!run.stderr.contains("panick"), "{}", run.stderr);
    assert_eq!(fixture.pids("drill").len(), 1, "the server that ran goes on");
    fixture.assert_nothing_left();
}

fn spec(id: &str) -> ServerSpec {
    ServerSpec::stdio(ServerId::new(id), AGENT, ["drill-server"])
}

fn rule(when: &str, tool: &str, arguments: Value) -> ScriptedRule {
    let replies = vec![ScriptedReply::call(tool, arguments), ScriptedReply::text("done")];
    ScriptedRule { when: Some(when.to_owned()), replies, delay_ms: 0, stall: false }
}

async fn turn(runtime: &Runtime, id: String, text: &str) {
    let ended = within(runtime.run(AgentRequest::text(session(&id), text))).await.expect("an outcome");
    assert_eq!(ended.response().content, "done");
}

/// How long turns over the quick server take: the 99th of a hundred.
async fn p99(runtime: &Runtime, prefix: &str) -> Duration {
    let mut took = Vec::new();
    for number in 0..40 {
        let begun = Stopwatch::start();
        turn(runtime, format!("{prefix}{}", number % 4), "quick").await;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o6_a_server_kept_busy_by_some_turns_is_not_felt_by_others() {
    const BUSY_MS: u64 = 5_000;
    let model = ScriptedLlm::new(vec![
        rule("busy", "mcp/busy/sleep", json!({ "ms": BUSY_MS })),
        rule("quick", "mcp/quick/echo", json!({ "text": "hi" })),
    ]);
    let policy = Policy { require_high_risk_approval: false, ..Policy::default() };
    let builder = RuntimeBuilder::new(model_name()).model(Arc::new(model)).policy(policy);
    let runtime = builder.tool_server(spec("busy")).tool_server(spec("quick")).build().await.expect("a runtime");
    turn(&runtime, "first".to_owned(), "quick").await;
    let alone = p99(&runtime, "alone").await;
    let begun = Stopwatch::start();
    let busy: Vec<_> = (0..64)
        .map(|number| {
            let runtime = runtime.clone();
            tokio::spawn(async move { turn(&runtime, format!("busy{number}"), "busy").await })
        })
        .collect();
    let beside = p99(&runtime, "beside").await;
    println!("p99 of turns over another server: {alone:?} alone, {beside:?} beside 64 calls that take their time");
    begun.assert_within(Duration::from_millis(BUSY_MS), "they end before those that are busy");
    for busy in busy {
        busy.await.expect("no panic");
    }
    within(runtime.shutdown()).await;
}
