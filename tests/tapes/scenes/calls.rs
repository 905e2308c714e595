//! Calls: side by side, one after the other, failing, and more of them than there may be.

use std::sync::Arc;

use bob::config::Limits;
use bob::model::{ScriptedCall, ScriptedLlm, ScriptedReply};
use bob::tools::{FnTool, ToolError, ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime};
use serde_json::json;

use crate::support::runtime::{Nothing, build, say};
use crate::tapes::stage::Stage;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

fn echo() -> FnTool {
    tool("test/echo", "Says it again.", |text: Text, _| async move { Ok(ToolOutput::text(text.text)) }).read_only()
}

fn write() -> FnTool {
    tool("test/write", "Keeps it.", |text: Text, _| async move { Ok(ToolOutput::text(format!("kept {}", text.text))) })
}

fn call(name: &str, text: &str) -> ScriptedCall {
    ScriptedCall { name: name.to_owned(), arguments: json!({ "text": text }) }
}

/// In every turn one step of these calls, and then an answer.
fn calling(calls: impl Fn(&str) -> Vec<ScriptedCall> + Send + Sync + 'static) -> ScriptedLlm {
    ScriptedLlm::from_fn(move |request| match request.step {
        1 => ScriptedReply::Calls(calls(&format!("{:?}", request.messages.last()))),
        step => ScriptedReply::text(format!("done after {step} steps")),
    })
}

pub(crate) async fn calls(stage: &Stage) {
    let model = calling(|said| match () {
        () if said.contains("together") => {
            vec![call("test/echo", "one"), call("test/echo", "two"), call("test/echo", "three")]
        }
        () if said.contains("in order") => vec![call("test/write", "a"), call("test/write", "b")],
        () => vec![call("test/echo", "first"), call("test/write", "second"), call("test/echo", "third")],
    });
    let runtime = build(stage.with(model).tools(Arc::new(echo())).tools(Arc::new(write()))).await;
    for text in ["together", "in order", "mixed"] {
        stage.say(&runtime, say(text)).await;
    }
    runtime.shutdown().await;
}

pub(crate) async fn failing(stage: &Stage) {
    let fails =
        tool("test/fails", "Fails.", |_: Nothing, _| async { Err::<(), _>(ToolError::new("there is no such page")) });
    let breaks = tool("test/breaks", "Breaks.", |_: Nothing, _| async {
        Err::<(), _>(ToolError::outcome_unknown("the line went dead during the call"))
    });
    #[allow(unreachable_code, reason = "it has a type all the same")]
    let panics = tool("test/panics", "Panics.", |_: Nothing, _| async {
        std::panic::resume_unwind(Box::new("as it was meant to"));
        Ok(ToolOutput::text(""))
    });
    let none = |name: &str| vec![ScriptedCall { name: name.to_owned(), arguments: json!({}) }];
    let model = calling(move |said| match () {
        () if said.contains("fails") => none("test/fails"),
        () if said.contains("breaks") => none("test/breaks"),
        () if said.contains("panics") => none("test/panics"),
        () if said.contains("unknown") => none("test/fail"),
        () => none("test/echo"),
    });
    let builder = stage.with(model).tools(Arc::new(fails)).tools(Arc::new(breaks)).tools(Arc::new(panics));
    let runtime = build(builder.tools(Arc::new(echo()))).await;
    for text in ["fails", "breaks", "panics", "is unknown", "has wrong arguments"] {
        stage.say(&runtime, say(text)).await;
    }
    runtime.shutdown().await;
}

pub(crate) async fn guards(stage: &Stage) {
    let fails = tool("test/fails", "Fails.", |_: Nothing, _| async { Err::<(), _>(ToolError::new("no luck")) });
    let model = ScriptedLlm::from_fn(|request| {
        let all = format!("{:?}", request.messages);
        let n = request.step.to_string();
        let of_turn = |word: &str| all.rfind(word).is_some_and(|at| !all[at..].contains("next:"));
        match () {
            () if of_turn("next: errors") => ScriptedReply::call("test/fails", json!({})),
            () if of_turn("next: identical") => ScriptedReply::Calls(vec![call("test/echo", "same")]),
            () if of_turn("next: many") => {
                ScriptedReply::Calls((0..4).map(|n| call("test/echo", &n.to_string())).collect())
            }
            () => ScriptedReply::Calls(vec![call("test/echo", &n)]),
        }
    });
    let runtime = build(stage.with(model).tools(Arc::new(echo())).tools(Arc::new(fails))).await;
    let limits = Limits { max_steps: 3, max_tool_calls: 9, ..Limits::default() };
    for (text, limits) in [
        ("next: steps", limits),
        ("next: many", Limits { max_tool_calls: 3, ..limits }),
        ("next: errors", limits),
        ("next: identical", Limits { max_steps: 9, max_identical_calls: 2, ..limits }),
        ("next: tokens", Limits { max_steps: 9, max_total_tokens: 400, ..limits }),
    ] {
        stage.say(&runtime, AgentRequest { limits: Some(limits), ..say(text) }).await;
    }
    runtime.shutdown().await;
}
