//! Tool servers of an embedding program: the facade, its events and its port to a person.

use std::sync::Arc;
use std::time::Duration;

use bob::approvals::{ApprovalPort, Elicitation, ElicitationAnswer, PermissionMode};
use bob::context::RequestContext;
use bob::events::AgentEvent;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::servers::{Isolation, ServerId, ServerSpec, ServerState};
use bob::{AgentRuntime, BuildError, RuntimeBuilder};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::servers::fixture::{AGENT, kill};
use crate::support::runtime::{Recorder, model_name, say, scripted, within};

fn spec(id: &str, args: &[&str]) -> ServerSpec {
    let args = std::iter::once("drill-server").chain(args.iter().copied());
    ServerSpec::stdio(ServerId::new(id), AGENT, args)
}

fn over(replies: Vec<ScriptedReply>) -> RuntimeBuilder {
    RuntimeBuilder::new(model_name())
        .permission_mode(PermissionMode::Auto)
        .model(Arc::new(ScriptedLlm::replies(replies)))
}

async fn state(
    runtime: &bob::Runtime,
    id: &str,
    reached: impl Fn(&bob::tools::servers::ServerStatus) -> bool,
) -> bob::tools::servers::ServerStatus {
    let mut changes = runtime.server_changes();
    within(async {
        loop {
            let found = runtime.servers().into_iter().find(|server| server.id.as_str() == id);
            if let Some(server) = found.filter(|server| reached(server)) {
                return server;
            }
            changes.changed().await.expect("a runtime that lives");
        }
    })
    .await
}

fn ready(server: &bob::tools::servers::ServerStatus) -> bool {
    server.state == ServerState::Ready
}

#[tokio::test]
async fn sinks_hear_of_processes_and_of_restarts_without_a_session() {
    let recorder = Recorder::new();
    let builder = scripted(vec![ScriptedReply::text("hi")]).sink(recorder.clone());
    let runtime = builder.tool_server(spec("drill", &[])).build().await.expect("a runtime");
    let first = state(&runtime, "drill", ready).await.pid.expect("a process");
    kill(first);
    state(&runtime, "drill", |server| server.restarts == 1 && ready(server)).await;
    runtime.run(say("hi")).await.expect("a turn");
    assert!(runtime.health().await.mcp_pool_ready);
    runtime.shutdown().await;
    let events = recorder.events();
    let tree: Vec<_> = events.iter().filter(|event| event.session_id.is_none()).collect();
    let (mut told, mut again) = (Vec::new(), Vec::new());
    for event in &tree {
        assert_eq!((event.turn_id.as_ref(), event.trace_id.len(), event.span_id.len()), (None, 32, 16));
        match &event.event {
            AgentEvent::McpProcessStarted { server, pid } => told.push(format!("started {server} {}", *pid == first)),
            AgentEvent::McpProcessStopped { server, status, .. } => told.push(format!("stopped {server}: {status}")),
            // Sent when the actor is running, independent of its process.
            AgentEvent::ActorRestarted { actor, restarts, .. } => again.push(format!("{actor} {restarts}")),
            other => panic!("{other:?} belongs to no tree"),
        }
    }
    let numbers: Vec<u64> = tree.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=tree.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        told,
        [
            "started drill true",
            "stopped drill: was ended by signal 9",
            "started drill false",
            "stopped drill: ended with status 0",
        ]
    );
    assert_eq!(again, ["tools/drill 1"]);
    let started = events.iter().find_map(|event| match &event.event {
        AgentEvent::TurnStarted { servers, .. } => Some(servers.clone()),
        _ => None,
    });
    let servers = started.expect("a turn began");
    assert_eq!((servers[0].id.as_str(), servers[0].state), ("drill", ServerState::Ready));
}

#[tokio::test]
async fn a_runtime_is_not_built_without_a_server_it_requires() {
    let needed = ServerSpec { required: true, ..spec("needed", &["--mode", "exit-init=7"]) };
    let error = over(Vec::new()).tool_server(needed).build().await.expect_err("a refusal");
    assert!(matches!(&error, BuildError::RequiredServer(why) if why.contains("status 7")), "{error}");
    let error = over(Vec::new()).tool_server(spec("a", &[])).tool_server(spec("a", &[])).build().await;
    assert!(matches!(error, Err(BuildError::ToolServers(_))));
    let there = ServerSpec { required: true, ..spec("there", &[]) };
    let runtime = over(Vec::new()).tool_server(there).build().await.expect("a runtime");
    assert_eq!(runtime.servers()[0].state, ServerState::Ready);
    runtime.shutdown().await;
    assert_eq!(runtime.servers()[0].pid, None);
}

#[tokio::test]
async fn a_program_reloads_and_restarts_its_servers() {
    let runtime = over(Vec::new()).tool_server(spec("one", &[])).build().await.expect("a runtime");
    let before = state(&runtime, "one", ready).await.pid;
    let reloaded = runtime.reload_servers(vec![spec("one", &[]), spec("two", &[])]).expect("a good list");
    assert_eq!((reloaded.kept.len(), reloaded.started.len()), (1, 1));
    state(&runtime, "two", ready).await;
    assert_eq!(state(&runtime, "one", ready).await.pid, before);
    assert!(runtime.reload_servers(vec![spec("local", &[])]).is_err());
    assert!(runtime.restart_server(ServerId::new("one")).await);
    assert!(!runtime.restart_server(ServerId::new("nobody")).await);
    let after = state(&runtime, "one", |server| ready(server) && server.pid != before).await;
    assert_eq!(after.restarts, 1);
    assert!(runtime.tools_now().iter().any(|tool| tool.id.as_str() == "mcp/two/echo"));
    let tree = runtime.tree().await;
    let tools = tree.iter().find(|node| node.name == "tools").expect("a supervisor of the tools");
    let names: Vec<&str> = tools.children.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["local", "one", "two"]);
    runtime.shutdown().await;
}

struct Agrees;

impl ApprovalPort for Agrees {
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        assert_eq!(question.server.as_str(), "drill");
        let form = serde_json::json!({ "name": "Grace", "count": 2 });
        std::future::ready(ElicitationAnswer::Accept(form.as_object().cloned().unwrap_or_default())).boxed()
    }
}

#[tokio::test]
async fn a_program_answers_what_a_server_asks() {
    let replies = vec![ScriptedReply::call("mcp/drill/ask", serde_json::json!({})), ScriptedReply::text("done")];
    let builder = over(replies).tool_server(spec("drill", &[])).approvals(Arc::new(Agrees));
    let runtime = builder.build().await.expect("a runtime");
    let result = runtime.run(say("ask")).await.expect("a turn");
    let transcript = format!("{:?}", result.response().tool_transcript);
    // Missing fields have the schema's defaults.
    assert!(transcript.contains("Grace") && transcript.contains("green"), "{transcript}");
    runtime.shutdown().await;
}

/// Keeps for whom it is asked, and panics.
#[derive(Default)]
struct Asked(std::sync::Mutex<Vec<ForWhom>>);

/// The session and the context of a form.
type ForWhom = (Option<bob::SessionId>, Option<Arc<RequestContext>>);

impl ApprovalPort for Asked {
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        self.0.lock().expect("no panic while it is held").push((question.session, question.context));
        std::future::ready(()).map(|()| panic!("a fault of the port")).boxed()
    }
}

#[tokio::test]
async fn a_form_names_the_session_or_the_tenant_that_has_its_server_alone_and_a_panic_declines_it() {
    let acme = || RequestContext::of_tenant("acme").principal("ann");
    for (isolation, session, context) in [
        (Isolation::Shared, None, None),
        (Isolation::Tenant, None, Some(Arc::new(RequestContext::of_tenant("acme")))),
        (Isolation::Session, Some(crate::support::runtime::session("s")), None),
    ] {
        let replies = vec![ScriptedReply::call("mcp/drill/ask", serde_json::json!({})), ScriptedReply::text("done")];
        let (server, asked) = (ServerSpec { isolation, ..spec("drill", &[]) }, Arc::new(Asked::default()));
        let runtime = over(replies).tool_server(server).approvals(asked.clone()).build().await.expect("a runtime");
        let result = within(runtime.run(say("ask").context(acme()))).await.expect("a turn");
        let transcript = format!("{:?}", result.response().tool_transcript);
        assert!(transcript.contains("decline"), "{isolation:?}: {transcript}");
        assert_eq!(*asked.0.lock().expect("no panic"), [(session, context)], "{isolation:?}");
        within(runtime.shutdown()).await;
    }
}

#[tokio::test]
async fn m8_many_sessions_that_need_a_sleeping_server_start_it_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let path = log.display().to_string();
    let lazy = ServerSpec {
        start: bob::tools::servers::ServerStart::Lazy,
        ..spec("lazy", &["--log", &path, "--mode", "slow-start=200"])
    };
    let replies = (0..100).map(|_| ScriptedReply::text("hi")).collect();
    let runtime = over(replies).tool_server(lazy).build().await.expect("a runtime");
    let turns = (0..100).map(|n| {
        let session = bob::SessionId::parse(&format!("s{n}")).expect("an id");
        runtime.run(bob::AgentRequest::text(session, "hi"))
    });
    let results = tokio::time::timeout(Duration::from_secs(60), futures_util::future::join_all(turns)).await;
    assert!(results.expect("in time").iter().all(Result::is_ok));
    let starts =
        std::fs::read_to_string(&log).expect("a log").lines().filter(|line| line.contains("\"start\"")).count();
    assert_eq!(starts, 1);
    runtime.shutdown().await;
}
