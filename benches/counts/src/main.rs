//! The turns that `scripts/growth.sh` counts: their instructions, and how often they allocate.
//!
//! A turn is one message of a user, three calls of a tool of this process and an answer: four steps, through the public
//! API, with the scripted model and the memory store. The outcome is asserted. Everything runs on one thread, and nothing
//! waits for a clock, so two runs differ by what a few random numbers (ids, hashing) change. The allocator is the
//! system's, whose functions have names.
//!
//! ```text
//! bob-counts --sessions=100 --turns=6 --words=1 [--read] [--rest]
//! ```
#![allow(clippy::unwrap_used, clippy::panic, reason = "a program for a script, which shows what it says when it fails")]

use bob::config::{PromptLayers, TurnConfig};
use bob::model::ScriptedLlm;
use bob::sessions::FinishReason;
use bob::store::MemoryStore;
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime, ModelName, Runtime, RuntimeBuilder, SessionId};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const CALLS: usize = 3;
const DAY: Duration = Duration::from_secs(24 * 3_600);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

fn main() {
    let given: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let value = given.iter().find_map(|word| word.strip_prefix(name));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}NUMBER is missing"))
    };
    let has = |name: &str| given.iter().any(|word| word == name);
    let (sessions, turns, words): (usize, usize, usize) =
        (number("--sessions="), number("--turns="), number("--words="));
    let answer = vec!["done"; words].join(" ");
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let runtime = runtime(&answer).await;
        for session in 0..sessions {
            let session = SessionId::parse(&format!("count-{session}")).unwrap();
            for _ in 0..turns {
                turn(&runtime, &session, &answer, has("--read")).await;
                if has("--rest") {
                    rest(&runtime, &session).await;
                }
            }
        }
    });
}

async fn runtime(answer: &str) -> Runtime {
    let call = |step: usize| {
        let text = format!(r#"{{"text":"step {step}"}}"#);
        json!({ "calls": [{ "name": "local/echo", "arguments": text }] })
    };
    let replies: Vec<_> = (0..CALLS).map(call).chain([json!({ "text": answer })]).collect();
    let model = ScriptedLlm::from_json(&json!([{ "replies": replies }]).to_string()).unwrap();
    let echo = tool("local/echo", "Echo text", |echo: Echo, _| async move { Ok(ToolOutput::text(echo.text)) });
    let layers = PromptLayers { instructions: "You are a bot.".into(), ..PromptLayers::default() };
    let turns = TurnConfig { layers, ..TurnConfig::new(ModelName::parse("scripted:counts").unwrap()) };
    RuntimeBuilder::new(turns.default_model.clone())
        .passivate_after(DAY)
        .turn_config(turns)
        .model(Arc::new(model))
        .store(MemoryStore::new())
        .local_tools(false)
        .tools(Arc::new(echo.read_only()))
        .build()
        .await
        .unwrap()
}

async fn turn(runtime: &Runtime, session: &SessionId, answer: &str, read: bool) {
    let request = AgentRequest::text(session.clone(), "Echo three times, then finish.");
    let result = match read {
        true => runtime.run_stream(request).await.unwrap().finish().await.unwrap(),
        false => runtime.run(request).await.unwrap(),
    };
    let outcome = result.response();
    assert_eq!((&*outcome.content, outcome.finish_reason), (answer, FinishReason::Final), "{outcome:?}");
    assert_eq!((outcome.tool_transcript.len(), outcome.steps as usize), (CALLS, CALLS + 1));
}

/// The session leaves memory; its next turn takes it up from the store.
async fn rest(runtime: &Runtime, session: &SessionId) {
    while !runtime.close(session.clone()).await || runtime.health().await.live_sessions > 0 {
        tokio::task::yield_now().await;
    }
}
