//! A child has no more than its caller: tools, mode, folders, agents.

use bob::approvals::PermissionMode;
use bob::config::Limits;
use bob::model::ScriptedReply;
use bob::tools::{CallStatus, Policy};
use bob::{AgentRequest, AgentRuntime, BuildError};
use serde_json::json;

use crate::subagents::stage::{agent, asks, change, children, last, look, names, playing};
use crate::support::runtime::{build, in_folder, say, session, turn, within};
use crate::support::scratch::Scratch;

fn generous() -> Limits {
    Limits { max_steps: 200, max_tool_calls: 200, max_consecutive_errors: 50, ..Limits::default() }
}

#[tokio::test]
async fn a_child_has_the_tools_that_both_have() {
    let (builder, asked) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("worker", "go"),
        ("root", _) => ScriptedReply::text("done"),
        (_, 1) => ScriptedReply::call("own/two", json!({})),
        _ => ScriptedReply::text("ok"),
    });
    let worker = agent("worker").tools(["own/*", "other/**"]);
    let tools = ["own/one", "own/two", "else/three", "other/four"];
    let builder = tools.iter().fold(builder, |builder, name| builder.tools(look(name)));
    let policy = Policy { deny_tools: vec!["other/*".into()], mode: Some(PermissionMode::Auto), ..Policy::default() };
    let runtime = build(builder.policy(policy).subagent(worker)).await;
    let few = Some(vec!["own/one".to_owned(), "else/*".to_owned(), "agent/*".to_owned()]);
    for (number, allow_tools, expected) in [(1, few, &["own/one"][..]), (2, None, &["own/one", "own/two"][..])] {
        let id = session(&format!("s{number}"));
        turn(&runtime, AgentRequest { allow_tools, ..AgentRequest::text(id.clone(), "go") }).await;
        let [child] = &children(&runtime, &id).await[..] else { panic!("one child") };
        let asked = asked.lock().unwrap();
        let of_child: Vec<_> = asked.iter().filter(|request| request.session == child.session).collect();
        assert_eq!(names(of_child[0]), expected, "deny wins over both");
        let is_refused = last(of_child[1]).contains("not among the tools of this session");
        assert_eq!(is_refused, number == 1, "{}", last(of_child[1]));
    }
}

#[tokio::test]
async fn a_mode_is_never_wider_than_that_of_the_caller() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("worker", "go"),
        (_, 1) => ScriptedReply::call("own/change", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let builder = builder.tools(change("own/change")).subagent(agent("worker").mode(PermissionMode::Auto));
    let runtime = build(builder.permission_mode(PermissionMode::Ask)).await;
    for (id, mode, expected) in [
        ("unsaid", None, PermissionMode::Ask),
        ("plan", Some(PermissionMode::Plan), PermissionMode::Plan),
        ("auto", Some(PermissionMode::Auto), PermissionMode::Auto),
    ] {
        turn(&runtime, AgentRequest { mode, ..AgentRequest::text(session(id), "go") }).await;
        let [child] = &children(&runtime, &session(id)).await[..] else { panic!("one child") };
        let look = within(runtime.session(child.session.clone())).await.unwrap().unwrap();
        assert_eq!(look.options.mode, Some(expected), "{id}");
        let status = look.last.unwrap().tool_transcript[0].status;
        let is_run = expected == PermissionMode::Auto;
        assert_eq!(status, if is_run { CallStatus::Ok } else { CallStatus::Denied }, "{id}");
    }
}

#[tokio::test]
async fn the_folders_of_a_child_are_those_of_its_caller() {
    let folder = Scratch::new();
    let below = folder.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("worker", "go"),
        _ => ScriptedReply::text("done"),
    });
    let runtime =
        build(builder.turn_config(crate::support::runtime::at(folder.path())).subagent(agent("worker"))).await;
    let request = AgentRequest { options: Some(in_folder(&below)), ..say("go") };
    turn(&runtime, request).await;
    let [child] = &children(&runtime, &session("s")).await[..] else { panic!("one child") };
    assert_eq!(child.cwd.as_deref(), below.to_str());
}

#[tokio::test]
async fn an_agent_is_offered_no_agent_above_it_and_none_below_its_depth() {
    let (builder, asked) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("a", "go"),
        ("a", 1) => asks("b", "go"),
        ("b", 1) => asks("a", "round"),
        ("b", 2) => asks("c", "deeper"),
        ("c", 1) => asks("d", "too deep"),
        _ => ScriptedReply::text("done"),
    });
    let builder = builder.subagent(agent("a").max_depth(2)).subagent(agent("b").max_depth(8));
    let builder = builder.subagent(agent("c").max_depth(8)).subagent(agent("d")).limits(generous());
    let runtime = build(builder).await;
    turn(&runtime, say("go")).await;
    let asked = asked.lock().unwrap();
    let offered = |who: &str| asked.iter().find(|of| of.system.contains(&format!("are {who}."))).map(names).unwrap();
    assert_eq!(names(&asked[0]), ["agent/a", "agent/b", "agent/c", "agent/d"]);
    assert_eq!(offered("a"), ["agent/b", "agent/c", "agent/d"]);
    assert_eq!(offered("b"), ["agent/c", "agent/d"], "a is above it");
    assert_eq!(offered("c"), [""; 0], "two levels below a, whatever c's own depth says");
    let told = |who: &str, step: u32| {
        let of = asked.iter().find(|of| of.step == step && of.system.contains(&format!("are {who}."))).map(last);
        of.unwrap()
    };
    assert!(told("b", 2).contains("the agent a works on this already"), "{}", told("b", 2));
    assert!(told("c", 2).contains("no agent may work below this one"), "{}", told("c", 2));
    assert!(!asked.iter().any(|request| request.system.contains("are d.")));
}

#[tokio::test]
async fn a_session_of_an_agent_does_not_call_that_agent() {
    let (builder, asked) = playing(|_, _| ScriptedReply::text("done"));
    let runtime = build(builder.subagent(agent("a")).subagent(agent("b"))).await;
    turn(&runtime, say("go").agent(&agent("a"))).await;
    assert_eq!(names(&asked.lock().unwrap()[0]), ["agent/b"]);
}

#[tokio::test]
async fn at_most_eight_levels_work_below_a_session() {
    let (builder, asked) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("a0", "go"),
        (who, 1) => {
            let next = who[1..].parse::<u32>().unwrap() + 1;
            asks(&format!("a{next}"), "go")
        }
        _ => ScriptedReply::text("done"),
    });
    let all = (0..12).map(|number| agent(&format!("a{number}")).max_depth(50).budget_ratio(1.0));
    let runtime = build(all.fold(builder, bob::RuntimeBuilder::subagent).limits(generous())).await;
    turn(&runtime, say("go")).await;
    let asked = asked.lock().unwrap();
    let sessions: std::collections::BTreeSet<_> = asked.iter().map(|request| request.session.clone()).collect();
    assert_eq!(sessions.len(), 9, "the root and eight below it");
}

#[tokio::test]
async fn names_of_agents_are_unique_and_usable() {
    for (agents, why) in [
        (vec![agent("a"), agent("a")], "two sub-agents have one name"),
        (vec![agent("a/b")], "no usable name"),
        (vec![agent("")], "no usable name"),
    ] {
        let (builder, _) = playing(|_, _| ScriptedReply::text("done"));
        let error = agents.into_iter().fold(builder, bob::RuntimeBuilder::subagent).build().await.unwrap_err();
        assert!(matches!(&error, BuildError::SubAgents(text) if text.contains(why)), "{error}");
    }
}
