//! An answer as a type of the program: a first one that does not fit is asked for again.

use bob::model::{ScriptedLlm, ScriptedReply};
use bob::{AgentRequest, AgentRuntime, AgentRuntimeExt, ModelName, RuntimeBuilder};
use std::sync::Arc;

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Person {
    name: String,
    age: u8,
    tags: Vec<Tag>,
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Tag {
    Guest,
    Member,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedLlm::replies(vec![
        ScriptedReply::text("She is called Ann."),
        ScriptedReply::text(r#"{"name": "Ann", "age": 41, "tags": ["guest"]}"#),
    ]);
    let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model)).build().await?;
    let answer = runtime.run_as::<Person>(AgentRequest::once("Who wrote this?")).await?;
    println!("{:?} in {} steps", answer.output, answer.response.steps);
    assert_eq!(answer.output, Person { name: "Ann".into(), age: 41, tags: vec![Tag::Guest] });
    runtime.shutdown().await;
    Ok(())
}
