//! Support for tests of tool servers: a server in `sh`, a scripted peer, and an observer of an actor's end.
//! Unexpected behaviour panics, so the test fails there.

#[path = "watched.rs"]
mod watched;

use super::actor::McpServerActor;
use super::arguments::McpServerArguments;
use crate::address::Address;
use crate::child::Watcher;
use crate::child::testing::soon;
use crate::tools::Policy;
use crate::tools::local::fixture::{Workspace, call};
use crate::tools::registry::ToolRegistry;
use bob_messages::chat::ToolCall;
use bob_messages::ids::ServerId;
use bob_messages::mcp::{ServerState, ServerStatus};
use bob_messages::options::ServerSpec;
use bob_messages::reply::{Answer, Reply};
use bob_messages::tools::{CallContext, CheckRequest, Grant, ToolReturn, ToolSet, ToolsMessage, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use watched::Watched;

/// Answers the handshake and the list, and runs `echo`, `hang` and `die`.
const SERVER: &str = r#"
say() { printf '%s\n' "$1"; }
answer() { say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
refuse() { say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no such method"}}'; }
heard='{"content":[{"type":"text","text":"heard"}]}'
while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    ARMS
    *'"method":"server/discover"'*) refuse ;;
    *'"method":"initialize"'*)
      answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}},
        {"name":"hang","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}},
        {"name":"die","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}}]}' | tr -d '\n'; echo ;;
    *'"name":"echo"'*) answer "$heard" ;;
    *'"name":"die"'*) echo 'I cannot go on' >&2; kill -9 $$ ;;
  esac
done
"#;

/// A server in `sh`; these arms of its `case` take precedence.
pub(super) fn server(arms: &str) -> ServerSpec {
    script(&SERVER.replace("ARMS", arms))
}

pub(super) fn script(script: &str) -> ServerSpec {
    ServerSpec::stdio(ServerId::new("sh"), "sh", ["-c", script])
}

pub(super) fn arguments(spec: ServerSpec) -> McpServerArguments {
    McpServerArguments::new(spec, Policy::default(), Watcher::new())
}

/// One server in a separate tool registry.
pub(super) struct Fixture {
    pub(super) registry: ToolRegistry,
    pub(super) server: Watched,
    pub(super) context: Arc<CallContext>,
}

impl Fixture {
    pub(super) async fn with(spec: ServerSpec) -> Self {
        Self::start(arguments(spec)).await
    }

    pub(super) async fn start(arguments: McpServerArguments) -> Self {
        let registry = ToolRegistry::default();
        let server = Watched::join(&registry, arguments).await;
        let context = CallContext { tool_timeout_ms: 60_000, ..Workspace::new().context() };
        Self { registry, server, context: Arc::new(context) }
    }

    pub(super) fn status(&self) -> ServerStatus {
        self.registry.servers().remove(0)
    }

    pub(super) async fn ready(&self) -> ServerStatus {
        let mut changes = self.registry.changes();
        soon(async {
            while self.status().state != ServerState::Ready {
                changes.changed().await.expect("the registry is there");
            }
        })
        .await;
        self.status()
    }

    /// The tools a turn finds that begins now.
    pub(super) async fn looked(&self) -> Vec<String> {
        let (reply, listed) = Reply::channel();
        self.registry.list(None, move |set: Arc<ToolSet>| reply.send(set));
        let set = soon(listed).await.expect("a list");
        set.tools().iter().map(|tool| tool.id.to_string()).collect()
    }

    /// The error with which the actor ended.
    pub(super) async fn end(&mut self) -> String {
        soon(self.server.ends.recv()).await.expect("the witness is there")
    }

    pub(super) async fn check(&self, call: &Arc<ToolCall>) -> Verdict {
        judged(&self.registry, call, &self.context).await
    }

    pub(super) async fn granted(&self, call: &Arc<ToolCall>) -> Grant {
        granted(self.check(call).await)
    }

    pub(super) fn run(&self, call: Arc<ToolCall>, grant: Grant) -> Answer<ToolReturn> {
        let (reply, answer) = Reply::channel();
        self.registry.tell(ToolsMessage::Call { call, grant, context: Arc::clone(&self.context), reply });
        answer
    }

    /// Has a tool of the server called, allowed and all.
    pub(super) async fn begin(&self, tool: &str) -> Answer<ToolReturn> {
        let call = own_call(tool);
        let grant = self.granted(&call).await;
        self.run(call, grant)
    }

    pub(super) async fn perform(&self, tool: &str) -> ToolReturn {
        self.performing(tool).await
    }

    /// Begins a call that is awaited while the fixture changes.
    pub(super) fn performing(&self, tool: &str) -> impl Future<Output = ToolReturn> + use<> {
        let (registry, call, context) = (self.registry.clone(), own_call(tool), Arc::clone(&self.context));
        async move {
            let grant = granted(judged(&registry, &call, &context).await);
            let (reply, answer) = Reply::channel();
            registry.tell(ToolsMessage::Call { call, grant, context, reply });
            soon(answer).await.expect("an answer")
        }
    }
}

fn own_call(tool: &str) -> Arc<ToolCall> {
    call(&format!("mcp/sh/{tool}"), json!({}))
}

pub(super) async fn judged(registry: &ToolRegistry, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> Verdict {
    let check = CheckRequest { call: Arc::clone(call), approved: None, standing: Vec::new(), run: false };
    let (reply, answer) = Reply::channel();
    registry.tell(ToolsMessage::Check { check, context: Arc::clone(context), reply });
    soon(answer).await.expect("a verdict")
}

fn granted(verdict: Verdict) -> Grant {
    match verdict {
        Verdict::Allow { grant, .. } => grant,
        other => panic!("expected an allowance, got {other:?}"),
    }
}

/// The far end of a connection, played by a test.
pub(super) struct FarEnd {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl FarEnd {
    pub(super) fn new(stream: DuplexStream) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { lines: BufReader::new(read).lines(), write }
    }

    /// The next message that comes.
    pub(super) async fn next(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.expect("it can be read").expect("it is not the end");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The next message of this method; others are skipped.
    pub(super) async fn expect(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    pub(super) async fn write(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.expect("somebody reads");
    }

    pub(super) async fn answer(&mut self, question: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()).await;
    }

    /// Answers the handshake and returns its request.
    pub(super) async fn shake_hands(&mut self) -> Value {
        let hello = self.expect("initialize").await;
        self.answer(
            &hello,
            json!({"protocolVersion": hello["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "far", "version": "2"}}),
        )
        .await;
        self.expect("notifications/initialized").await;
        hello
    }
}
