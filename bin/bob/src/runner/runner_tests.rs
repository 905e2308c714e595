use super::*;
use crate::facade::{AgentRequest, AgentRuntime, RuntimeBuilder};
use bob_actors::llm::{ScriptedCall, ScriptedLlm, ScriptedReply};
use bob_actors::tools::{FnTool, Policy, ToolPort, tool};
use bob_messages::chat::{CallStatus, FinishReason, GuardReason};
use bob_messages::ids::{ModelName, SessionId};
use bob_messages::limits::Limits;
use bob_messages::permission::PermissionMode;
use bob_messages::session_state::Session;
use bob_messages::tools::Risk;
use futures_util::FutureExt;
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Note {
    text: String,
}

fn note(name: &str) -> FnTool {
    tool(name, "Writes a note.", |note: Note, _| async move { Ok(ToolOutput::text(format!("kept {}", note.text))) })
}

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn request(tools: &[FnTool]) -> RunnerRequest {
    let model = ModelName::parse("scripted:one").unwrap();
    let tools = tools.iter().flat_map(|tool| tool.list_tools().now_or_never().unwrap()).collect();
    RunnerRequest::text(session(), model, "go").tools(tools).mode(PermissionMode::Auto)
}

fn calls(names: &[&str]) -> ScriptedReply {
    let calls = names.iter().map(|name| ScriptedCall { name: (*name).into(), arguments: json!({"text": name}) });
    ScriptedReply::Calls(calls.collect())
}

/// A model that wants these calls and then answers.
fn model(names: &[&str]) -> ScriptedLlm {
    ScriptedLlm::replies(vec![calls(names), ScriptedReply::text("done")])
}

fn wanted(step: AgentStepResult) -> AgentRunner<AwaitingToolCall> {
    match step {
        AgentStepResult::RequiresTool(runner) => runner,
        AgentStepResult::Finished(finished) => panic!("calls are wanted: {finished:?}"),
    }
}

fn over(step: AgentStepResult) -> Finished {
    match step {
        AgentStepResult::Finished(finished) => finished,
        AgentStepResult::RequiresTool(runner) => panic!("it is over: {:?}", runner.pending_calls()),
    }
}

fn results(calls: &[Arc<ToolCall>]) -> Vec<(CallId, ToolOutput)> {
    calls.iter().rev().map(|call| (call.id.clone(), ToolOutput::text(format!("of {}", call.name)))).collect()
}

/// The journal's fold, which must be a session with nothing open.
fn folded(journal: &[Arc<Record>]) -> Session {
    let mut session = Session::new(session());
    for record in journal {
        session.apply(record);
    }
    assert!(session.open.is_none(), "{:?}", session.open);
    session
}

#[tokio::test]
async fn calls_of_all_kinds_are_handed_out_at_once_and_recorded_in_their_order() {
    let tools = [note("local/a").read_only(), note("local/b"), note("local/c").read_only()];
    let model = model(&["local/a", "local/b", "local/c"]);
    let runner = wanted(AgentRunner::new(request(&tools), &model).unwrap().infer(&model).await);
    let names: Vec<_> = runner.pending_calls().iter().map(|call| call.name.to_string()).collect();
    assert_eq!(names, ["local/a", "local/b", "local/c"]);
    let given = results(runner.pending_calls());
    let done = over(runner.provide_tool_results(given).unwrap().infer(&model).await);
    assert_eq!((done.response.content.as_str(), done.response.finish_reason), ("done", FinishReason::Final));
    let kept: Vec<_> = done.response.tool_transcript.iter().map(|entry| entry.result.as_str()).collect();
    assert_eq!(kept, ["of local/a", "of local/b", "of local/c"]);
    assert!(done.response.saved);
    assert_eq!(folded(&done.journal).last.unwrap().content, "done");
}

#[tokio::test]
async fn each_state_can_be_saved_and_goes_on_elsewhere() {
    fn moved<S: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
        runner: AgentRunner<S>,
    ) -> AgentRunner<S> {
        let there = serde_json::from_str(&serde_json::to_string(&runner).unwrap()).unwrap();
        assert_eq!(runner, there);
        there
    }
    let model = model(&["local/a"]);
    let ready = moved(AgentRunner::new(request(&[note("local/a")]), &model).unwrap());
    let asked = moved(wanted(ready.infer(&model).await));
    let approved = moved(moved(asked.require_approval("it writes")).approve());
    let given = results(approved.pending_calls());
    let done = over(moved(approved.provide_tool_results(given).unwrap()).infer(&model).await);
    assert_eq!(done.response.content, "done");
}

#[tokio::test]
async fn what_a_person_denies_ends_the_turn_with_the_reason_and_every_call_paired() {
    let model = model(&["local/a", "local/b"]);
    let runner =
        wanted(AgentRunner::new(request(&[note("local/a"), note("local/b")]), &model).unwrap().infer(&model).await);
    let asked = runner.require_approval("it writes");
    assert_eq!((asked.reason(), asked.pending_calls().len()), ("it writes", 2));
    let done = asked.deny("not on a Sunday");
    assert_eq!(
        (done.response.finish_reason, done.response.content.as_str()),
        (FinishReason::Cancelled, "not on a Sunday")
    );
    let statuses: Vec<_> = done.response.tool_transcript.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [CallStatus::Cancelled; 2]);
    assert_eq!(folded(&done.journal).last.unwrap().content, "not on a Sunday");
}

#[tokio::test]
async fn a_cancelled_turn_can_be_followed_by_another() {
    let model = model(&["local/a"]);
    let done = AgentRunner::new(request(&[note("local/a")]), &model).unwrap().cancel("never mind");
    assert_eq!((done.response.finish_reason, done.response.content.as_str()), (FinishReason::Cancelled, "never mind"));
    let next = AgentRunner::new(request(&[note("local/a")]).journal(done.journal), &model).unwrap();
    let runner = wanted(next.infer(&model).await);
    let given = results(runner.pending_calls());
    let done = over(runner.provide_tool_results(given).unwrap().infer(&model).await);
    let history = folded(&done.journal).history;
    assert_eq!(history.len(), 6, "two inputs, how the first ended, a call, its result, an answer: {history:?}");
}

#[tokio::test]
async fn results_are_one_for_each_call_or_the_runner_stays_as_it_was() {
    let model = model(&["local/a", "local/b"]);
    let tools = [note("local/a"), note("local/b")];
    let runner = wanted(AgentRunner::new(request(&tools), &model).unwrap().infer(&model).await);
    let good = results(runner.pending_calls());
    let foreign = (CallId::new("c00000077"), ToolOutput::text("x"));
    for (given, why) in [
        (good[..1].to_vec(), "has 0 results"),
        ([good.clone(), good.clone()].concat(), "has 2 results"),
        ([good.clone(), vec![foreign]].concat(), "no call c00000077 is pending"),
    ] {
        let not_taken = runner.clone().provide_tool_results(given).unwrap_err();
        assert!(not_taken.why.contains(why), "{}", not_taken.why);
        assert_eq!(not_taken.runner, runner);
    }
}

#[tokio::test]
async fn a_call_of_high_risk_runs_after_an_approval_only() {
    let model = model(&["local/a", "local/b"]);
    let tools = [note("local/a").risk(Risk::High), note("local/b").risk(Risk::Low)];
    let asking = request(&tools).mode(PermissionMode::Ask);
    let runner = wanted(AgentRunner::new(asking, &model).unwrap().infer(&model).await);
    let given = results(runner.pending_calls());
    assert!(runner.approval_wanted(&runner.pending_calls()[0].id).is_some());
    assert!(runner.approval_wanted(&runner.pending_calls()[1].id).is_none());
    let not_taken = runner.provide_tool_results(given.clone()).unwrap_err();
    assert!(not_taken.why.contains("local/a needs an approval first"), "{}", not_taken.why);
    let approved = not_taken.runner.require_approval("it is risky").approve();
    let done = over(approved.provide_tool_results(given).unwrap().infer(&model).await);
    let kept: Vec<_> = done.response.tool_transcript.iter().map(|entry| entry.result.as_str()).collect();
    assert_eq!(kept, ["of local/a", "of local/b"]);

    let runner = AgentRunner::new(request(&tools), &model).unwrap();
    let runner = wanted(runner.infer(&model).await);
    assert!(runner.approval_wanted(&runner.pending_calls()[0].id).is_none());
}

#[tokio::test]
async fn what_policy_denies_and_what_is_no_call_is_answered_without_anybody() {
    let policy = Policy { deny_tools: vec!["local/b".into()], ..Policy::default() };
    let model = ScriptedLlm::replies(vec![
        calls(&["local/b"]),
        ScriptedReply::call("local/a", json!({"text": 7})),
        ScriptedReply::text("done"),
    ]);
    let limits = Limits { max_consecutive_errors: 5, ..Limits::default() };
    let request = request(&[note("local/a"), note("local/b")]).policy(policy).limits(limits);
    let done = over(AgentRunner::new(request, &model).unwrap().infer(&model).await);
    let statuses: Vec<_> = done.response.tool_transcript.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [CallStatus::Denied, CallStatus::Error]);
    assert_eq!(done.response.denied.len(), 1);
}

#[tokio::test]
async fn guards_are_exact_and_the_model_is_not_asked_once_more() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let model = ScriptedLlm::from_fn(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        calls(&["local/a"])
    });
    let limits = Limits { max_steps: 2, ..Limits::default() };
    let mut ready = AgentRunner::new(request(&[note("local/a")]).limits(limits), &model).unwrap();
    for _ in 0..2 {
        let runner = wanted(ready.infer(&model).await);
        let given = results(runner.pending_calls());
        ready = runner.provide_tool_results(given).unwrap();
    }
    let done = over(ready.infer(&model).await);
    assert_eq!(done.response.guard_reason, Some(GuardReason::MaxSteps));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_says_nothing_costs_the_turns_time_and_no_more() {
    let model = ScriptedLlm::replies(vec![ScriptedReply::Stall]);
    let limits = Limits { turn_timeout_ms: 1000, ..Limits::default() };
    let done = over(AgentRunner::new(request(&[]).limits(limits), &model).unwrap().infer(&model).await);
    assert_eq!(done.response.guard_reason, Some(GuardReason::TurnTimeout));
}

#[tokio::test]
async fn a_request_that_cannot_be_run_says_why() {
    let model = model(&["local/a"]);
    let empty = request(&[]).input(Vec::new());
    let twice = request(&[note("local/a"), note("local/a")]);
    let done = AgentRunner::new(request(&[]), &model).unwrap().cancel("x");
    let other = RunnerRequest::text(SessionId::parse("t").unwrap(), ModelName::parse("scripted:one").unwrap(), "go");
    for (request, why) in [
        (empty, "the input is empty"),
        (twice, "local/a"),
        (other.journal(done.journal), "the journal is of the session s, not of t"),
    ] {
        let error = AgentRunner::new(request, &model).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_turn_runs_to_its_end_and_denies_what_needs_a_person() {
    let tools = note("local/a");
    let script = model(&["local/a"]);
    let ready = AgentRunner::new(request(std::slice::from_ref(&tools)), &script).unwrap();
    let done = ready.run_to_completion(&script, &tools).await;
    assert_eq!((done.response.content.as_str(), done.response.steps), ("done", 2));
    assert_eq!(done.response.tool_transcript[0].result, "kept local/a");

    let risky = note("local/a").risk(Risk::High);
    let asking = request(std::slice::from_ref(&risky)).mode(PermissionMode::Ask);
    let ready = AgentRunner::new(asking, &script).unwrap();
    let done = ready.run_to_completion(&script, &risky).await;
    assert_eq!(done.response.finish_reason, FinishReason::Cancelled);
    assert!(done.response.content.contains("no approval is possible"), "{}", done.response.content);
    assert_eq!(done.response.tool_transcript[0].status, CallStatus::Cancelled);
}

/// There is one loop: a turn without actors journals what a turn of an actor does.
#[tokio::test]
async fn a_runner_and_a_runtime_write_the_same_journal_apart_from_names_and_times() {
    let tools = note("local/a");
    let script = || model(&["local/a"]);
    let stepped = AgentRunner::new(request(std::slice::from_ref(&tools)), &script()).unwrap();
    let stepped = stepped.run_to_completion(&script(), &tools).await;

    let name = ModelName::parse("scripted:one").unwrap();
    let runtime = RuntimeBuilder::new(name).model(Arc::new(script())).tools(Arc::new(tools)).build().await.unwrap();
    let mode = Some(PermissionMode::Auto);
    runtime.run(AgentRequest { mode, ..AgentRequest::text(session(), "go") }).await.unwrap();
    let run = runtime.records(session()).await.unwrap();
    runtime.shutdown().await;

    let kinds = |journal: &[Arc<Record>]| -> Vec<String> {
        journal.iter().map(|record| serde_json::to_value(&record.fact).unwrap()["kind"].to_string()).collect()
    };
    assert_eq!(kinds(&stepped.journal), kinds(&run));
    let (stepped, run) = (folded(&stepped.journal), folded(&run));
    let said = |session: &Session| {
        session.history.iter().map(|message| serde_json::to_value(message).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(said(&stepped).len(), said(&run).len());
}
