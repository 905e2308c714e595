//! Two readers of one session: one from the beginning, one that joins later. A steering message is sent into the
//! running turn.
#![allow(clippy::print_stdout, reason = "it speaks to whoever runs it")]

use bob::events::{AgentEvent, AgentEvents, EventsFrom, TracingEventSink};
use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::tools::tool;
use bob::{AgentError, AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
use std::sync::Arc;
use std::time::Duration;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    to: u32,
}

/// Prints the events of a reader until one turn has ended.
async fn read(name: &str, mut events: AgentEvents) -> Result<(), AgentError> {
    while let Some(event) = events.next().await {
        let event = event?;
        println!("{name:>6} {:>3} {}", event.seq, event.to_json()["type"].as_str().unwrap_or_default());
        if let AgentEvent::TurnFinished { outcome } = &event.event {
            println!("{name:>6}     {}", outcome.content);
            break;
        }
    }
    Ok(())
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = tool("local/count", "Counts slowly.", |count: Count, call| async move {
        let progress = call.progress();
        for number in 1..=count.to {
            progress.tell(f64::from(number), Some(f64::from(count.to)), None);
            tokio::time::sleep(Duration::from_millis(120)).await;
        }
        Ok("counted")
    });
    let model = ScriptedLlm::from_fn(|request| match request.step {
        1 => ScriptedReply::call("local/count", serde_json::json!({"to": 5})),
        _ => ScriptedReply::text(format!("I was told {} things.", request.messages.len() - 2)),
    });
    let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?)
        .model(Arc::new(model))
        .tools(Arc::new(count.read_only()))
        .sink(Arc::new(TracingEventSink::new()))
        .build()
        .await?;
    let session = SessionId::parse("demo")?;

    let early = runtime.subscribe(session.clone(), EventsFrom::Now).await?;
    let early = tokio::spawn(read("early", early));
    let turn = tokio::spawn({
        let (runtime, session) = (runtime.clone(), session.clone());
        async move { runtime.run(AgentRequest::text(session, "Count to five.")).await }
    });
    tokio::time::sleep(Duration::from_millis(250)).await;
    let late = tokio::spawn(read("late", runtime.subscribe(session.clone(), EventsFrom::Beginning).await?));
    let taken = runtime.steer(session, vec![ContentPart::text("And then say how much you were told.")]).await?;
    println!("the turn has taken it: {taken}");
    turn.await??;
    early.await??;
    late.await??;
    runtime.shutdown().await;
    Ok(())
}
