//! The budget that a call hands down.

use bob::config::Limits;
use bob::model::catalogue::{Cost, ModelPrice, Rate};
use bob::model::{Capabilities, DeltaSink, LlmAnswer, LlmError, LlmPort, LlmRequest, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, GuardReason};
use bob::store::Fact;
use bob::tools::CallStatus;
use bob::{Agent, AgentRequest, AgentRuntime, BoxFuture, ModelName, Runtime, SessionId};
use serde_json::json;
use std::sync::Arc;

use crate::subagents::stage::{agent, calls, children, look, playing};
use crate::support::runtime::{build, over, say, session, turn, within};

fn limits() -> Limits {
    Limits { max_steps: 21, max_tool_calls: 41, max_total_tokens: 1_000_000, ..Limits::default() }
}

/// The limits of the children of a session, in the order of their calls.
async fn handed_down(runtime: &Runtime, of: &SessionId) -> Vec<Limits> {
    let mut all = children(runtime, of).await;
    all.sort_by(|one, other| one.session.cmp(&other.session));
    let mut limits = Vec::new();
    for child in all {
        let records = within(runtime.records(child.session)).await.unwrap();
        limits.extend(records.iter().find_map(|record| match &record.fact {
            Fact::Input(input) => Some(input.limits),
            _ => None,
        }));
    }
    limits
}

async fn children_of(agents: [Agent; 2]) -> (Vec<Limits>, Runtime) {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => calls([("agent/a", json!({"task": "a"})), ("agent/b", json!({"task": "b"}))]),
        _ => ScriptedReply::text("done"),
    });
    let runtime = build(agents.into_iter().fold(builder, bob::RuntimeBuilder::subagent)).await;
    turn(&runtime, AgentRequest { limits: Some(limits()), ..say("go") }).await;
    (handed_down(&runtime, &session("s")).await, runtime)
}

#[tokio::test]
async fn a_child_has_a_share_of_what_is_left_and_no_more_than_its_profile() {
    let (limits, _runtime) = children_of([agent("a"), agent("b").budget_ratio(1.0).max_steps(3).timeout_ms(700)]).await;
    let [one, other] = &limits[..] else { panic!("two children") };
    // One of 21 steps was made, and two of 41 calls are these. Of what an answer needs an eighth is kept.
    assert_eq!((one.max_steps, one.max_tool_calls), (8, 19));
    assert!((437_000..437_500).contains(&one.max_total_tokens), "{one:?}");
    assert!((40_000..=45_000).contains(&one.turn_timeout_ms), "{one:?}");
    assert_eq!((other.max_steps, other.turn_timeout_ms), (3, 700));
    assert!(
        other.max_tool_calls <= 20 && other.max_total_tokens <= 500_000,
        "the first one holds its share: {other:?}"
    );
}

#[tokio::test]
async fn children_beside_each_other_never_use_more_than_is_left() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => calls(
            [(); 4]
                .map(|()| ("agent/busy", json!({"task": "go"})))
                .into_iter()
                .enumerate()
                .map(|(number, (name, _))| (name, json!({"task": format!("go {number}")}))),
        ),
        ("root", _) => ScriptedReply::text("done"),
        _ => ScriptedReply::call("own/look", json!({})),
    });
    let builder = builder.tools(look("own/look")).subagent(agent("busy").budget_ratio(0.6));
    let runtime = build(builder).await;
    let few =
        Limits { max_steps: 9, max_tool_calls: 12, max_identical_calls: 50, max_consecutive_errors: 9, ..limits() };
    let response = turn(&runtime, AgentRequest { limits: Some(few), ..say("go") }).await;
    let used = response.delegated.unwrap();
    assert!(used.steps + response.steps <= 9, "{used:?}");
    assert_eq!(response.finish_reason, FinishReason::Final, "a step is left for the answer");
    let steps: u32 = handed_down(&runtime, &session("s")).await.iter().map(|limits| limits.max_steps).sum();
    assert!(steps <= 8, "{steps}");
}

#[tokio::test]
async fn a_turn_that_has_too_little_left_gives_none_and_says_so() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => ScriptedReply::call("agent/a", json!({"task": "go"})),
        _ => ScriptedReply::text("done"),
    });
    let runtime = build(builder.subagent(agent("a"))).await;
    let few = Limits { max_steps: 2, ..limits() };
    let response = turn(&runtime, AgentRequest { limits: Some(few), ..say("go") }).await;
    let call = &response.tool_transcript[0];
    assert_eq!(call.status, CallStatus::Error);
    assert!(call.result.contains("too few model calls left to give the agent a any"), "{}", call.result);
    assert_eq!((response.content.as_str(), response.delegated), ("done", None));
    assert!(children(&runtime, &session("s")).await.is_empty());
}

#[tokio::test]
async fn a_guard_counts_what_children_used() {
    let (builder, _) = playing(|who, request| match who {
        "root" => ScriptedReply::call("agent/a", json!({"task": format!("go {}", request.step)})),
        _ if request.step == 1 => ScriptedReply::call("own/look", json!({})),
        _ => ScriptedReply::text("ok"),
    });
    let runtime = build(builder.tools(look("own/look")).subagent(agent("a"))).await;
    let few = Limits { max_steps: 8, max_consecutive_errors: 9, ..limits() };
    let response = turn(&runtime, AgentRequest { limits: Some(few), ..say("go") }).await;
    assert_eq!(response.finish_reason, FinishReason::GuardExceeded);
    assert_eq!(response.steps + response.delegated.unwrap().steps, 8, "the guard is exact");
}

/// A scripted model of which a token costs a millionth.
struct Priced(ScriptedLlm);

impl LlmPort for Priced {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        self.0.capabilities(model)
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        self.0.complete_stream(request, model, deltas)
    }

    fn price(&self, _model: &ModelName) -> Option<ModelPrice> {
        Some(ModelPrice::usd(Rate::from_amount(1.0), Rate::from_amount(1.0)))
    }
}

#[tokio::test]
async fn what_a_child_costs_is_its_callers_and_stops_it_at_its_limit() {
    let go = |max_cost| async move {
        let model = ScriptedLlm::from_fn(|request| match request.system.contains("You are a.") {
            false if request.step == 1 => ScriptedReply::call("agent/a", json!({"task": "go"})),
            false => ScriptedReply::text("done"),
            true => ScriptedReply::text("a long answer ".repeat(1_000)),
        });
        let runtime = build(over(Priced(model)).local_tools(false).subagent(agent("a"))).await;
        let limits = Limits { max_cost, ..limits() };
        turn(&runtime, AgentRequest { limits: Some(limits), ..say("go") }).await
    };
    let free = go(Cost::ZERO).await;
    let below = free.delegated.as_ref().expect("a child").cost;
    let of_tokens = |tokens| Cost::from_nanos(1_000 * tokens);
    assert_eq!(free.cost, of_tokens(free.usage.total_tokens), "its own calls");
    assert_eq!(below, of_tokens(free.delegated.as_ref().unwrap().usage.total_tokens), "those of its child");
    // The child may make one call, which costs more than its caller has left.
    let most = of_tokens(1_000);
    assert!(below > most, "{free:?}");
    let stopped = go(most).await;
    assert_eq!(stopped.guard_reason, Some(GuardReason::MaxCost), "{stopped:?}");
    assert_eq!(stopped.steps, 1, "it is not asked again");
}
