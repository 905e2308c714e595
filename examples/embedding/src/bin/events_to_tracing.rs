//! The events of a runtime as spans of `tracing`, and a sink of one's own that counts them.

use bob::events::{AgentEvent, Envelope, EventSink, TracingEventSink, is_for_programs};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::tool;
use bob::{AgentRuntime, AgentRuntimeExt, ModelName, RuntimeBuilder};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Default)]
struct Counted(AtomicUsize);

impl EventSink for Counted {
    fn emit(&self, event: &Envelope) {
        if matches!(event.event, AgentEvent::ToolCompleted { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Where the lines of the subscriber go.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::ErrorKind::Other)?.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lines = Lines::default();
    let writer = lines.clone();
    // Without the filter each actor has a span of its own for as long as it lives, in front of every line.
    let log = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    let log = log.with_filter(LevelFilter::INFO).with_filter(filter_fn(is_for_programs));
    tracing_subscriber::registry().with(log).init();
    let model = ScriptedLlm::replies(vec![
        ScriptedReply::call("own/add", serde_json::json!({"a": 17, "b": 25})),
        ScriptedReply::text("42"),
    ]);
    let add = tool("own/add", "Adds two numbers.", |sum: Add, _| async move { Ok(sum.a + sum.b) }).read_only();
    let counted = Arc::new(Counted::default());
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model)).tools(Arc::new(add));
    let runtime = builder.sink(Arc::new(TracingEventSink::new())).sink(counted.clone()).build().await?;
    println!("{}", runtime.ask("What are 17 and 25?").await?);
    // The sinks are given their events before it returns.
    runtime.shutdown().await;
    let lines = lines.0.lock().map(|lines| String::from_utf8_lossy(&lines).into_owned()).unwrap_or_default();
    println!("{} calls\n{lines}", counted.0.load(Ordering::Relaxed));
    assert_eq!(counted.0.load(Ordering::Relaxed), 1);
    assert!(lines.contains("own/add") && !lines.contains("Actor{"), "{lines}");
    Ok(())
}
