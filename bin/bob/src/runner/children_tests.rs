use super::*;
use crate::facade::{Agent, AgentRequest, AgentRuntime, RuntimeBuilder};
use bob_actors::llm::{ScriptedCall, ScriptedLlm, ScriptedReply};
use bob_actors::tools::{FnTool, Policy, ToolPort, tool};
use bob_messages::chat::{CallStatus, FinishReason};
use bob_messages::ids::{ModelName, SessionId};
use bob_messages::limits::Limits;
use bob_messages::llm::LlmRequest;
use bob_messages::options::OnParentEnd;
use bob_messages::permission::PermissionMode;
use bob_messages::session_state::Session;
use bob_messages::tools::Risk;
use bob_messages::turn_config::TurnConfig;
use futures_util::FutureExt;
use serde_json::json;
use std::sync::Mutex;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn looks(name: &str) -> FnTool {
    tool(name, "Looks.", |_: Nothing, _| async { Ok(ToolOutput::text("seen")) })
}

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn name() -> ModelName {
    ModelName::parse("scripted:one").unwrap()
}

/// An agent that knows its name.
fn agent(name: &str) -> Agent {
    Agent::new(name).instructions(format!("You are {name}."))
}

fn request(tools: &[&FnTool], agents: impl IntoIterator<Item = Agent>) -> RunnerRequest {
    let tools = tools.iter().flat_map(|tool| tool.list_tools().now_or_never().unwrap()).collect();
    let limits = Limits { max_consecutive_errors: 5, ..Limits::default() };
    let request = RunnerRequest::text(session(), name(), "go").tools(tools).mode(PermissionMode::Auto);
    request.limits(limits).subagents(agents)
}

type Requests = Arc<Mutex<Vec<LlmRequest>>>;

/// A model that answers by who is asked, and at which step.
fn playing(play: impl Fn(&str, u32) -> ScriptedReply + Send + Sync + 'static) -> (ScriptedLlm, Requests) {
    let asked = Requests::default();
    let kept = Arc::clone(&asked);
    let model = ScriptedLlm::from_fn(move |request| {
        kept.lock().unwrap().push(request.clone());
        let who = request.system.split_once("You are ").map_or("root", |(_, who)| who.split('.').next().unwrap());
        play(who, request.step)
    });
    (model, asked)
}

fn asks(agent: &str) -> ScriptedReply {
    ScriptedReply::call(format!("agent/{agent}"), json!({"task": format!("do what {agent} does")}))
}

fn calls(names: &[&str]) -> ScriptedReply {
    let arguments = |name: &str| if name.starts_with("agent/") { json!({"task": name}) } else { json!({}) };
    let calls = names.iter().map(|name| ScriptedCall { name: (*name).to_owned(), arguments: arguments(name) });
    ScriptedReply::Calls(calls.collect())
}

async fn completed(request: RunnerRequest, model: &ScriptedLlm, tools: &FnTool) -> Finished {
    AgentRunner::new(request, model).unwrap().run_to_completion(model, tools).await
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

fn moved<S: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
    runner: AgentRunner<S>,
) -> AgentRunner<S> {
    let there = serde_json::from_str(&serde_json::to_string(&runner).unwrap()).unwrap();
    assert_eq!(runner, there);
    there
}

fn names(calls: &[Arc<ToolCall>]) -> Vec<&str> {
    calls.iter().map(|call| call.name.as_str()).collect()
}

fn results(finished: &Finished) -> Vec<(CallStatus, &str)> {
    finished.response.tool_transcript.iter().map(|entry| (entry.status, entry.result.as_str())).collect()
}

fn offered(asked: &Requests, who: &str) -> Vec<String> {
    let asked = asked.lock().unwrap();
    let of = asked.iter().find(|request| request.system.contains(who)).expect("it was asked");
    of.tools.tools().iter().map(|tool| tool.id.to_string()).collect()
}

#[tokio::test]
async fn the_answer_of_a_child_is_the_result_and_what_it_used_counts_for_its_caller() {
    let (model, asked) = playing(|who, step| match (who, step) {
        ("root", 1) => asks("reader"),
        ("root", _) => ScriptedReply::text("done"),
        (_, 1) => calls(&["local/look"]),
        _ => ScriptedReply::text("it says 42"),
    });
    let look = looks("local/look");
    let reader = agent("reader").tools(["local/look"]);
    let done = completed(request(&[&look, &looks("local/other")], [reader]), &model, &look).await;
    assert_eq!((done.response.content.as_str(), done.response.steps), ("done", 2));
    assert_eq!(results(&done), [(CallStatus::Ok, "it says 42")]);
    let used = done.response.delegated.unwrap();
    assert_eq!((used.sessions, used.steps, used.tool_calls), (1, 2, 1));
    assert!(used.usage.total_tokens > 0, "{used:?}");
    assert_eq!(offered(&asked, "You are reader"), ["local/look"], "it has no tool that it is not given");
    let asked = asked.lock().unwrap();
    assert!(format!("{:?}", asked[1].messages).contains("do what reader does"), "{:?}", asked[1].messages);
    assert!(asked[1].session.as_str().starts_with("s."), "{}", asked[1].session);
}

#[tokio::test]
async fn a_child_within_a_child_counts_at_both_levels_and_ends_at_the_depth_of_its_agents() {
    let (model, asked) = playing(|who, step| match (who, step) {
        ("root", 1) => asks("planner"),
        ("planner", 1) => asks("reader"),
        // It is not offered: it works on this already.
        ("reader", 1) => asks("planner"),
        ("reader", 2) => asks("other"),
        (who, _) => ScriptedReply::text(format!("done by {who}")),
    });
    let agents = [agent("planner").max_depth(1).budget_ratio(1.0), agent("reader").budget_ratio(1.0), agent("other")];
    let done = completed(request(&[], agents), &model, &looks("local/look")).await;
    assert_eq!(results(&done), [(CallStatus::Ok, "done by planner")]);
    let used = done.response.delegated.unwrap();
    assert_eq!((used.sessions, used.steps), (2, 5), "{used:?}");
    assert_eq!(offered(&asked, "You are planner"), ["agent/reader", "agent/other"], "none calls itself");
    assert_eq!(offered(&asked, "You are reader"), Vec::<String>::new(), "no agent may work below this one");
    let asked = asked.lock().unwrap();
    let last = format!("{:?}", asked.iter().rfind(|of| of.system.contains("You are reader")).unwrap().messages);
    assert!(last.contains("the agent planner works on this already"), "{last}");
    assert!(last.contains("no agent may work below this one"), "{last}");
}

#[tokio::test]
async fn a_child_that_reaches_a_limit_is_an_error_with_what_it_has() {
    let (model, _) = playing(|who, step| match (who, step) {
        ("root", 1) => asks("looper"),
        ("root", 2) => asks("missing"),
        ("root", _) => ScriptedReply::text("enough"),
        _ => calls(&["local/look"]),
    });
    let look = looks("local/look");
    let done = completed(request(&[&look], [agent("looper").max_steps(2)]), &model, &look).await;
    let [(status, looped), (of_missing, _)] = results(&done)[..] else { panic!("two calls") };
    assert_eq!((status, of_missing), (CallStatus::Error, CallStatus::Error));
    assert!(looped.starts_with("the agent looper reached a limit before it had an answer"), "{looped}");
    assert!(looped.contains("2 model calls (max_steps)"), "{looped}");
    assert_eq!((done.response.content.as_str(), done.response.delegated.unwrap().steps), ("enough", 2));
}

#[tokio::test]
async fn calls_of_a_step_with_agents_are_handed_out_in_order_and_survive_a_move_to_another_process() {
    let (model, _) = playing(|who, step| match (who, step) {
        ("root", 1) => calls(&["local/a", "agent/reader", "agent/writer", "local/b"]),
        ("root", _) => ScriptedReply::text("done"),
        (who, _) => ScriptedReply::text(format!("of {who}")),
    });
    let (a, b) = (looks("local/a"), looks("local/b"));
    let ready = AgentRunner::new(request(&[&a, &b], [agent("reader"), agent("writer")]), &model).unwrap();
    let plain = |call: &Arc<ToolCall>| (call.id.clone(), ToolOutput::text(format!("of {}", call.name)));

    let runner = moved(wanted(ready.infer(&model).await));
    assert_eq!(names(runner.pending_calls()), ["local/a"]);
    assert!(runner.child(&runner.pending_calls()[0].id).is_none(), "it is no call of an agent");
    let given = runner.pending_calls().iter().map(plain).collect();
    let ready = moved(runner.provide_tool_results(given).unwrap());

    let runner = moved(wanted(ready.infer(&model).await));
    assert_eq!(names(runner.pending_calls()), ["agent/reader", "agent/writer"], "beside each other");
    let mut given = Vec::new();
    for call in runner.pending_calls() {
        let child = AgentRunner::new(runner.child(&call.id).unwrap(), &model).unwrap();
        let child = over(moved(child).infer(&model).await);
        given.push(moved(runner.clone()).result_of(&child).unwrap());
        assert_eq!(given.last().unwrap().0, call.id);
    }
    let other = AgentRunner::new(request(&[], []), &model).unwrap().cancel("never mind");
    assert!(runner.result_of(&other).is_none(), "it worked for no call");
    given.reverse();
    let ready = moved(runner.provide_tool_results(given).unwrap());

    let runner = moved(wanted(ready.infer(&model).await));
    assert_eq!(names(runner.pending_calls()), ["local/b"]);
    let given = runner.pending_calls().iter().map(plain).collect();
    let done = over(runner.provide_tool_results(given).unwrap().infer(&model).await);
    let said: Vec<_> = results(&done).into_iter().map(|(_, result)| result).collect();
    assert_eq!(said, ["of local/a", "of reader", "of writer", "of local/b"]);
    assert_eq!(done.response.delegated.unwrap().sessions, 2);
}

#[tokio::test]
async fn a_call_of_an_agent_that_a_person_is_asked_about_has_a_child_once_it_is_allowed() {
    let (model, _) = playing(|who, step| match (who, step) {
        ("root", 1) => calls(&["agent/reader", "local/a"]),
        ("root", _) => ScriptedReply::text("done"),
        _ => ScriptedReply::text("of reader"),
    });
    let policy = Policy { ask: vec!["agent/reader".into(), "local/a".into()], ..Policy::default() };
    let ready = AgentRunner::new(request(&[&looks("local/a")], [agent("reader")]).policy(policy), &model).unwrap();
    let runner = wanted(ready.infer(&model).await);
    assert_eq!(names(runner.pending_calls()), ["agent/reader", "local/a"]);
    let of_reader = runner.pending_calls()[0].id.clone();
    assert!(runner.approval_wanted(&of_reader).is_some() && runner.child(&of_reader).is_none());
    let runner = moved(moved(runner.require_approval("the policy asks")).approve());
    assert_eq!(names(runner.pending_calls()), ["agent/reader"]);
    let child = over(AgentRunner::new(runner.child(&of_reader).unwrap(), &model).unwrap().infer(&model).await);
    let given = vec![runner.result_of(&child).unwrap()];
    let runner = wanted(moved(runner.provide_tool_results(given).unwrap()).infer(&model).await);
    assert_eq!(names(runner.pending_calls()), ["local/a"], "what was allowed with it is not asked about again");
    let of_a = runner.pending_calls()[0].id.clone();
    assert!(runner.approval_wanted(&of_a).is_none());
    let given = vec![(of_a, ToolOutput::text("of a"))];
    let done = over(runner.provide_tool_results(given).unwrap().infer(&model).await);
    assert_eq!(results(&done), [(CallStatus::Ok, "of reader"), (CallStatus::Ok, "of a")]);
}

#[tokio::test]
async fn more_agents_than_may_work_at_once_are_handed_out_one_after_another() {
    let (model, _) = playing(|who, step| match (who, step) {
        ("root", 1) => calls(&["agent/a", "agent/b", "local/c"]),
        (who, _) => ScriptedReply::text(format!("of {who}")),
    });
    let c = looks("local/c").risk(Risk::High);
    let turn_config = TurnConfig { max_parallel_subagents: 1, ..TurnConfig::new(name()) };
    let asking = request(&[&c], [agent("a"), agent("b")]).turn_config(turn_config).mode(PermissionMode::Ask);
    let runner = wanted(AgentRunner::new(asking, &model).unwrap().infer(&model).await);
    assert_eq!(names(runner.pending_calls()), ["agent/a", "local/c"], "a person can be asked meanwhile");
    let mut runner = runner.require_approval("it is risky").approve();
    for expected in ["agent/a", "agent/b", "local/c"] {
        assert_eq!(names(runner.pending_calls()), [expected], "what was allowed waits until it may run");
        let call = Arc::clone(&runner.pending_calls()[0]);
        let given = match runner.child(&call.id) {
            Some(child) => {
                let child = over(AgentRunner::new(child, &model).unwrap().infer(&model).await);
                runner.result_of(&child).unwrap()
            }
            None => (call.id.clone(), ToolOutput::text("of c")),
        };
        // Its result would be lost if the turn ended now, and that says so.
        if expected == "local/c" {
            let done = runner.clone().cancel("never mind");
            assert_eq!(results(&done)[2].0, CallStatus::Unknown);
        }
        let ready = moved(runner.provide_tool_results(vec![given]).unwrap());
        match ready.infer(&model).await {
            AgentStepResult::RequiresTool(next) => runner = next,
            AgentStepResult::Finished(done) => {
                let said: Vec<_> = results(&done).into_iter().map(|(_, result)| result).collect();
                assert_eq!(said, ["of a", "of b", "of c"]);
                return;
            }
        }
    }
    panic!("it is over after all calls");
}

#[tokio::test]
async fn what_a_child_needs_a_person_for_ends_it_where_none_can_be_asked() {
    let (model, _) = playing(|who, step| match (who, step) {
        ("root", 1) => asks("asker"),
        ("root", 2) => asks("writer"),
        ("root", _) => ScriptedReply::text("done"),
        ("asker", 1) => ScriptedReply::call("ask_user", json!({"question": "Which one?"})),
        ("asker", _) => ScriptedReply::text("the first one"),
        _ => calls(&["local/write"]),
    });
    let write = looks("local/write").risk(Risk::High);
    let asking = request(&[&write], [agent("asker"), agent("writer")]).mode(PermissionMode::Ask);
    let done = completed(asking, &model, &write).await;
    let [asker, (status, writer)] = results(&done)[..] else { panic!("two calls") };
    assert_eq!(asker, (CallStatus::Ok, "the first one"));
    assert_eq!(status, CallStatus::Error);
    assert!(
        writer.contains("the agent writer was cancelled") && writer.contains("no approval is possible"),
        "{writer}"
    );
    assert_eq!((done.response.finish_reason, done.response.content.as_str()), (FinishReason::Final, "done"));
}

#[tokio::test]
async fn an_agent_in_the_background_works_inline() {
    let (model, asked) = playing(|who, step| match (who, step) {
        ("root", 1) => asks("reader"),
        (who, _) => ScriptedReply::text(format!("of {who}")),
    });
    let reader = agent("reader").in_background(OnParentEnd::Continue);
    let done = completed(request(&[], [reader]), &model, &looks("local/look")).await;
    assert_eq!(results(&done), [(CallStatus::Ok, "of reader")]);
    assert!(!asked.lock().unwrap()[0].tools.tools().iter().any(|tool| tool.id.as_str() == "agent/status"));
}

#[tokio::test]
async fn a_turn_with_a_child_at_work_can_be_cancelled_and_agents_that_cannot_be_are_refused() {
    let (model, _) = playing(|_, _| asks("reader"));
    let runner = wanted(AgentRunner::new(request(&[], [agent("reader")]), &model).unwrap().infer(&model).await);
    let done = runner.cancel("never mind");
    assert_eq!((done.response.finish_reason, done.response.tool_transcript.len()), (FinishReason::Cancelled, 1));
    assert!(Session::fold(session(), done.journal.iter()).open.is_none());
    for (agents, why) in [
        (vec![agent("no name")], "has no usable name"),
        (vec![agent("a"), agent("a")], "two sub-agents have one name"),
        (vec![agent("status")], "a tool has that name"),
    ] {
        let error = AgentRunner::new(request(&[], agents), &model).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// There is one loop: the turn of a runner hands down, counts and journals what that of an actor does.
#[tokio::test]
async fn a_runner_and_a_runtime_write_the_same_journal_of_a_turn_that_calls_agents() {
    let look = || looks("local/look");
    let script = || {
        let (model, asked) = playing(|who, step| match (who, step) {
            ("root", 1) => calls(&["agent/planner", "local/look"]),
            ("planner", 1) => asks("reader"),
            (who, _) => ScriptedReply::text(format!("of {who}")),
        });
        (Arc::new(model), asked)
    };
    let agents = || [agent("planner").max_depth(1), agent("reader").max_steps(3)];
    let (model, in_runner) = script();
    let stepped = completed(request(&[&look()], agents()), &model, &look()).await;

    let (model, in_runtime) = script();
    let builder = RuntimeBuilder::new(name()).model(model).tools(Arc::new(look())).local_tools(false);
    let runtime = agents().into_iter().fold(builder, RuntimeBuilder::subagent).build().await.unwrap();
    let mode = Some(PermissionMode::Auto);
    let run = runtime.run(AgentRequest { mode, ..AgentRequest::text(session(), "go") }).await.unwrap();
    let journal = runtime.records(session()).await.unwrap();
    runtime.shutdown().await;

    let kinds = |journal: &[Arc<Record>]| -> Vec<String> {
        journal.iter().map(|record| serde_json::to_value(&record.fact).unwrap()["kind"].to_string()).collect()
    };
    assert_eq!(kinds(&stepped.journal), kinds(&journal));
    let run = run.response();
    assert_eq!((stepped.response.steps, stepped.response.delegated), (run.steps, run.delegated.clone()));
    let prompts = |asked: &Requests| -> Vec<(String, Vec<String>)> {
        let tools = |of: &LlmRequest| of.tools.tools().iter().map(|tool| tool.id.to_string()).collect();
        asked.lock().unwrap().iter().map(|of| (of.system.to_string(), tools(of))).collect()
    };
    assert_eq!(prompts(&in_runner), prompts(&in_runtime));
}

#[tokio::test]
async fn a_child_that_another_process_left_has_an_unknown_outcome() {
    let (model, _) = playing(|_, _| asks("reader"));
    let runner = wanted(AgentRunner::new(request(&[], [agent("reader")]), &model).unwrap().infer(&model).await);
    let left = runner.journal().to_vec();
    let next = AgentRunner::new(request(&[], [agent("reader")]).journal(left), &model).unwrap();
    let session = Session::fold(session(), next.cancel("never mind").journal.iter());
    assert!(session.open.is_none());
    let told = format!("{:?}", session.history);
    assert!(told.contains("outcome unknown: the turn ended while the tool was running"), "{told}");
}

#[tokio::test]
async fn a_child_whose_model_is_a_selector_is_not_started_and_its_caller_reads_why() {
    let (model, _) = playing(|who, step| match (who, step) {
        ("root", 1) => asks("reader"),
        _ => ScriptedReply::text("done"),
    });
    let reader = agent("reader").model(ModelName::parse("select:cheap").unwrap());
    let done = completed(request(&[], [reader]), &model, &looks("local/look")).await;
    let [(status, why)] = results(&done)[..] else { panic!("one call") };
    assert_eq!(status, CallStatus::Error);
    assert!(why.contains("the agent reader was not started") && why.contains("name a model"), "{why}");
}
