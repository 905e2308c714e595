use crate::tools::local::fixture::{Workspace, call};
use crate::tools::{Concern, Invocation, ToolError, ToolPort, ToolsActor, ToolsArguments, tool};
use bob_messages::chat::ToolCall;
use bob_messages::reply::Reply;
use bob_messages::tools::{CallContext, CheckRequest, ToolDescriptor, ToolOutput, ToolsMessage, Verdict};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::Actor;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A port of one tool that panics in one of its methods.
struct Faulty {
    method: &'static str,
    tool: Arc<dyn ToolPort>,
}

impl Faulty {
    fn at(&self, method: &str) {
        assert_ne!(self.method, method, "a fault of the port");
    }
}

impl ToolPort for Faulty {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        self.tool.list_tools()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.at("changes");
        None
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.tool.call_tool(invocation)
    }

    fn concern(&self, _: &Arc<ToolCall>, _: &Arc<CallContext>) -> Option<BoxFuture<'static, Option<Concern>>> {
        self.at("concern");
        let panics = self.method == "its future";
        Some(async move { if panics { panic!("a fault of the port") } else { None } }.boxed())
    }

    fn limit_ms(&self, _call: &ToolCall, _ruled_ms: Option<u64>) -> Option<u64> {
        self.at("limit_ms");
        None
    }

    fn host_ended(&self) {
        self.at("host_ended");
    }
}

/// What is said of a call of the tool, with a port that panics there. Its actor ends as others do.
async fn judged(method: &'static str) -> Verdict {
    let works = tool("demo/works", "Works.", |_: Nothing, _| async { Ok("done") }).read_only();
    let ports: Vec<Arc<dyn ToolPort>> = vec![Arc::new(Faulty { method, tool: Arc::new(works) })];
    let arguments = ToolsArguments { ports, ..ToolsArguments::default() };
    let (room, ends) = Actor::spawn(None, ToolsActor, arguments).await.expect("the room opens");
    let check = CheckRequest { call: call("demo/works", json!({})), approved: None, standing: Vec::new(), run: true };
    let (reply, answer) = Reply::channel();
    let context = Arc::new(Workspace::new().context());
    room.cast(ToolsMessage::Check { check, context, reply }.into()).expect("the room is open");
    let verdict = answer.await.expect("an answer");
    room.stop(None);
    ends.await.expect("no panic reaches the task of the actor");
    verdict
}

#[tokio::test]
async fn a_call_is_not_run_whose_port_panics_when_it_is_asked_about_it() {
    for method in ["concern", "its future"] {
        let verdict = judged(method).await;
        assert!(matches!(&verdict, Verdict::Unavailable { why } if why.contains("panicked")), "{method}: {verdict:?}");
    }
}

#[tokio::test]
async fn a_port_that_panics_elsewhere_runs_its_calls() {
    for method in ["nowhere", "changes", "limit_ms", "host_ended"] {
        let verdict = judged(method).await;
        let Verdict::Ran(returned) = &verdict else { panic!("{method}: {verdict:?}") };
        assert_eq!(returned.output.plain(), "done", "{method}");
    }
}
