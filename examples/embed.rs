//! Embeds the runtime: a scripted model and one tool of our own.
#![allow(clippy::print_stdout, reason = "it speaks to whoever runs it")]

use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::tool;
use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
use std::sync::Arc;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let add = tool("local/add", "Adds two numbers.", |sum: Add, _| async move { Ok(sum.a + sum.b) });
    let model = ScriptedLlm::replies(vec![
        ScriptedReply::call("local/add", serde_json::json!({"a": 17, "b": 25})),
        ScriptedReply::text("17 and 25 are 42."),
    ]);
    let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?)
        .model(Arc::new(model))
        .tools(Arc::new(add.read_only()))
        .build()
        .await?;
    let result = runtime.run(AgentRequest::text(SessionId::parse("demo")?, "Add 17 and 25.")).await?;
    let response = result.response();
    println!("{} ({} call, {} steps)", response.content, response.tool_transcript.len(), response.steps);
    runtime.shutdown().await;
    Ok(())
}
