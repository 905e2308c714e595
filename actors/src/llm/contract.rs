//! The contract suites of a model's port: one for any port, and one for a port that speaks HTTP.

mod heard;
mod wire;

#[cfg(test)]
#[path = "contract/wire_tests.rs"]
mod wire_tests;

#[cfg(test)]
#[path = "contract/contract_tests.rs"]
mod tests;

pub use heard::Heard;
pub use wire::{ModelWire, wire};

use super::deltas::DeltaSink;
use super::port::LlmPort;
use crate::contract::{Found, ODD_TEXTS, Suite, dropped_after, holds};
use bob_messages::chat::{CallStatus, ContentPart, Message, ToolCall, ToolOutput, ToolResult};
use bob_messages::ids::{CallId, ModelName, SessionId, ToolName, TurnId};
use bob_messages::llm::{LlmAnswer, LlmError, LlmRequest, ToolMode};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;

/// How many calls are made beside each other.
const BESIDE: usize = 8;

/// A first step of one message of a user, in native mode.
pub fn request(model: &ModelName, text: &str) -> Arc<LlmRequest> {
    Arc::new(with_messages(model, vec![Message::user(text)]))
}

fn with_messages(model: &ModelName, messages: Vec<Message>) -> LlmRequest {
    LlmRequest {
        session: SessionId::parse("contract").unwrap_or_else(|never| unreachable!("{never}")),
        turn: TurnId::new("turn"),
        step: 1,
        model: model.clone(),
        fallback: Arc::default(),
        priced: false,
        mode: ToolMode::Native,
        system: Arc::from("You are a model under test."),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::default(),
        envelope: None,
        traceparent: Arc::from(""),
        tracestate: None,
        context: None,
        interactive: true,
        aside: false,
    }
}

/// Checks a port against the rules of all models. Each rule has a port of its own, which `make` returns; its model must
/// answer any ordinary question.
pub async fn model(make: impl Fn() -> Arc<dyn LlmPort>, model: &ModelName) -> Suite {
    let mut suite = Suite::new("model port");
    suite.rule("the capabilities of a model are the same each time", capabilities(make(), model)).await;
    suite.rule("the limits of a provider let a call through", limits(make(), model)).await;
    suite.rule("a longer prompt is estimated at more tokens", estimates(make(), model)).await;
    suite
        .rule("an answer says something and names a model of the provider that was asked", answers(make(), model))
        .await;
    suite.rule("the pieces of an answer are its text, or there are none", pieces(make(), model)).await;
    suite.rule("calls beside each other are all answered", beside(make(), model)).await;
    suite.rule("a call that is dropped leaves the model usable", dropped(make(), model)).await;
    suite.rule("an unusual request is answered or refused, without a panic", unusual(make(), model)).await;
    suite
}

async fn capabilities(port: Arc<dyn LlmPort>, model: &ModelName) -> Found {
    let (first, second) = (port.capabilities(model), port.capabilities(model));
    holds(first == second, || format!("{first:?}, and then {second:?}"))?;
    let known = first.map_err(|error| format!("the model {model} is refused: {error}"))?;
    holds(known.context_tokens > 0, || "a context of 0 tokens, in which no prompt fits".to_owned())
}

async fn limits(port: Arc<dyn LlmPort>, model: &ModelName) -> Found {
    let limits = port.limits(model.provider());
    holds(limits.max_concurrent > 0, || "at most 0 calls at a time".to_owned())?;
    holds(limits.timeout_ms > 0, || "a timeout of 0 ms".to_owned())
}

async fn estimates(port: Arc<dyn LlmPort>, model: &ModelName) -> Found {
    let (short, long) = (request(model, "a word"), request(model, &"many words ".repeat(1_000)));
    let (short, long) = (port.estimate_tokens(&short), port.estimate_tokens(&long));
    holds(short < long, || format!("{short} tokens for a short prompt and {long} for a long one"))
}

async fn answers(port: Arc<dyn LlmPort>, model: &ModelName) -> Found {
    let asked = request(model, "Say a word.");
    said(port.complete(Arc::clone(&asked), model).await, model)?;
    said(port.complete_stream(asked, model, DeltaSink::unread()).await, model)
}

async fn pieces(port: Arc<dyn LlmPort>, model: &ModelName) -> Found {
    let asked = request(model, "Say a few words.");
    let (deltas, mut heard) = Heard::of(&asked);
    let answer = port.complete_stream(asked, model, deltas).await.map_err(|error| format!("the error `{error}`"))?;
    let heard = heard.text();
    holds(heard.is_empty() || heard == answer.text, || format!("the pieces {heard:?} of the text {:?}", answer.text))
}

async fn beside(port: Arc<dyn LlmPort>, model: &ModelName) -> Found {
    let calls = (0..BESIDE).map(|_| port.complete(request(model, "Say a word."), model));
    join_all(calls).await.into_iter().try_for_each(|answer| said(answer, model))
}

async fn dropped(port: Arc<dyn LlmPort>, model: &ModelName) -> Found {
    for polls in 0..16 {
        let was_ready = dropped_after(polls, port.complete(request(model, "Say a word."), model)).await;
        let next = port.complete(request(model, "Say a word."), model).await;
        said(next, model).map_err(|seen| format!("{seen}, after a call that was dropped after {polls} polls"))?;
        if was_ready {
            break;
        }
    }
    Ok(())
}

async fn unusual(port: Arc<dyn LlmPort>, model: &ModelName) -> Found {
    for (_what, asked) in unusual_requests(model) {
        let (deltas, _heard) = Heard::of(&asked);
        let _answered_or_refused = port.complete_stream(asked, model, deltas).await;
    }
    said(port.complete(request(model, "Say a word."), model).await, model)
        .map_err(|seen| format!("{seen}, after unusual requests"))
}

fn said(answer: Result<LlmAnswer, LlmError>, model: &ModelName) -> Found {
    let answer = answer.map_err(|error| format!("the error `{error}` ({:?})", error.kind))?;
    holds(!answer.text.is_empty() || !answer.calls.is_empty(), || "an answer without text and calls".to_owned())?;
    // A provider may name the version of the model that it has chosen.
    let is_of_provider = answer.model.provider() == model.provider();
    holds(is_of_provider, || format!("an answer of {}, and {model} was asked", answer.model))
}

/// Requests that a runtime makes seldom, each with what is unusual.
fn unusual_requests(model: &ModelName) -> Vec<(&'static str, Arc<LlmRequest>)> {
    let with = |messages| with_messages(model, messages);
    let call = Arc::new(ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new("my/tool"),
        arguments: json!({"text": "\u{0}"}).into(),
        argument_bytes: 16,
        signatures: vec!["of another provider".to_owned()],
    });
    let result = Arc::new(ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        status: CallStatus::Unknown,
        output: ToolOutput::default(),
        duration_ms: 0,
    });
    let image = ContentPart::Image { mime_type: "image/png".to_owned(), data: "bm8gcGljdHVyZQ==".to_owned() };
    let link = ContentPart::ResourceLink { uri: "file:///no".to_owned(), name: String::new(), mime_type: None };
    let asked = Message::Assistant { text: String::new(), calls: vec![call] };
    let mut requests = vec![
        ("no messages", with(Vec::new())),
        ("a megabyte of text", with(vec![Message::user("x".repeat(1 << 20))])),
        ("a message without parts", with(vec![Message::User { parts: Vec::new() }])),
        ("parts that are no text", with(vec![Message::User { parts: vec![image, link] }])),
        ("a result of a tool that is not on offer", with(vec![Message::user("go"), asked, Message::Tool { result }])),
        ("the assistant's word last", with(vec![Message::user("hi"), Message::assistant("yes")])),
        ("no instructions", LlmRequest { system: Arc::from(""), ..with(vec![Message::user("hi")]) }),
        ("JSON mode", LlmRequest { mode: ToolMode::Json, ..with(vec![Message::user("hi")]) }),
        ("a schema", LlmRequest { envelope: Some(Arc::new(json!({}))), ..with(vec![Message::user("hi")]) }),
        ("a step far on", LlmRequest { step: u32::MAX, ..with(vec![Message::user("hi")]) }),
    ];
    requests.extend(ODD_TEXTS.map(|text| ("an odd text", with(vec![Message::user(text)]))));
    requests.into_iter().map(|(what, request)| (what, Arc::new(request))).collect()
}
