//! Users: denials, questions and decisions.

use std::sync::Arc;

use bob::approvals::{ApprovalsMode, Decision, PermissionMode};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::ResumeReply;
use bob::tools::{FnTool, Policy, Risk, ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime};
use serde_json::json;

use crate::support::runtime::{Nothing, build, say, within};
use crate::tapes::stage::Stage;

fn risky() -> FnTool {
    tool("test/risky", "Does something risky.", |_: Nothing, _| async { Ok(ToolOutput::text("did it")) })
        .risk(Risk::High)
}

fn calls_then_answers(tool: &'static str) -> ScriptedLlm {
    ScriptedLlm::from_fn(move |request| match request.step {
        1 => ScriptedReply::call(tool, json!({})),
        _ => ScriptedReply::text("so be it"),
    })
}

pub(crate) async fn denied(stage: &Stage) {
    let policy = Policy { deny_tools: vec!["test/denied".into()], ..Policy::default() };
    let denied = tool("test/denied", "Is denied.", |_: Nothing, _| async { Ok(ToolOutput::text("never")) });
    let model = ScriptedLlm::from_fn(|request| match (request.step, format!("{:?}", request.messages.last())) {
        (1, said) if said.contains("risky") => ScriptedReply::call("test/risky", json!({})),
        (1, _) => ScriptedReply::call("test/denied", json!({})),
        _ => ScriptedReply::text("so be it"),
    });
    let builder = stage
        .with(model)
        .policy(policy)
        .permission_mode(PermissionMode::Ask)
        .tools(Arc::new(denied))
        .tools(Arc::new(risky()));
    let runtime = build(builder).await;
    stage.say(&runtime, say("call what is denied")).await;
    stage.say(&runtime, say("call the risky one, with nobody there")).await;
    stage.say(&runtime, AgentRequest { mode: Some(PermissionMode::Auto), ..say("call the risky one, approved") }).await;
    let only = Some(vec!["test/other".to_owned()]);
    stage.say(&runtime, AgentRequest { allow_tools: only, ..say("call the risky one, not among yours") }).await;
    runtime.shutdown().await;
}

pub(crate) async fn questions(stage: &Stage) {
    let model = ScriptedLlm::from_fn(|request| match request.step {
        1 => ScriptedReply::call("ask_user", json!({"question": "which colour?"})),
        _ => ScriptedReply::text("thank you"),
    });
    let runtime = build(stage.with(model)).await;
    // A plain message answers, and so does the token; a question may also be answered by a named request.
    stage.say(&runtime, say("paint it")).await;
    stage.say(&runtime, say("blue")).await;
    let asked = stage.say(&runtime, say("paint the other one")).await;
    stage.began();
    let token = asked.token.expect("a token");
    within(runtime.resume(token, ResumeReply::Answer("red".into()))).await.expect("it is taken");
    stage.say(&runtime, say("and the last one")).await;
    let labels = [("who".to_owned(), "somebody".to_owned())].into();
    stage.say(&runtime, AgentRequest { labels, ..say("green") }).await;
    runtime.shutdown().await;
}

pub(crate) async fn approvals(stage: &Stage) {
    let builder = stage.with(calls_then_answers("test/risky")).permission_mode(PermissionMode::Ask);
    let runtime = build(builder.tools(Arc::new(risky()))).await;
    let decisions =
        [Decision::AllowOnce, Decision::Deny { reason: "not today".into() }, Decision::Edit { arguments: json!({}) }];
    for decision in decisions {
        let asked = stage.say(&runtime, AgentRequest { approvals: ApprovalsMode::Suspend, ..say("do it") }).await;
        stage.began();
        let token = asked.token.expect("a token");
        within(runtime.resume(token, ResumeReply::Decision(decision))).await.expect("it is taken");
    }
    // An unanswered question is closed by the next message.
    stage.say(&runtime, AgentRequest { approvals: ApprovalsMode::Suspend, ..say("do it again") }).await;
    stage.say(&runtime, AgentRequest { approvals: ApprovalsMode::Deny, ..say("never mind") }).await;
    runtime.shutdown().await;
}
