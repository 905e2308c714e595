//! The turn that is run, and the runtime it runs on.

use crate::arguments::Arguments;
use crate::driver::Contender;
use bob::config::{PromptLayers, TurnConfig};
use bob::model::{LlmPort, ScriptedLlm};
use bob::sessions::FinishReason;
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime, ModelName, Runtime, RuntimeBuilder, SessionId};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// A runtime with its workload. Clones share it.
#[derive(Clone)]
pub(crate) struct Workload {
    runtime: Runtime,
    calls: usize,
    turns: usize,
    answer: Arc<str>,
    read: bool,
}

impl Workload {
    /// Starts a runtime for these arguments.
    pub(crate) async fn build(arguments: &Arguments) -> Self {
        let answer = vec!["done"; arguments.words].join(" ");
        let port: Arc<dyn LlmPort> = match arguments.backend.as_str() {
            "mock" => Arc::new(scripted(arguments, &answer)),
            #[cfg(feature = "genai")]
            "http" | "stream" => Arc::new(provider(arguments)),
            other => panic!("the backend {other:?} is not known: use mock or, with the feature genai, http or stream"),
        };
        let model = format!("fake:{}", arguments.model());
        let layers = PromptLayers { instructions: "You are a bot.".into(), ..PromptLayers::default() };
        let turn_config = TurnConfig { layers, ..TurnConfig::new(ModelName::parse(&model).unwrap()) };
        let echo = tool("local/echo", "Echo text", |echo: Echo, _| async move { Ok(ToolOutput::text(echo.text)) });
        let passivate_after = match arguments.passivate {
            0 => Duration::from_secs(24 * 3_600),
            after_ms => Duration::from_millis(after_ms),
        };
        let runtime = RuntimeBuilder::new(turn_config.default_model.clone())
            .max_concurrent_turns(1_000_000)
            .passivate_after(passivate_after)
            .turn_config(turn_config)
            .model(port)
            .store(crate::store::open(arguments))
            .local_tools(false)
            .tools(Arc::new(echo.read_only()))
            .build()
            .await
            .unwrap();
        let read = arguments.mode == "deltas";
        Self { runtime, calls: arguments.k, turns: arguments.turns, answer: answer.into(), read }
    }
}

impl Contender for Workload {
    const NAME: &'static str = "bob";
    /// The runtime keeps it.
    type Kept = ();

    async fn rest(&self) {
        while self.runtime.health().await.live_sessions > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn session(&self, number: usize) {
        let session = SessionId::parse(&format!("race-{number}")).unwrap();
        for _ in 0..self.turns {
            let request = AgentRequest::text(session.clone(), "Echo three times, then finish.");
            let result = if self.read {
                self.runtime.run_stream(request).await.unwrap().finish().await.unwrap()
            } else {
                self.runtime.run(request).await.unwrap()
            };
            let outcome = result.response();
            assert_eq!((&*outcome.content, outcome.finish_reason), (&*self.answer, FinishReason::Final), "{outcome:?}");
            assert_eq!((outcome.tool_transcript.len(), outcome.steps as usize), (self.calls, self.calls + 1));
            assert!(outcome.usage.total_tokens > 0);
        }
    }
}

fn scripted(arguments: &Arguments, answer: &str) -> ScriptedLlm {
    let call = |step: usize| {
        let text = format!(r#"{{"text":"step {step}"}}"#);
        json!({ "calls": [{ "name": "local/echo", "arguments": text }] })
    };
    let mut replies: Vec<_> = (0..arguments.k).map(call).collect();
    replies.push(json!({ "text": answer }));
    let script = json!([{ "replies": replies, "delay_ms": arguments.latency }]);
    ScriptedLlm::from_json(&script.to_string()).unwrap()
}

#[cfg(feature = "genai")]
fn provider(arguments: &Arguments) -> bob_actors::llm::GenaiLlm {
    use bob_actors::llm::providers::{CapabilityOverrides, KeySource, ProviderConfig};
    let fake = ProviderConfig {
        name: "fake".into(),
        base_url: Some(arguments.base.clone()),
        key: Some(KeySource::Value("x".to_owned().into())),
        timeout_ms: Some(60_000),
        capabilities: CapabilityOverrides {
            native_tools: Some(true),
            context_tokens: Some(128_000),
            ..CapabilityOverrides::default()
        },
        ..ProviderConfig::default()
    };
    bob_actors::llm::GenaiLlm::new(&[fake], &|_| None).unwrap()
}
