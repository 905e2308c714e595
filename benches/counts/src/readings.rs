//! What it costs to read what others sent: an answer of a model, a journal, and with the feature `others` all that comes over
//! HTTP or from a tool server (`others.rs`). Each reading is a turn, with all that happens to what was read, whether
//! it is an answer or too large for one.
//!
//! `--reading=NAME --bytes=N` reads N bytes of the shape with this name; `--readings` prints all names.

use bob::config::{Limits, PromptLayers, TurnConfig};
use bob::model::ScriptedLlm;
use bob::store::{FileStore, MemoryStore, StoreOptions};
use bob::{AgentRequest, AgentRuntime, ModelName, Runtime, RuntimeBuilder, SessionId};
use serde_json::{Value, json};
use std::sync::Arc;

/// Longer than anything takes in a program whose instructions are counted.
pub(crate) const PATIENCE_MS: u64 = 3_600_000;

/// Names of answers of a scripted model.
const ANSWERS: [&str; 5] =
    ["text", "an envelope", "an envelope of brackets", "arguments of a list", "arguments of brackets"];

pub(crate) fn names() -> Vec<String> {
    let answers = ANSWERS.iter().map(|answer| format!("scripted: {answer}"));
    #[cfg(feature = "others")]
    let answers = answers.chain(crate::others::names());
    answers.chain(["journal".to_owned()]).collect()
}

pub(crate) async fn read(name: &str, bytes: usize) {
    if name == "journal" {
        return journal(bytes).await;
    }
    let Some(answer) = name.strip_prefix("scripted: ") else {
        #[cfg(feature = "others")]
        return crate::others::read(name, bytes).await;
        #[cfg(not(feature = "others"))]
        panic!("{name}: no such shape");
    };
    let call = |arguments: String| json!({ "calls": [{ "name": "local/f", "arguments": arguments }] });
    let reply = match answer {
        "text" => json!({ "text": "x ".repeat(bytes / 2) }),
        "an envelope" => {
            json!({ "text": format!("{{\"type\":\"final\",\"content\":\"{}\"}}", "x ".repeat(bytes / 2)) })
        }
        "an envelope of brackets" => {
            json!({ "text": format!("{{\"type\":\"final\",\"a\":{}", "[ ".repeat(bytes / 2)) })
        }
        "arguments of a list" => call(format!("{{\"a\":[{}0]}}", "[],".repeat(bytes / 3))),
        "arguments of brackets" => call("[".repeat(bytes)),
        _no_answer => panic!("{name}: no such shape"),
    };
    let runtime = builder("scripted:m").model(scripted(&reply)).store(MemoryStore::new()).build().await.unwrap();
    say(&runtime).await;
}

/// A model that answers so, and then shortly.
fn scripted(reply: &Value) -> Arc<ScriptedLlm> {
    Arc::new(ScriptedLlm::from_json(&json!([{ "replies": [reply, { "text": "Done." }] }]).to_string()).unwrap())
}

pub(crate) fn builder(model: &str) -> RuntimeBuilder {
    let model = ModelName::parse(model).unwrap();
    let limits = Limits { max_steps: 2, turn_timeout_ms: PATIENCE_MS, ..Limits::default() };
    let layers = PromptLayers { instructions: "You are a bot.".into(), ..PromptLayers::default() };
    let turns = TurnConfig { layers, ..TurnConfig::new(model.clone()) };
    RuntimeBuilder::new(model).turn_config(turns).limits(limits).local_tools(false)
}

/// Runs a turn, and says what became of it.
pub(crate) async fn say(runtime: &Runtime) {
    let session = SessionId::parse("one").unwrap();
    let result = runtime.run(AgentRequest::text(session, "Hello.")).await.unwrap();
    let outcome = result.response();
    let error = outcome.error.as_ref().map(ToString::to_string).unwrap_or_default();
    let calls = outcome.tool_transcript.len();
    println!("{:?}: {} bytes, {calls} calls {error}", outcome.finish_reason, outcome.content.len());
}

/// A session whose journal has an answer of so many bytes, and another turn of it in a runtime that begins with the journal.
async fn journal(bytes: usize) {
    let folder = std::env::temp_dir().join(format!("bob-counts-{}", std::process::id()));
    for answer in ["x".repeat(bytes), "Done.".to_owned()] {
        let store = FileStore::open(&folder, StoreOptions::default()).unwrap();
        let model = scripted(&json!({ "text": answer }));
        let runtime = builder("scripted:m").model(model).store(store).build().await.unwrap();
        say(&runtime).await;
        runtime.shutdown().await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}
