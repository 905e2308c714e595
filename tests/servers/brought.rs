//! Tool servers of sessions: shared by equal specs, hidden from others, and ended after the last session.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bob::config::Limits;
use bob::model::{Capabilities, LlmRequest, ScriptedLlm, ScriptedReply};
use bob::sessions::{Change, FinishReason, OptionsPatch, SessionOptions};
use bob::tools::servers::{ServerId, ServerSpec};
use bob::{AgentError, AgentRequest, AgentRuntime, Runtime, RuntimeBuilder, SessionId};
use bob_messages::chat::{CallStatus, Message};

use crate::servers::fixture::{AGENT, kill};
use crate::support::runtime::{model_name, session, within};

pub(super) const CANARY: &str = "sk-canary-7f3a";

/// A model that calls the requested tool, and replies with its result, or with the list of tools.
fn obeys(request: &LlmRequest) -> ScriptedReply {
    match request.messages.last().map(AsRef::as_ref) {
        Some(Message::Tool { result }) => ScriptedReply::text(result.output.for_model()),
        Some(Message::User { parts }) if parts[0].as_text() == "tools" => {
            let names: Vec<_> = request.tools.tools().iter().map(|tool| tool.id.to_string()).collect();
            ScriptedReply::text(format!("tools: {}", names.join(" ")))
        }
        Some(Message::User { parts }) if parts[0].as_text().starts_with("Your reply") => {
            ScriptedReply::text("there is no such tool")
        }
        Some(Message::User { parts }) => {
            let said = parts[0].as_text();
            let (name, arguments) = said.split_once(' ').unwrap_or((&said, "{}"));
            ScriptedReply::call(name, serde_json::from_str(arguments).expect("arguments"))
        }
        _ => ScriptedReply::text("nothing to do"),
    }
}

pub(super) fn fixture() -> RuntimeBuilder {
    let can = Capabilities { native_tools: true, ..Capabilities::default() };
    let policy = bob::tools::Policy { require_high_risk_approval: false, ..bob::tools::Policy::default() };
    RuntimeBuilder::new(model_name())
        .model(Arc::new(ScriptedLlm::from_fn(obeys).with_capabilities(can)))
        .policy(policy)
        .local_tools(false)
        .brought_servers_end_after(Duration::from_millis(100))
}

pub(super) fn drill(id: &str) -> ServerSpec {
    ServerSpec::stdio(ServerId::new(id), AGENT, ["drill-server"])
}

pub(super) fn bringing(launches: &[ServerSpec]) -> SessionOptions {
    SessionOptions { servers: launches.into(), ..SessionOptions::default() }
}

pub(super) async fn built(builder: RuntimeBuilder) -> Runtime {
    builder.build().await.expect("a runtime")
}

/// The model's final text.
pub(super) async fn says(runtime: &Runtime, id: &str, text: &str) -> String {
    let result = within(runtime.run(AgentRequest::text(session(id), text))).await.expect("it is taken");
    result.response().content.clone()
}

pub(super) async fn pid(runtime: &Runtime, id: &str) -> i32 {
    let said = says(runtime, id, "mcp/x/pid").await;
    said.trim().parse().unwrap_or_else(|_| panic!("no process id: {said}"))
}

/// Waits until a process has ended, while the runtime continues.
#[track_caller]
pub(super) fn ended(pid: i32) -> impl Future<Output = ()> {
    within(async move {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
}

pub(super) fn lives(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn sessions_that_bring_the_same_share_one_process_and_nobody_else_sees_it() {
    let runtime = built(fixture()).await;
    within(runtime.open(session("a"), bringing(&[drill("x")]))).await.expect("it opens");
    within(runtime.open(session("b"), bringing(&[drill("x")]))).await.expect("it opens");
    let other_key = drill("x").with("KEY", CANARY);
    within(runtime.open(session("d"), bringing(&[other_key]))).await.expect("it opens");
    assert!(says(&runtime, "a", "tools").await.contains("mcp/x/echo"));
    let (a, b, d) = (pid(&runtime, "a").await, pid(&runtime, "b").await, pid(&runtime, "d").await);
    assert_eq!(a, b, "one process for both");
    assert_ne!(a, d, "another key is another server");
    let environment = std::fs::read(format!("/proc/{d}/environ")).expect("its environment");
    assert!(String::from_utf8_lossy(&environment).contains(CANARY), "it was given its key");
    // Sessions without the server do not see its tools, and cannot call them by guessing.
    assert_eq!(says(&runtime, "c", "tools").await, "tools: ");
    let guess = within(runtime.run(AgentRequest::text(session("c"), "mcp/x/pid"))).await.expect("it is taken");
    assert!(guess.response().tool_transcript.iter().all(|call| call.status == CallStatus::Error), "{guess:?}");
    assert!(runtime.tools_now().is_empty() && runtime.servers().is_empty());
    // One of two sessions detaches it without an effect on the other. A server unused since then has ended.
    within(runtime.open(session("e"), bringing(&[drill("x").with("KEY", "another")]))).await.expect("it opens");
    let e = pid(&runtime, "e").await;
    assert!(within(runtime.close(session("a"))).await);
    assert!(within(runtime.close(session("e"))).await);
    ended(e).await;
    assert_eq!(pid(&runtime, "b").await, a);
    assert!(within(runtime.delete(session("b"))).await.expect("it is deleted"));
    ended(a).await;
    assert!(lives(d), "the other one goes on");
    runtime.shutdown().await;
    ended(d).await;
}

#[tokio::test]
async fn a_server_of_a_session_that_dies_is_started_again_and_a_call_in_doubt_is_unknown() {
    let runtime = built(fixture()).await;
    within(runtime.open(session("a"), bringing(&[drill("x")]))).await.expect("it opens");
    let first = pid(&runtime, "a").await;
    let crashed = within(runtime.run(AgentRequest::text(session("a"), "mcp/x/crash"))).await.expect("it is taken");
    let call = &crashed.response().tool_transcript[0];
    assert_eq!(call.status, CallStatus::Unknown, "{call:?}");
    let second = pid(&runtime, "a").await;
    assert_ne!(first, second);
    kill(second);
    // A call that was on its way when it died is unknown, and the next one finds the successor.
    let third = within(async {
        loop {
            if let Ok(third) = says(&runtime, "a", "mcp/x/pid").await.trim().parse::<i32>() {
                return third;
            }
        }
    });
    assert_ne!(third.await, second);
    runtime.shutdown().await;
}

#[tokio::test]
async fn what_changes_while_a_turn_runs_holds_from_the_next_turn() {
    // The running turn does not end by itself.
    let patient = Limits { tool_timeout_ms: 3_600_000, turn_timeout_ms: 3_600_000, ..Limits::default() };
    let runtime = built(fixture().limits(patient)).await;
    within(runtime.open(session("a"), bringing(&[drill("x")]))).await.expect("it opens");
    let first = pid(&runtime, "a").await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(AgentRequest::text(session("a"), "mcp/x/sleep {\"ms\": 3600000}")).await }
    });
    let begun = Instant::now();
    while runtime.health().await.running_turns == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the turn does not begin");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let patch = OptionsPatch { servers: Change::Set([drill("y")].into()), ..OptionsPatch::default() };
    let name = Some(bob::sessions::RequestId::new("change"));
    for _again in 0..2 {
        within(runtime.configure(session("a"), patch.clone(), name.clone())).await.expect("it is kept");
    }
    let records = within(runtime.records(session("a"))).await.expect("a journal");
    let changes = records.iter().filter(|record| format!("{:?}", record.fact).starts_with("Configured"));
    assert_eq!(changes.count(), 1, "one name is one change");
    assert!(lives(first) && !running.is_finished(), "the running turn keeps what it has");
    within(runtime.cancel(session("a"))).await;
    let result = within(running).await.expect("a turn").expect("it is taken");
    assert_eq!(result.response().finish_reason, FinishReason::Cancelled, "{result:?}");
    let tools = says(&runtime, "a", "tools").await;
    assert!(tools.contains("mcp/y/echo") && !tools.contains("mcp/x/"), "{tools}");
    ended(first).await;
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_session_that_was_let_go_for_idleness_keeps_its_servers() {
    let runtime = built(fixture().passivate_after(Duration::from_millis(20))).await;
    within(runtime.open(session("a"), bringing(&[drill("x")]))).await.expect("it opens");
    within(runtime.open(session("e"), bringing(&[drill("x").with("KEY", "another")]))).await.expect("it opens");
    let (first, other) = (pid(&runtime, "a").await, pid(&runtime, "e").await);
    let begun = Instant::now();
    while runtime.health().await.live_sessions > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not let go");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A server unused since then has ended.
    within(runtime.delete(session("e"))).await.expect("it is deleted");
    ended(other).await;
    assert_eq!(pid(&runtime, "a").await, first);
    // A change reaches it there, too.
    let patch = OptionsPatch { agent: Change::Set("ada".into()), ..OptionsPatch::default() };
    within(runtime.configure(session("a"), patch, None)).await.expect("it is kept");
    let look = within(runtime.session(session("a"))).await.expect("a journal").expect("a session");
    assert_eq!((look.options.agent.as_deref(), look.options.servers.len()), (Some("ada"), 1));
    runtime.shutdown().await;
}

#[tokio::test]
async fn what_cannot_stand_side_by_side_is_refused_and_what_is_configured_is_shared() {
    let runtime = built(fixture().tool_server(drill("x"))).await;
    let refused = async |launches: &[ServerSpec]| match within(runtime.open(session("a"), bringing(launches))).await {
        Err(AgentError::Invalid(why)) => why,
        other => panic!("not refused: {other:?}"),
    };
    assert!(refused(&[drill("y"), drill("y")]).await.contains("two tool servers"));
    assert!(refused(&[drill("local")]).await.contains("local"));
    assert!(refused(&[drill("a b")]).await.contains("id"));
    assert!(refused(&[drill("x").with("K", "v")]).await.contains("the configuration has another"));
    let unkept = drill("y").with("KEY", CANARY).stripped();
    let why = refused(&[unkept]).await;
    assert!(why.contains("KEY") && !why.contains(CANARY), "{why}");
    assert_eq!(within(runtime.session(session("a"))).await, Ok(None), "nothing was kept");
    // A spec equal to a configured server uses that one.
    within(runtime.open(session("a"), bringing(&[drill("x")]))).await.expect("it opens");
    assert_eq!(pid(&runtime, "a").await, pid(&runtime, "c").await);
    let tree = runtime.tree().await;
    let tools = tree.iter().find(|node| node.name == "tools").expect("a supervisor of the tools");
    assert_eq!(tools.children.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["local", "x"]);
    // A session that is there has its options; others are an error.
    within(runtime.open(session("a"), bringing(&[drill("x")]))).await.expect("the same again is nothing new");
    let other = within(runtime.open(session("a"), SessionOptions::default())).await;
    assert!(matches!(&other, Err(AgentError::Invalid(why)) if why.contains("configure")), "{other:?}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_server_that_asks_is_told_the_folders_of_its_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let real = folder.path().canonicalize().expect("a folder");
    for name in ["one", "two"] {
        std::fs::create_dir(real.join(name)).expect("a folder");
    }
    let at = |name: &str| real.join(name).display().to_string();
    let runtime = built(fixture().workspace(real.display().to_string())).await;
    let one = SessionOptions { roots: vec![at("one")], ..bringing(&[drill("x")]) };
    within(runtime.open(session("a"), one)).await.expect("it opens");
    within(runtime.open(session("b"), bringing(&[drill("x")]))).await.expect("it opens");
    let (a, b) = (says(&runtime, "a", "mcp/x/roots").await, says(&runtime, "b", "mcp/x/roots").await);
    assert!(a.contains(&at("one")), "{a}");
    assert!(b.contains(&real.display().to_string()) && !b.contains(&at("one")), "{b}");
    assert_ne!(pid(&runtime, "a").await, pid(&runtime, "b").await, "who sees other folders has another server");
    // It moves, and its server with it.
    let patch = OptionsPatch { roots: Change::Set(vec![at("two")]), ..OptionsPatch::default() };
    within(runtime.configure(session("a"), patch, None)).await.expect("it is kept");
    let a = says(&runtime, "a", "mcp/x/roots").await;
    assert!(a.contains(&at("two")) && !a.contains(&at("one")), "{a}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn sessions_are_listed_with_titles_states_and_parents() {
    let runtime = built(fixture()).await;
    let parent = bob::sessions::ParentTurn {
        session: session("above"),
        turn: bob::sessions::TurnId::new("t"),
        call: bob_messages::ids::CallId::new("c1"),
        depth: 1,
        line: None,
        on_parent_end: None,
    };
    let child = SessionOptions { parent: Some(parent), ..SessionOptions::default() };
    within(runtime.open(session("child"), child)).await.expect("it opens");
    says(&runtime, "child", "tools").await;
    says(&runtime, "other", "tools").await;
    let filter =
        bob::sessions::SessionFilter { parent: Some(session("above")), ..bob::sessions::SessionFilter::default() };
    let page = within(runtime.sessions(filter, None)).await.expect("a page");
    let [one] = page.sessions.as_slice() else { panic!("{page:?}") };
    assert_eq!((one.session.as_str(), one.title.as_deref(), one.turns), ("child", Some("tools"), Some(1)));
    assert_eq!(one.state, Some(bob::sessions::SessionState::Idle));
    let look = within(runtime.session(SessionId::parse("child").expect("an id"))).await.expect("a journal");
    assert!(look.expect("a session").options.parent.is_some());
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_refused_request_brings_nothing_to_a_session_that_is_not_there() {
    let runtime = built(fixture().max_concurrent_turns(1).max_waiting_turns(0)).await;
    within(runtime.open(session("b"), bringing(&[drill("y")]))).await.expect("it opens");
    let busy = tokio::spawn({
        let runtime = runtime.clone();
        async move { says(&runtime, "b", "mcp/y/sleep {\"ms\": 1500}").await }
    });
    let begun = Instant::now();
    while runtime.health().await.running_turns == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the turn does not begin");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let request = AgentRequest { options: Some(bringing(&[drill("x")])), ..AgentRequest::text(session("a"), "tools") };
    let refused = within(runtime.run(request)).await;
    assert!(matches!(refused, Err(AgentError::Overloaded { .. })), "{refused:?}");
    let names = async || {
        let tree = runtime.tree().await;
        let tools = tree.into_iter().find(|node| node.name == "tools").expect("a supervisor of the tools");
        tools.children.into_iter().map(|node| node.name).collect::<Vec<_>>()
    };
    // No one would close the session that failed to open.
    within(async {
        while names().await.iter().any(|name| name.starts_with("x~")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    busy.await.expect("a turn");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_refused_change_takes_nothing_from_a_session_that_it_had() {
    let runtime = built(fixture()).await;
    within(runtime.open(session("a"), bringing(&[drill("x")]))).await.expect("it opens");
    let others = SessionOptions { agent: Some("other".to_owned()), ..bringing(&[drill("x")]) };
    let refused = within(runtime.open(session("a"), others)).await;
    assert!(matches!(refused, Err(AgentError::Invalid(_))), "{refused:?}");
    let tools = says(&runtime, "a", "tools").await;
    assert!(tools.contains("mcp/x/echo"), "{tools}");
    runtime.shutdown().await;
}
