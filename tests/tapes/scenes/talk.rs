//! Text replies: plain, in envelopes, malformed, retried, and concurrent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::config::TurnConfig;
use bob::model::{Capabilities, LlmErrorKind, ScriptedLlm, ScriptedReply};
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime};
use serde_json::json;

use crate::support::runtime::{Nothing, build, model_name, say, session, within};
use crate::tapes::stage::Stage;

/// The last message of the user, or the last result of a tool.
fn last(request: &bob::model::LlmRequest) -> String {
    format!("{:?}", request.messages.last())
}

pub(crate) async fn talk(stage: &Stage) {
    let model = ScriptedLlm::from_fn(|request| ScriptedReply::text(format!("answer {}", request.messages.len())));
    let runtime = build(stage.with(model)).await;
    for text in ["hello", "and now?", "ünïcode \u{1f980} \"quoted\" \\ and\nlines"] {
        stage.say(&runtime, say(text)).await;
    }
    runtime.shutdown().await;
}

fn without_native_tools() -> Capabilities {
    Capabilities { native_tools: false, context_tokens: 16_000, ..Capabilities::default() }
}

pub(crate) async fn envelopes(stage: &Stage) {
    let look = tool("test/look", "Looks at something.", |_: Nothing, _| async { Ok(ToolOutput::text("a tree")) });
    let model = ScriptedLlm::from_fn(|request| match request.step {
        1 if last(request).contains("look") => ScriptedReply::call("test/look", json!({})),
        _ => ScriptedReply::text("it is a tree"),
    });
    let model = model.with_capabilities(without_native_tools());
    let runtime = build(stage.with(model).tools(Arc::new(look.read_only()))).await;
    for text in ["hello", "look at it", "thanks"] {
        stage.say(&runtime, say(text)).await;
    }
    runtime.shutdown().await;
}

pub(crate) async fn malformed(stage: &Stage) {
    let model = ScriptedLlm::from_fn(|request| {
        let said = last(request);
        match request.step {
            1 if said.contains("prose") => ScriptedReply::Malformed("Sure! Here you go.".into()),
            1 if said.contains("half") => ScriptedReply::Malformed("{\"type\":\"final\",\"conte".into()),
            1 if said.contains("unknown") => ScriptedReply::Malformed("{\"type\":\"dance\"}".into()),
            _ if format!("{:?}", request.messages).contains("never") => {
                ScriptedReply::Malformed("no, I will not".into())
            }
            _ => ScriptedReply::text("better"),
        }
    });
    let runtime = build(stage.with(model.with_capabilities(without_native_tools()))).await;
    for text in ["prose please", "half of it", "an unknown type", "never"] {
        stage.say(&runtime, say(text)).await;
    }
    runtime.shutdown().await;
}

pub(crate) async fn retries(stage: &Stage) {
    let asked = AtomicUsize::new(0);
    let model = ScriptedLlm::from_fn(move |request| {
        let said = last(request);
        let number = asked.fetch_add(1, Ordering::Relaxed);
        match () {
            () if said.contains("once") && number == 0 => ScriptedReply::Error(LlmErrorKind::Unavailable),
            () if said.contains("limited") && number.is_multiple_of(2) => {
                ScriptedReply::Error(LlmErrorKind::RateLimited)
            }
            () if said.contains("rejected") => ScriptedReply::Error(LlmErrorKind::Rejected),
            () if said.contains("too long") => ScriptedReply::Error(LlmErrorKind::ContextExceeded),
            () => ScriptedReply::text("there it is"),
        }
    });
    let runtime = build(stage.with(model)).await;
    for text in ["fails once", "is limited", "is rejected", "is too long", "works"] {
        stage.say(&runtime, say(text)).await;
    }
    runtime.shutdown().await;
}

/// Six sessions send equal requests concurrently; each gets its own number.
pub(crate) async fn crowd(stage: &Stage) {
    let numbers = Arc::new(AtomicUsize::new(0));
    let number = tool("test/number", "Draws a number.", move |_: Nothing, _| {
        let number = numbers.fetch_add(1, Ordering::Relaxed) + 1;
        async move { Ok(ToolOutput::text(number.to_string())) }
    });
    let model = ScriptedLlm::from_fn(|request| match request.step {
        1 => ScriptedReply::call("test/number", json!({})),
        _ => ScriptedReply::text(format!("yours is {}", last(request).len())),
    });
    let turn_config = TurnConfig::new(model_name());
    let runtime = build(stage.with(model).turn_config(turn_config).tools(Arc::new(number))).await;
    let turns = ["a", "b", "c", "d", "e", "f"].map(|id| {
        stage.began();
        within(runtime.run(AgentRequest::text(session(id), "a number, please")))
    });
    for result in futures_util::future::join_all(turns).await {
        result.expect("the request is taken");
    }
    runtime.shutdown().await;
}
