//! Agents that work in the background: a call returns at once, and the result is asked for, or comes as an input.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bob::config::Limits;
use bob::model::{LlmRequest, ScriptedReply};
use bob::sessions::{FinishReason, OnParentEnd, SessionState};
use bob::store::{Fact, MemoryStore, SessionStore};
use bob::tools::CallStatus;
use bob::{AgentRequest, AgentResponse, AgentRuntime, BuildError, Runtime, RuntimeBuilder, SessionId};
use bob_drill::traps::{Edge, Fault, Target, Trap, Traps};
use serde_json::{Value, json};

use crate::subagents::ends::{AtWork, generous};
use crate::subagents::stage::{Gate, agent, asks, calls, children, last, left_of, names, playing};
use crate::support::runtime::{build, say, session, turn, within};

/// The first call of a session.
const TASK: &str = "c00000001";

pub(crate) fn result(wait_ms: u64) -> ScriptedReply {
    ScriptedReply::call("agent/result", json!({"task": TASK, "wait_ms": wait_ms}))
}

pub(crate) fn status() -> ScriptedReply {
    ScriptedReply::call("agent/status", json!({"task": TASK}))
}

fn of_task(text: &str) -> (Value, Value) {
    let told: Value = serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"));
    (told["task"].clone(), told["state"].clone())
}

/// Waits until the session has had so many outcomes, and returns them with the inputs of their turns.
pub(crate) async fn turns(runtime: &Runtime, of: &SessionId, count: usize) -> Vec<(Value, Value)> {
    within(async {
        loop {
            let records = runtime.records(of.clone()).await.unwrap();
            let facts = || records.iter().map(|record| serde_json::to_value(&record.fact).unwrap());
            let of = |kind: &str| facts().filter(|fact| fact["kind"] == json!(kind)).collect::<Vec<_>>();
            if of("outcome").len() >= count {
                assert_eq!(of("outcome").len(), count, "{records:?}");
                return of("input").into_iter().zip(of("outcome")).collect();
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await
}

/// How often the turn of each child was begun, and how it ended.
pub(crate) async fn ends(runtime: &Runtime, of: &SessionId) -> Vec<(usize, Option<FinishReason>)> {
    let mut all = Vec::new();
    for child in children(runtime, of).await {
        let records = within(runtime.records(child.session)).await.unwrap();
        let begun = records.iter().filter(|record| matches!(record.fact, Fact::Started { .. })).count();
        let ended = records.iter().rev().find_map(|record| match &record.fact {
            Fact::Outcome(ended) => Some(ended.finish_reason),
            _another => None,
        });
        all.push((begun, ended));
    }
    all
}

/// A root that calls a worker in the background and goes on as `then` says; the worker passes the gate.
pub(crate) fn staged(
    gate: &Gate,
    on_parent_end: OnParentEnd,
    then: impl Fn(&LlmRequest) -> ScriptedReply + Send + Sync + 'static,
) -> RuntimeBuilder {
    let (builder, _) = playing(move |who, request| match (who, request.step) {
        ("root", 1) if last(request).contains("go") => asks("worker", "pass it"),
        ("root", _) => then(request),
        (_, 1) => ScriptedReply::call("own/gate", json!({})),
        _ => ScriptedReply::text("passed it"),
    });
    builder.tools(gate.tool()).subagent(agent("worker").in_background(on_parent_end)).limits(generous())
}

#[tokio::test]
async fn a_call_returns_at_once_and_its_result_is_asked_for() {
    let gate = Gate::default();
    let opened = Arc::clone(&gate.opened);
    let runtime = build(staged(&gate, OnParentEnd::Cancel, move |request| match request.step {
        2 => status(),
        3 => result(0),
        4 => {
            // The worker ends while its result is waited for.
            opened.notify_one();
            result(600_000)
        }
        5 => status(),
        _ => ScriptedReply::text("done"),
    }))
    .await;
    let response = turn(&runtime, say("go")).await;
    assert_eq!((response.finish_reason, response.content.as_str()), (FinishReason::Final, "done"), "{response:?}");
    let [call, status, early, late, ended] = &response.tool_transcript[..] else { panic!("{response:?}") };
    for told in [call, status, early] {
        assert_eq!(of_task(&told.result), (json!(TASK), json!("running")));
        assert_eq!(told.status, CallStatus::Ok);
    }
    assert_eq!((late.result.as_str(), late.status), ("passed it", CallStatus::Ok));
    assert_eq!(of_task(&ended.result), (json!(TASK), json!("finished")));
    let used = response.delegated.clone().expect("what it used");
    assert_eq!((used.sessions, used.steps, used.tool_calls), (1, 2, 1));
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Final))]);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn what_still_works_when_its_turn_ends_is_cancelled_and_counts() {
    let gate = Gate::default();
    let builder = staged(&gate, OnParentEnd::Cancel, |request| match request.step {
        2 => ScriptedReply::call("own/met", json!({})),
        _ => ScriptedReply::text("that is all"),
    });
    let runtime = build(builder.tools(gate.met())).await;
    let response = turn(&runtime, say("go")).await;
    assert_eq!((response.finish_reason, response.content.as_str()), (FinishReason::Final, "that is all"));
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Cancelled))]);
    let used = response.delegated.expect("it is on the bill");
    assert_eq!((used.sessions, used.steps), (1, 1));
    assert_eq!(gate.passed.load(Ordering::SeqCst), 0);
    let health = runtime.health().await;
    assert_eq!((health.running_turns, health.waiting_turns), (0, 0));
}

#[tokio::test]
async fn a_cancelled_turn_cancels_what_works_for_it_whatever_its_profile_says() {
    for on_parent_end in [OnParentEnd::Cancel, OnParentEnd::Continue] {
        let (gate, at_work) = (Gate::default(), AtWork::new());
        let builder = staged(&gate, on_parent_end, |_| ScriptedReply::call("own/work", json!({})));
        let runtime = build(builder.tools(at_work.tool())).await;
        let running = tokio::spawn({
            let runtime = runtime.clone();
            async move { runtime.run(say("go")).await.unwrap().response().clone() }
        });
        at_work.until(1).await;
        within(gate.entered.notified()).await;
        assert!(within(runtime.cancel(session("s"))).await);
        assert_eq!(within(running).await.unwrap().finish_reason, FinishReason::Cancelled);
        within(async {
            while ends(&runtime, &session("s")).await != [(1, Some(FinishReason::Cancelled))] {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        })
        .await;
        within(runtime.shutdown()).await;
        assert_eq!(gate.passed.load(Ordering::SeqCst), 0, "{on_parent_end:?}");
    }
}

pub(crate) fn hears(request: &LlmRequest) -> ScriptedReply {
    match last(request).contains("passed it") {
        true => ScriptedReply::text("I have read it"),
        false => ScriptedReply::text("it goes on"),
    }
}

#[track_caller]
pub(crate) fn assert_brought(brought: &(Value, Value)) {
    let (input, outcome) = brought;
    assert_eq!(input["body"]["labels"], json!({"task": TASK}), "{input}");
    let text = input["body"]["parts"][0]["text"].as_str().unwrap();
    assert_eq!(text, format!("The agent worker has finished (task {TASK}). Its result:\n\npassed it"));
    assert_eq!(outcome["body"]["content"], json!("I have read it"));
}

#[tokio::test]
async fn one_that_outlives_its_turn_brings_its_result_as_an_input() {
    let gate = Gate::default();
    // The actor of a session is kept while something works for it.
    let builder = staged(&gate, OnParentEnd::Continue, hears).passivate_after(std::time::Duration::from_millis(1));
    let runtime = build(builder).await;
    let response = turn(&runtime, say("go")).await;
    assert_eq!((response.content.as_str(), response.delegated), ("it goes on", None));
    within(gate.entered.notified()).await;
    assert_eq!(turn(&runtime, say("and now?")).await.content, "it goes on");
    gate.opened.notify_one();
    let all = turns(&runtime, &session("s"), 3).await;
    assert_brought(&all[2]);
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Final))]);
    let look = within(runtime.session(session("s"))).await.unwrap().unwrap();
    let used = look.last.unwrap().delegated.expect("the turn that reads the result has it on its bill");
    assert_eq!((used.sessions, used.steps), (1, 2));
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_result_that_was_read_in_its_turn_does_not_come_again() {
    let gate = Gate::default();
    gate.opened.notify_one();
    let runtime = build(staged(&gate, OnParentEnd::Continue, |request| match request.step {
        2 => result(600_000),
        _ => ScriptedReply::text("done"),
    }))
    .await;
    turn(&runtime, say("go")).await;
    assert_eq!(turn(&runtime, say("next")).await.content, "done");
    assert_eq!(turns(&runtime, &session("s"), 2).await.len(), 2);
}

#[tokio::test]
async fn a_task_is_that_of_its_session_alone() {
    let gate = Gate::default();
    let runtime = build(staged(&gate, OnParentEnd::Continue, |request| match last(request).contains("what of it") {
        true => result(600_000),
        false => ScriptedReply::text("done"),
    }))
    .await;
    turn(&runtime, say("go")).await;
    let other = turn(&runtime, AgentRequest::text(session("t"), "what of it?")).await;
    let asked = &other.tool_transcript[0];
    assert_eq!(asked.status, CallStatus::Error);
    assert!(asked.result.contains("has no task c00000001"), "{}", asked.result);
}

#[tokio::test]
async fn the_tools_that_follow_tasks_are_offered_with_an_agent_in_the_background() {
    for (background, depth, expected) in
        [(false, 1, vec!["agent/a", "agent/b"]), (true, 1, vec!["agent/a", "agent/b", "agent/status", "agent/result"])]
    {
        let (builder, asked) = playing(|who, request| match (who, request.step) {
            ("root", 1) => asks("a", "go"),
            _ => ScriptedReply::text("done"),
        });
        let b = agent("b");
        let b = if background { b.in_background(OnParentEnd::Cancel) } else { b };
        let runtime = build(builder.subagent(agent("a").max_depth(depth - 1)).subagent(b)).await;
        turn(&runtime, say("go")).await;
        let asked = asked.lock().unwrap();
        assert_eq!(names(&asked[0]), expected);
        let of_child = asked.iter().find(|request| request.system.contains("are a.")).unwrap();
        assert!(names(of_child).is_empty(), "it may call no agent, and so follows none: {:?}", names(of_child));
    }
    let (builder, _) = playing(|_, _| ScriptedReply::text("done"));
    let error = builder.subagent(agent("status")).build().await.unwrap_err();
    assert!(matches!(&error, BuildError::SubAgents(text) if text.contains("a tool has that name")), "{error}");
}

#[tokio::test]
async fn what_tasks_hold_is_not_given_to_others_and_at_most_so_many_work() {
    let at_work = AtWork::new();
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => calls((0..3).map(|number| ("agent/worker", json!({"task": format!("part {number}")})))),
        ("root", 2) => ScriptedReply::call("own/three", json!({})),
        ("root", _) => ScriptedReply::text("done"),
        _ => ScriptedReply::call("own/work", json!({})),
    });
    let worker = agent("worker").in_background(OnParentEnd::Cancel);
    let builder = builder.tools(at_work.tool()).tools(at_work.three()).subagent(worker).max_parallel_subagents(3);
    let runtime = build(builder).await;
    let limits = Limits { max_steps: 17, ..generous() };
    let response: AgentResponse = turn(&runtime, AgentRequest { limits: Some(limits), ..say("go") }).await;
    assert_eq!(response.finish_reason, FinishReason::Final, "{response:?}");
    let mut steps = Vec::new();
    for child in children(&runtime, &session("s")).await {
        let records = within(runtime.records(child.session)).await.unwrap();
        steps.extend(records.iter().find_map(|record| match &record.fact {
            Fact::Input(input) => Some(input.limits.max_steps),
            _another => None,
        }));
    }
    steps.sort_unstable();
    assert_eq!(steps, [4, 5, 5], "equal parts of 16, of which two are kept for the answer");
    let used = response.delegated.unwrap();
    assert_eq!(used.sessions, 3);
}

#[tokio::test]
async fn a_parent_whose_actor_crashes_finds_its_tasks_at_work() {
    let gate = Gate::default();
    let traps = Traps::default();
    let builder = staged(&gate, OnParentEnd::Cancel, |request| match request.step {
        2 => result(600_000),
        _ => ScriptedReply::text("done"),
    });
    let runtime = builder.hook(traps.hook()).build().await.unwrap();
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(say("go")).await.unwrap().response().clone() }
    });
    within(gate.entered.notified()).await;
    traps.arm(Trap::new(Target::Turn(session("s")), Edge::Before("ToolReturned"), Fault::Kill));
    gate.opened.notify_one();
    let outcome = within(running).await.unwrap();
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "done"), "{outcome:?}");
    assert_eq!(outcome.tool_transcript[1].result, "passed it");
    assert_eq!(outcome.delegated.unwrap().steps, 2, "it counts once");
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Final))]);
    assert_eq!(gate.passed.load(Ordering::SeqCst), 1);
}

/// What a kill of the program leaves once the worker is at its gate and the session of its caller has this many outcomes.
pub(crate) async fn killed(on_parent_end: OnParentEnd, outcomes: usize) -> Arc<MemoryStore> {
    let (gate, store) = (Gate::default(), MemoryStore::new());
    let builder = match outcomes {
        0 => staged(&gate, on_parent_end, |_| result(600_000)),
        _ => staged(&gate, on_parent_end, hears),
    };
    let runtime = build(builder.store(Arc::<MemoryStore>::clone(&store) as Arc<dyn SessionStore>)).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(say("go")).await.map(drop) }
    });
    within(gate.entered.notified()).await;
    turns(&runtime, &session("s"), outcomes).await;
    let left = left_of(&runtime, &store, &session("s")).await;
    running.abort();
    within(runtime.shutdown()).await;
    left
}

#[tokio::test]
async fn another_process_finishes_a_turn_with_its_task_and_begins_none_again() {
    let store = killed(OnParentEnd::Cancel, 0).await;
    let gate = Gate::default();
    let builder = staged(&gate, OnParentEnd::Cancel, |request| match last(request).contains("passed it") {
        true => ScriptedReply::text("done"),
        false => result(600_000),
    });
    let runtime = build(builder.store(store)).await;
    gate.opened.notify_one();
    let ended = within(runtime.finish(session("s"))).await.unwrap();
    let outcome = ended[0].response();
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "done"), "{outcome:?}");
    let used = outcome.delegated.as_ref().unwrap();
    assert_eq!((used.sessions, used.steps, used.tool_calls), (1, 2, 1));
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Final))]);
}

#[tokio::test]
async fn a_turn_that_is_closed_closes_the_tasks_that_end_with_it() {
    let store = killed(OnParentEnd::Cancel, 0).await;
    let gate = Gate::default();
    let runtime = build(staged(&gate, OnParentEnd::Cancel, |_| ScriptedReply::text("a crash")).store(store)).await;
    assert_eq!(turn(&runtime, say("what happened?")).await.content, "a crash");
    within(async {
        while children(&runtime, &session("s")).await[0].state != Some(SessionState::Idle) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Cancelled))]);
}

#[tokio::test]
async fn a_task_that_outlives_its_turn_outlives_the_program_too() {
    let store = killed(OnParentEnd::Continue, 1).await;
    let gate = Gate::default();
    gate.opened.notify_one();
    let runtime = build(staged(&gate, OnParentEnd::Continue, hears).store(store)).await;
    // The next input reads the journal, which knows of the task.
    turn(&runtime, say("and now?")).await;
    let all = turns(&runtime, &session("s"), 3).await;
    assert_brought(all.iter().find(|(input, _)| input["body"]["labels"] != json!({})).expect("the result came"));
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Final))]);
    // A replay of the journal ends where the session did.
    let records = within(runtime.records(session("s"))).await.unwrap();
    let replayed = bob_messages::replay::replay(&records);
    assert!(replayed.is_ok(), "{replayed:?}");
}
