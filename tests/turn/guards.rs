//! Guards: exact counts, time limits, and partial results.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bob::AgentRequest;
use bob::config::Limits;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, GuardReason};
use bob::tools::{ToolOutput, tool};
use bob_actors::llm::providers::ProviderKind;
use bob_messages::chat::CallStatus;
use serde_json::json;

use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{Nothing, build, over, provided, say, turn, within};
use crate::support::stopwatch::Stopwatch;

/// A model that calls `test/count` in the first `calls` steps, each time with another argument.
fn calls_then_answers(calls: u32) -> ScriptedLlm {
    ScriptedLlm::from_fn(move |request| match request.step {
        step if step <= calls => ScriptedReply::call("test/count", json!({"n": step})),
        _ => ScriptedReply::text("done"),
    })
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    #[allow(dead_code, reason = "it makes each call another call")]
    n: u32,
}

fn counting(runs: &Arc<AtomicUsize>) -> Arc<bob::tools::FnTool> {
    let runs = Arc::clone(runs);
    Arc::new(tool("test/count", "Counts.", move |_: Count, _| {
        let number = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(ToolOutput::text(number.to_string())) }
    }))
}

fn limited(limits: Limits) -> AgentRequest {
    AgentRequest { limits: Some(limits), ..say("go") }
}

#[tokio::test]
async fn c7_max_steps_is_exact() {
    let limits = Limits { max_steps: 3, max_tool_calls: 100, ..Limits::default() };
    for (calls, expected, steps, ran) in
        [(2, FinishReason::Final, 3, 2), (3, FinishReason::GuardExceeded, 3, 3), (9, FinishReason::GuardExceeded, 3, 3)]
    {
        let runs = Arc::default();
        let runtime = build(over(calls_then_answers(calls)).tools(counting(&runs))).await;
        let answer = turn(&runtime, limited(limits)).await;
        assert_eq!((answer.finish_reason, answer.steps), (expected, steps), "{calls} calls");
        assert_eq!(runs.load(Ordering::SeqCst), ran);
        let guard = (expected == FinishReason::GuardExceeded).then_some(GuardReason::MaxSteps);
        assert_eq!(answer.guard_reason, guard);
        assert!(guard.is_none() || answer.content.contains("3 model calls"), "it names itself: {}", answer.content);
    }
}

#[tokio::test]
async fn c7_max_tool_calls_is_exact() {
    let limits = Limits { max_tool_calls: 3, ..Limits::default() };
    for (calls, expected, ran) in [(3, FinishReason::Final, 3), (4, FinishReason::GuardExceeded, 3)] {
        let runs = Arc::default();
        let runtime = build(over(calls_then_answers(calls)).tools(counting(&runs))).await;
        let answer = turn(&runtime, limited(limits)).await;
        assert_eq!((answer.finish_reason, runs.load(Ordering::SeqCst)), (expected, ran), "{calls} calls");
        assert_eq!(answer.tool_transcript.len() as u32, calls, "each call has its result, also one that did not run");
    }
}

#[tokio::test]
async fn c7_two_failed_calls_in_a_row_end_the_turn() {
    let fails =
        tool("test/fails", "Fails.", |_: Nothing, _| async { Err::<(), _>(bob::tools::ToolError::new("no luck")) });
    let model = ScriptedLlm::replies(vec![ScriptedReply::call("test/fails", json!({}))]);
    let runtime = build(over(model).tools(Arc::new(fails))).await;
    let answer = turn(&runtime, limited(Limits::default())).await;
    assert_eq!(answer.guard_reason, Some(GuardReason::MaxConsecutiveErrors));
    assert_eq!(answer.tool_transcript.iter().filter(|call| call.status == CallStatus::Error).count(), 2);
}

/// The promise is a hundredth of a second or ten; on a crowded machine it gets more. Other tests stop the clock.
#[tokio::test(flavor = "multi_thread")]
async fn c7_turn_timeout_interrupts_the_model() {
    let provider = FakeProvider::start([Reply::text("late").delayed(Duration::from_secs(3)), Reply::text("now")]);
    let runtime = build(provided(&provider, ProviderKind::OpenAi)).await;
    let began = Stopwatch::start();
    let answer = turn(&runtime, limited(Limits { turn_timeout_ms: 200, ..Limits::default() })).await;
    let (took, wall) = (began.elapsed(), began.wall());
    eprintln!("a limit of 200 ms was kept after {wall:?}");
    assert!(wall >= Duration::from_millis(200) && took < Duration::from_millis(400), "took {wall:?}");
    assert_eq!(
        (answer.finish_reason, answer.guard_reason),
        (FinishReason::GuardExceeded, Some(GuardReason::TurnTimeout))
    );
    assert!(answer.content.contains("200 ms"), "{answer:?}");
    within(provider.wait_closed_early(1)).await;
    assert_eq!(turn(&runtime, say("and now?")).await.content, "now", "the session goes on");
}

#[tokio::test]
async fn c7_turn_timeout_interrupts_a_tool() {
    let (entered, let_go) = (Arc::default(), Arc::default());
    let model = ScriptedLlm::replies(vec![ScriptedReply::call("test/endless", json!({}))]);
    let endless = crate::support::runtime::endless(&entered, &let_go);
    let runtime = build(over(model).tools(Arc::new(endless))).await;
    let answer = turn(&runtime, limited(Limits { turn_timeout_ms: 200, ..Limits::default() })).await;
    assert_eq!(answer.guard_reason, Some(GuardReason::TurnTimeout));
    assert_eq!(answer.tool_transcript[0].status, CallStatus::Unknown, "it may have had its effect");
    within(let_go.notified()).await;
}
