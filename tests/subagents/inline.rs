//! A call of an agent is a session that works for it, and its answer is the result.

use bob::approvals::PermissionMode;
use bob::context::RequestContext;
use bob::model::ScriptedReply;
use bob::sessions::{FinishReason, SessionState};
use bob::tools::CallStatus;
use bob::tools::agents::TaskContext;
use bob::{AgentRequest, AgentRuntime, ModelName};
use serde_json::json;

use crate::subagents::stage::{agent, asks, calls, children, last, look, playing};
use crate::support::runtime::{build, say, session, turn, within};

#[tokio::test]
async fn the_answer_of_a_child_session_is_the_result_of_the_call() {
    let (builder, asked) = playing(|who, request| match (who, request.step) {
        ("root", 1) => ScriptedReply::call("agent/reader", json!({"task": "read it", "context": "it is long"})),
        ("root", _) => ScriptedReply::text("done"),
        _reader => ScriptedReply::text("it says 42"),
    });
    let builder = builder.subagent(agent("reader").model(ModelName::parse("fake:small").unwrap()));
    let runtime = build(builder).await;
    let request = AgentRequest { context: Some(RequestContext::of_tenant("acme").into()), ..say("what does it say?") };
    let response = turn(&runtime, request).await;
    assert_eq!(response.content, "done");
    let call = &response.tool_transcript[0];
    assert_eq!((call.status, call.result.as_str()), (CallStatus::Ok, "it says 42"));

    let [child] = &children(&runtime, &session("s")).await[..] else { panic!("one child") };
    assert_eq!((child.state, child.title.as_deref()), (Some(SessionState::Idle), Some("read it Context: it is long")));
    assert_eq!(child.tenant.as_ref().map(|tenant| tenant.as_str()), Some("acme"));
    let look = within(runtime.session(child.session.clone())).await.unwrap().unwrap();
    let parent = look.options.parent.unwrap();
    assert_eq!((parent.session, parent.turn, parent.call), (session("s"), response.turn_id.clone(), call.id.clone()));
    assert_eq!((parent.depth, &parent.line.unwrap().agents[..]), (1, &["reader".to_owned()][..]));
    assert_eq!((look.options.agent.as_deref(), look.options.mode), (Some("reader"), Some(PermissionMode::Auto)));
    let asked = asked.lock().unwrap();
    let of_child = asked.iter().find(|request| request.session == child.session).unwrap();
    assert_eq!((of_child.model.as_str(), of_child.context.is_some()), ("fake:small", true));
    let trace = |header: &str| header.split('-').nth(1).unwrap().to_owned();
    assert_eq!(trace(&of_child.traceparent), trace(&asked[0].traceparent), "one trace");
}

#[tokio::test]
async fn what_a_child_used_counts_as_used_by_its_parent_and_is_told_apart() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => calls([("agent/reader", json!({"task": "a"})), ("agent/reader", json!({"task": "b"}))]),
        ("root", _) => ScriptedReply::text("done"),
        (_, 1) => ScriptedReply::call("own/look", json!({})),
        _ => ScriptedReply::text("seen"),
    });
    let runtime = build(builder.tools(look("own/look")).subagent(agent("reader"))).await;
    let response = turn(&runtime, say("go")).await;
    assert_eq!((response.finish_reason, response.steps), (FinishReason::Final, 2));
    let used = response.delegated.expect("it is told");
    assert_eq!((used.sessions, used.steps, used.tool_calls), (2, 4, 2));
    let mut sum = bob::model::Usage::default();
    for child in children(&runtime, &session("s")).await {
        let look = within(runtime.session(child.session)).await.unwrap().unwrap();
        let outcome = look.last.unwrap();
        sum.add(&outcome.usage);
        assert_eq!(outcome.delegated, None);
    }
    assert!(used.usage.total_tokens > 0 && used.usage == sum, "{used:?}");
}

#[tokio::test]
async fn a_child_that_is_stopped_by_a_limit_or_fails_is_an_error_with_what_it_has() {
    let (builder, asked) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("looper", "go round"),
        ("root", 2) => asks("broken", "fail"),
        ("root", _) => ScriptedReply::text("enough"),
        ("looper", _) => ScriptedReply::call("own/look", json!({})),
        _broken => ScriptedReply::Malformed(String::new()),
    });
    let looper = agent("looper").max_steps(2);
    let runtime = build(builder.tools(look("own/look")).subagent(looper).subagent(agent("broken"))).await;
    let limits = bob::config::Limits { max_consecutive_errors: 5, ..bob::config::Limits::default() };
    let response = turn(&runtime, AgentRequest { limits: Some(limits), ..say("go") }).await;
    assert_eq!(response.content, "enough");
    let [looped, broken] = &response.tool_transcript[..] else { panic!("two calls") };
    assert_eq!((looped.status, broken.status), (CallStatus::Error, CallStatus::Error));
    assert!(looped.result.starts_with("the agent looper reached a limit before it had an answer"), "{}", looped.result);
    assert!(looped.result.contains("2 model calls (max_steps)"), "{}", looped.result);
    assert!(broken.result.starts_with("the agent broken failed: "), "{}", broken.result);
    assert!(last(asked.lock().unwrap().last().unwrap()).contains("broken failed"));
}

#[tokio::test]
async fn a_child_has_nobody_to_ask_and_waits_for_nothing_outside() {
    let (builder, asked) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("asker", "ask"),
        ("root", _) => ScriptedReply::text("done"),
        (_, 1) => ScriptedReply::call("ask_user", json!({"question": "Which one?"})),
        (_, 2) => ScriptedReply::call("own/outside", json!({})),
        _ => ScriptedReply::text("the first one"),
    });
    let outside = bob::tools::tool("own/outside", "Waits.", |_: crate::subagents::stage::Nothing, _| async {
        Ok(bob::tools::ToolOutput::waits_for("a letter"))
    });
    let limits = bob::config::Limits { max_consecutive_errors: 5, ..bob::config::Limits::default() };
    let builder = builder.tools(std::sync::Arc::new(outside)).limits(limits).subagent(agent("asker"));
    let runtime = build(builder).await;
    let response = turn(&runtime, say("go")).await;
    assert_eq!(response.tool_transcript[0].result, "the first one");
    let asked = asked.lock().unwrap();
    let told = |step: u32| asked.iter().find(|of| of.step == step && of.system.contains("asker")).map(last).unwrap();
    assert!(told(2).contains("not asked: an agent that works for another one has no user to ask"), "{}", told(2));
    assert!(told(3).contains("waits for something outside, which an agent"), "{}", told(3));
}

#[tokio::test]
async fn a_child_is_told_of_the_conversation_only_if_its_profile_says_so() {
    let (builder, asked) = playing(|who, request| match (who, request.step) {
        ("root", 1) if last(request).contains("go") => {
            calls([("agent/knows", json!({"task": "a"})), ("agent/plain", json!({"task": "b"}))])
        }
        ("root", _) => ScriptedReply::text("the tower is old"),
        _ => ScriptedReply::text("ok"),
    });
    let knows = agent("knows").context(TaskContext::Summary);
    let runtime = build(builder.subagent(knows).subagent(agent("plain"))).await;
    turn(&runtime, say("how old is it?")).await;
    turn(&runtime, say("go")).await;
    let asked = asked.lock().unwrap();
    let told = |who: &str| asked.iter().find(|of| of.system.contains(who)).map(last).unwrap();
    assert!(told("knows").contains("The conversation so far, in short:\\nuser: how old is it?"), "{}", told("knows"));
    assert!(told("knows").contains("assistant: the tower is old"));
    assert!(!told("plain").contains("tower"), "{}", told("plain"));
}
