//! A model of one's own: it asks for one call of a tool and then says what it was told.

use bob::model::{Capabilities, DeltaSink, LlmAnswer, LlmError, LlmPort, LlmRequest, Message, RawCall};
use bob::tools::{Invocation, ToolError, tool};
use bob::{AgentRuntime, AgentRuntimeExt, BoxFuture, ModelName, RuntimeBuilder};
use std::sync::Arc;

struct Echo;

impl LlmPort for Echo {
    fn capabilities(&self, _: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities { native_tools: true, ..Capabilities::default() })
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let answer = match request.messages.last().map(AsRef::as_ref) {
            Some(Message::Tool { result }) => {
                let text = format!("The tool said: {}", result.output.plain());
                text.split_inclusive(' ').for_each(|word| deltas.text(word));
                LlmAnswer::text(model.clone(), text)
            }
            _ => {
                let call = RawCall::new("own__clock", "{}");
                LlmAnswer::text(model.clone(), "").with_calls(vec![call])
            }
        };
        Box::pin(async { Ok(answer) })
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

async fn clock(_: Nothing, _: Invocation) -> Result<&'static str, ToolError> {
    Ok("noon")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = tool("own/clock", "Tells the time.", clock).read_only();
    let builder = RuntimeBuilder::new(ModelName::parse("echo:1")?).model(Arc::new(Echo)).local_tools(false);
    let runtime = builder.tools(Arc::new(clock)).build().await?;
    let answer = runtime.ask("What time is it?").await?;
    println!("{answer}");
    assert_eq!(answer, "The tool said: noon");
    runtime.shutdown().await;
    Ok(())
}
