//! What is outside hears of a cancel: a provider by the end of its connection, a tool server by a notice.

use super::{Sample, caller};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{model_name, provided, session};
use crate::support::stuck::{Places, Wait};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::tools::servers::{ServerId, ServerSpec};
use bob::{AgentRequest, AgentRuntime, RuntimeBuilder};
use bob_actors::llm::providers::ProviderKind;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// All of them.
pub(super) async fn all(n: usize) -> Vec<Sample> {
    let mut samples = provider(n).await;
    samples.push(server(n).await);
    samples
}

/// Until the caller has the outcome, and until the provider sees its connection end:
/// before the first word of an answer and in the middle of it.
async fn provider(n: usize) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (what, wait, reply) in [
        ("a silent provider", Wait::Headers, Reply::Silence),
        ("a provider's stream", Wait::Stream, Reply::text("one two three four").stall_after(3)),
    ] {
        let (provider, places) = (FakeProvider::repeating([reply]), Places::new());
        let builder = provided(&provider, ProviderKind::OpenAi).sink(places.clone());
        let runtime = builder.build().await.unwrap();
        let (mut told, mut closed) = (Sample::new(what), Sample::new(&format!("{what}: closed")));
        for number in 0..n {
            let id = wait.session(number);
            let caller = caller(&runtime, AgentRequest::text(id.clone(), "hi"));
            provider.wait_requests(number + 1).await;
            places.until(&id).await;
            let began = Instant::now();
            assert!(runtime.cancel(id).await);
            provider.wait_closed_early(number + 1).await;
            closed.took.push(began.elapsed().as_secs_f64());
            told.note(began, caller.await.unwrap(), FinishReason::Cancelled);
        }
        samples.extend([told, closed]);
    }
    samples
}

/// Until the server has read its notice, by its own log, in whole milliseconds.
async fn server(n: usize) -> Sample {
    use std::collections::HashMap;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log").display().to_string();
    let args = ["drill-server", "--log", &path, "--mode", "silent-call"];
    let spec = ServerSpec::stdio(ServerId::new("drill"), env!("CARGO_BIN_EXE_cli-agent"), args);
    let effects = folder.path().join("effects").display().to_string();
    let model = ScriptedLlm::from_fn(move |_| {
        ScriptedReply::call("mcp/drill/append", json!({ "path": effects.clone(), "line": "x" }))
    });
    let builder = RuntimeBuilder::new(model_name()).model(Arc::new(model));
    let runtime = builder.tool_server(ServerSpec { required: true, ..spec }).build().await.unwrap();
    let mut log = Tail::of(&path);
    let (mut began, mut sample) = (HashMap::new(), Sample::new("a tool server's notice"));
    for number in 0..n {
        let id = session(&format!("call-{number}"));
        let caller = caller(&runtime, AgentRequest::text(id.clone(), "hi"));
        let call = log.next("call").await["id"].to_string();
        began.insert(call, SystemTime::now());
        assert!(runtime.cancel(id).await);
        assert_eq!(caller.await.unwrap().1.finish_reason, FinishReason::Cancelled);
        let notice = log.next("cancelled").await;
        let heard = UNIX_EPOCH + Duration::from_millis(notice["wall_ms"].as_u64().unwrap());
        // Cut to a whole millisecond, it may seem to be before the cancel.
        let took = heard.duration_since(began[&notice["id"].to_string()]).unwrap_or_default();
        sample.took.push(took.as_secs_f64());
    }
    runtime.shutdown().await;
    sample
}

/// A log that grows.
struct Tail {
    lines: BufReader<File>,
    partial: String,
}

impl Tail {
    fn of(path: &str) -> Self {
        Self { lines: BufReader::new(File::open(path).unwrap()), partial: String::new() }
    }

    /// The next line that tells of this; those before it are passed over.
    async fn next(&mut self, event: &str) -> Value {
        loop {
            self.lines.read_line(&mut self.partial).unwrap();
            if !self.partial.ends_with('\n') {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let line: Value = serde_json::from_str(&std::mem::take(&mut self.partial)).unwrap();
            if line["event"] == event {
                return line;
            }
        }
    }
}
