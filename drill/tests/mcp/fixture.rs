//! A tool registry with drill servers, and an observer of their actors.

#[path = "../../../actors/src/mcp/watched.rs"]
mod watched;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bob_actors::address::Address;
use bob_actors::child::Watcher;
use bob_actors::mcp::{McpServerActor, McpServerArguments};
use bob_actors::tools::{Policy, ToolRegistry};
use bob_messages::chat::{CallStatus, ToolCall};
use bob_messages::ids::{CallId, ServerId, SessionId, ToolName, TurnId};
use bob_messages::mcp::{ServerState, ServerStatus};
use bob_messages::options::ServerSpec;
use bob_messages::reply::{Answer, Reply};
use bob_messages::tools::{CallContext, CheckRequest, Grant, ToolReturn, ToolsMessage, Verdict};
use serde_json::{Value, json};
use watched::Watched;

use crate::process::{DEADLINE, lives, living, soon};

/// The servers of one test. Remaining processes are killed when it is dropped.
pub(crate) struct Fixture {
    pub(crate) registry: ToolRegistry,
    pub(crate) watcher: Watcher,
    /// Part of every server's command line.
    pub(crate) folder: tempfile::TempDir,
    calls: AtomicU64,
}

/// One server and its actor.
pub(crate) struct Server {
    pub(crate) watched: Watched,
    pub(crate) log: PathBuf,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { registry: ToolRegistry::default(), watcher: Watcher::new(), folder, calls: AtomicU64::new(0) }
    }

    /// Starts the actor of a drill server with these arguments.
    pub(crate) async fn join(&self, id: &str, drill: &[&str]) -> Server {
        self.join_as(id, drill, |_| {}).await
    }

    pub(crate) async fn join_as(&self, id: &str, drill: &[&str], change: impl FnOnce(&mut ServerSpec)) -> Server {
        let log = self.folder.path().join(id);
        let mut words: Vec<String> = drill.iter().map(|word| (*word).to_owned()).collect();
        words.extend(["--log".to_owned(), log.to_string_lossy().into_owned()]);
        let mut spec = ServerSpec::stdio(ServerId::new(id), env!("CARGO_BIN_EXE_drill-server"), words);
        change(&mut spec);
        let policy = Policy { require_high_risk_approval: false, ..Policy::default() };
        let arguments = McpServerArguments::new(spec, policy, self.watcher.clone());
        Server { watched: Watched::join(&self.registry, arguments).await, log }
    }

    /// Starts a server and waits until its tools can be called.
    pub(crate) async fn ready(&self, id: &str, drill: &[&str]) -> Server {
        let server = self.join(id, drill).await;
        self.until_ready(id).await;
        server
    }

    pub(crate) async fn until_ready(&self, id: &str) -> ServerStatus {
        let mut changes = self.registry.changes();
        soon(async {
            while self.status(id).state != ServerState::Ready {
                changes.changed().await.unwrap();
            }
        })
        .await;
        self.status(id)
    }

    pub(crate) fn status(&self, id: &str) -> ServerStatus {
        self.registry.servers().into_iter().find(|status| status.id.as_str() == id).unwrap()
    }

    pub(crate) fn pid(&self, id: &str) -> i32 {
        self.status(id).pid.unwrap()
    }

    /// Calls `mcp/<tool>`, judged and all; the call ends after this long.
    pub(crate) async fn begin(
        &self,
        tool: &str,
        arguments: Value,
        timeout_ms: u64,
    ) -> Result<Answer<ToolReturn>, String> {
        let (call, context) = self.call(tool, arguments, timeout_ms);
        let grant = self.judge(&call, &context).await?;
        let (reply, answer) = Reply::channel();
        self.registry.tell(ToolsMessage::Call { call, grant, context, reply });
        Ok(answer)
    }

    async fn judge(&self, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> Result<Grant, String> {
        let check = CheckRequest { call: Arc::clone(call), approved: None, standing: Vec::new(), run: false };
        let (reply, verdict) = Reply::channel();
        self.registry.tell(ToolsMessage::Check { check, context: Arc::clone(context), reply });
        match soon(verdict).await {
            Some(Verdict::Allow { grant, .. }) => Ok(grant),
            Some(Verdict::Invalid { complaint: why } | Verdict::Unavailable { why }) => Err(why),
            other => panic!("expected an allowance, got {other:?}"),
        }
    }

    fn call(&self, tool: &str, arguments: Value, timeout_ms: u64) -> (Arc<ToolCall>, Arc<CallContext>) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = ToolCall {
            id: CallId::new(format!("c{number}")),
            name: ToolName::new(format!("mcp/{tool}")),
            argument_bytes: arguments.to_string().len(),
            arguments: arguments.into(),
            signatures: Vec::new(),
        };
        let context = CallContext {
            session: SessionId::parse("s").unwrap(),
            turn: TurnId::new("t"),
            step: 1,
            roots: Arc::from([]),
            context: None,
            approvals: Default::default(),
            left: Default::default(),
            depth: 0,
            tool_timeout_ms: timeout_ms,
            mode: None,
            allow: None,
            traceparent: "".into(),
            child: None,
            server_wait: None,
            tracestate: None,
        };
        (Arc::new(call), Arc::new(context))
    }

    pub(crate) async fn perform(&self, tool: &str, arguments: Value, timeout_ms: u64) -> ToolReturn {
        match self.begin(tool, arguments, timeout_ms).await {
            Ok(begun) => soon(begun).await.unwrap(),
            Err(complaint) => panic!("not allowed: {complaint}"),
        }
    }

    /// Fails unless the server answers as it should.
    pub(crate) async fn is_well(&self, id: &str) {
        let returned = self.perform(&format!("{id}/echo"), json!({ "text": "well" }), 60_000).await;
        assert_eq!((returned.status, returned.output.plain().as_str()), (CallStatus::Ok, "well"), "{returned:?}");
    }

    /// Waits until nothing of any server is left that was not expected to be.
    pub(crate) async fn is_empty(&self) {
        assert!(self.watcher.idle(DEADLINE).await, "children are left");
        assert_eq!(living(self.folder.path()), Vec::<i32>::new());
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for pid in living(self.folder.path()) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _it_may_have_ended_meanwhile = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Server {
    /// The error with which the actor ended.
    pub(crate) async fn end(&mut self) -> String {
        soon(self.watched.ends.recv()).await.unwrap()
    }

    /// Restarts the actor, as a supervisor would.
    pub(crate) async fn start_again(&mut self) {
        self.watched.start_again().await;
    }

    /// Drops the test's references to it.
    pub(crate) fn retire(self) {
        self.watched.witness.stop(None);
    }

    /// The server's log entries of this event.
    pub(crate) fn events(&self, event: &str) -> Vec<Value> {
        events(&self.log, event)
    }

    /// How many processes of it were started.
    pub(crate) fn spawns(&self) -> usize {
        self.events("start").len()
    }
}

fn events(log: &Path, event: &str) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["event"] == event).collect()
}

/// The live processes that a server reports to have started.
pub(crate) fn family(server: &Server) -> Vec<(u64, i32)> {
    let member = |line: &Value| Some((line["level"].as_u64()?, i32::try_from(line["pid"].as_i64()?).ok()?));
    server.events("grandchild").iter().filter_map(member).filter(|(_, pid)| lives(*pid)).collect()
}

/// Nearest-rank percentile.
pub(crate) fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent).div_ceil(100).max(1) - 1]
}
