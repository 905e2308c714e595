//! Ports whose tools change, and ports without a list.

use super::tests::{ask, context, granted, perform, simple};
use super::*;
use crate::tools::local::fixture::call;
use crate::tools::{FnTool, Invocation, ToolError};
use bob_messages::reply::Reply;
use bob_messages::tools::{CheckRequest, ToolOutput, ToolsMessage, Verdict};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Mutex;

/// A port whose tools come and go.
struct Changing {
    tools: Mutex<Vec<FnTool>>,
    changes: watch::Sender<u64>,
}

impl Changing {
    fn new(tools: Vec<FnTool>) -> Arc<Self> {
        Arc::new(Self { tools: Mutex::new(tools), changes: watch::Sender::new(0) })
    }

    fn change(&self, tools: Vec<FnTool>) {
        *self.tools.lock().unwrap() = tools;
        self.changes.send_modify(|changes| *changes += 1);
    }
}

impl ToolPort for Changing {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        async {
            tokio::task::yield_now().await;
            self.tools.lock().unwrap().iter().flat_map(FnTool::listed).collect()
        }
        .boxed()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.changes.subscribe())
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        ready(Ok(ToolOutput::text(invocation.call.name.to_string()))).boxed()
    }
}

#[tokio::test]
async fn tools_that_come_and_go_are_offered_and_called_as_they_are_now() {
    let named = |names: &[&str]| names.iter().map(|name| simple(name, || Ok(ToolOutput::default()))).collect();
    let (registry, port) = (crate::tools::ToolRegistry::default(), Changing::new(named(&["own/a", "own/b"])));
    let other = Arc::new(simple("demo/other", || Ok(ToolOutput::default())));
    let arguments = ToolsArguments {
        ports: vec![Arc::clone(&port) as _, other],
        publisher: Some(registry.local_publisher()),
        ..ToolsArguments::default()
    };
    let (actor, _) = Actor::spawn(None, ToolsActor, arguments).await.expect("the actor starts");
    let offered = async || {
        let (reply, listed) = Reply::channel();
        registry.list(None, |set| reply.send(set));
        let set = listed.await.expect("the tools");
        set.tools().iter().map(|tool| tool.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(offered().await, ["own/a", "own/b", "demo/other"]);
    // A grant of a tool that stays is good for the next list.
    let (named_call, context) = (call("own/b", json!({})), context());
    let grant = granted(&actor, &named_call, &context).await;
    let mut published = registry.changes();
    let mut changed = async |names: &[&str]| {
        published.mark_unchanged();
        port.change(named(names));
        published.changed().await.expect("a registry");
    };
    changed(&["own/b", "own/c"]).await;
    assert_eq!(offered().await, ["own/b", "own/c", "demo/other"]);
    let returned =
        ask(&actor, |reply| ToolsMessage::Call { call: named_call, grant, context: context.clone(), reply }).await;
    assert_eq!(returned.expect("an answer").output.plain(), "own/b");
    assert_eq!(perform(&actor, "own/c").await.output.plain(), "own/c");
    let check = CheckRequest { call: call("own/a", json!({})), approved: None, standing: Vec::new(), run: true };
    let gone = ask(&actor, |reply| ToolsMessage::Check { check, context, reply }).await.expect("a verdict");
    assert!(matches!(&gone, Verdict::Invalid { complaint } if complaint.contains("own/a")), "{gone:?}");
    // A list that takes the name of another port is not taken; the next one is.
    port.change(named(&["demo/other"]));
    changed(&["own/d"]).await;
    assert_eq!(offered().await, ["own/d", "demo/other"]);
}

#[tokio::test]
async fn a_port_that_cannot_list_its_tools_does_not_start() {
    struct Bad;
    impl ToolPort for Bad {
        fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
            panic!("no list")
        }
        fn call_tool(&self, _: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
            unreachable!("it has no tools")
        }
    }
    let arguments = ToolsArguments { ports: vec![Arc::new(Bad)], ..ToolsArguments::default() };
    let error = Actor::spawn(None, ToolsActor, arguments).await.expect_err("a panic").to_string();
    assert!(error.contains("panicked while it listed"), "{error}");
}

/// A port that lists its tools once, and never again.
#[tokio::test]
async fn a_port_that_hangs_after_a_restart_keeps_the_tools_that_it_had() {
    struct Hangs(Mutex<Option<FnTool>>, watch::Sender<u64>);
    impl ToolPort for Hangs {
        fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
            let tool = self.0.lock().unwrap().take();
            async move {
                match tool {
                    Some(tool) => tool.listed().into_iter().collect(),
                    None => std::future::pending().await,
                }
            }
            .boxed()
        }
        fn changes(&self) -> Option<watch::Receiver<u64>> {
            Some(self.1.subscribe())
        }
        fn call_tool(&self, _: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
            ready(Ok(ToolOutput::text("done"))).boxed()
        }
    }
    let tool = simple("own/a", || Ok(ToolOutput::default()));
    let port = Hangs(Mutex::new(Some(tool)), watch::Sender::new(0));
    let arguments = ToolsArguments { ports: vec![Arc::new(port)], ..ToolsArguments::default() };
    for _ in 0..2 {
        let (actor, _) = Actor::spawn(None, ToolsActor, arguments.clone()).await.expect("the actor starts");
        assert_eq!(perform(&actor, "own/a").await.output.plain(), "done");
        actor.kill_and_wait(None).await.expect("it ends");
    }
}

#[tokio::test]
async fn a_list_that_was_refused_takes_no_tools_away_at_a_restart() {
    let named = |names: &[&str]| names.iter().map(|name| simple(name, || Ok(ToolOutput::default()))).collect();
    let port = Changing::new(named(&["own/a"]));
    let other = Arc::new(simple("demo/other", || Ok(ToolOutput::text("of the other"))));
    let arguments = ToolsArguments { ports: vec![Arc::clone(&port) as _, other], ..ToolsArguments::default() };
    for _ in 0..3 {
        let (actor, _) = Actor::spawn(None, ToolsActor, arguments.clone()).await.expect("the actor starts");
        port.change(named(&["demo/other"]));
        assert_eq!(perform(&actor, "own/a").await.output.plain(), "own/a");
        assert_eq!(perform(&actor, "demo/other").await.output.plain(), "of the other");
        actor.kill_and_wait(None).await.expect("it ends");
    }
    // What changed while there was no actor is read by the next one.
    port.change(named(&["own/b"]));
    let registry = crate::tools::ToolRegistry::default();
    let arguments = ToolsArguments { publisher: Some(registry.local_publisher()), ..arguments };
    let mut published = registry.changes();
    let (_actor, _) = Actor::spawn(None, ToolsActor, arguments).await.expect("the actor starts");
    loop {
        let (reply, listed) = Reply::channel();
        registry.list(None, |set| reply.send(set));
        let set = listed.await.expect("the tools");
        if set.tools().iter().any(|tool| tool.id.as_str() == "own/b") {
            break;
        }
        published.changed().await.expect("a registry");
    }
}

#[tokio::test]
async fn a_port_that_fails_after_a_restart_keeps_the_tools_that_it_had() {
    struct Once(Mutex<Vec<FnTool>>);
    impl ToolPort for Once {
        fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
            let tools = std::mem::take(&mut *self.0.lock().unwrap());
            assert!(!tools.is_empty(), "listed twice");
            ready(tools.iter().flat_map(FnTool::listed).collect()).boxed()
        }
        fn call_tool(&self, _: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
            ready(Ok(ToolOutput::text("done"))).boxed()
        }
    }
    let port = Once(Mutex::new(vec![simple("own/a", || Ok(ToolOutput::default()))]));
    let arguments = ToolsArguments { ports: vec![Arc::new(port)], ..ToolsArguments::default() };
    for _ in 0..2 {
        let (actor, _) = Actor::spawn(None, ToolsActor, arguments.clone()).await.expect("the actor starts");
        assert_eq!(perform(&actor, "own/a").await.output.plain(), "done");
        actor.kill_and_wait(None).await.expect("it ends");
    }
}
