//! What models, tools and strangers say. The first choice each time is a good day's.

use super::dice::Dice;
use super::plan::{Fault, Plan};
use crate::approvals::Decision;
use crate::chat::{CallStatus, FinishReason, StopReason, Usage};
use crate::condense::{CondenseRequest, Summary};
use crate::error::AgentError;
use crate::ids::{ApprovalId, Ticket, ToolName};
use crate::llm::{LlmAnswer, LlmError, LlmErrorKind, LlmRequest, ToolMode};
use crate::store::{Claim, Ended, StoreError};
use crate::tools::{ToolOutput, ToolReturn, ToolSet};
use crate::turn::TurnMessage;
use crate::turn::state::State;
use crate::turn::tests::world::answer;
use std::sync::Arc;

/// What a model may do besides answering.
#[derive(Debug, Clone, Copy)]
pub(in crate::turn) struct Moods {
    /// Replies that are no action, cut or refused.
    pub(super) malformed: bool,
    /// No answer at all.
    pub(super) fails: bool,
    /// Which tools it knows, one bit for each; never none.
    pub(super) tools: u8,
}

impl Moods {
    pub(in crate::turn) const ALL: Self = Self { malformed: true, fails: true, tools: u8::MAX };

    /// One of the tools it knows.
    fn tool(self, dice: &mut Dice) -> usize {
        let at = dice.pick(8);
        (at..at + 8).map(|at| at % 8).find(|at| self.tools & (1 << at) != 0).unwrap_or(at)
    }
}

/// What a tool returns; the number makes it one of a kind.
pub(super) fn returned(plan: &Plan, dice: &mut Dice, number: i64) -> ToolReturn {
    let padding = "z".repeat(plan.padding);
    let (status, output) = match dice.pick(6) {
        1 | 2 if plan.has(Fault::ToolErrors) => (CallStatus::Error, ToolOutput::error(format!("failed {number}"))),
        3 if plan.has(Fault::ToolDoubts) => {
            (CallStatus::Unknown, ToolOutput::error(format!("outcome unknown {number}")))
        }
        4 if plan.has(Fault::ToolDoubts) && dice.pick(2) == 0 => {
            (CallStatus::Ok, ToolOutput::waits_for(format!("a delivery {number}")))
        }
        _ => (CallStatus::Ok, ToolOutput::text(format!("done {number}{padding}"))),
    };
    ToolReturn { status, output, duration_ms: 1 }
}

/// What a model says; on a good day a final answer.
pub(in crate::turn) fn reply(moods: Moods, request: &LlmRequest, dice: &mut Dice) -> Result<LlmAnswer, LlmError> {
    let json = request.mode == ToolMode::Json;
    let structured = request.system.contains("JSON schema");
    let plain = |text: &str| {
        let content = match (structured, text) {
            (false, text) => serde_json::Value::from(text),
            (true, text) => serde_json::json!({ "ok": text == "the answer" }),
        };
        let plain = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        let enveloped = serde_json::json!({"type": "final", "content": content}).to_string();
        answer(if json { &enveloped } else { &plain }, &[])
    };
    Ok(match dice.pick(16) {
        0..=2 => plain("the answer"),
        11 if structured && moods.malformed => plain("a misfit"),
        12 | 13 if moods.malformed => answer(["", "{\"type\":\"final\"}", "{\"type\":", "hello"][dice.pick(4)], &[]),
        14 if moods.malformed && dice.pick(2) == 0 => {
            LlmAnswer { stop_reason: StopReason::Refusal, ..answer("I would rather not", &[]) }
        }
        14 if moods.malformed => LlmAnswer {
            stop_reason: StopReason::MaxTokens,
            ..answer("so far", &[native_call(moods, dice)][dice.pick(2)..])
        },
        15 if moods.fails => {
            let kind = [LlmErrorKind::Unavailable, LlmErrorKind::Rejected][dice.pick(2)];
            return Err(LlmError::new(kind, "the provider is down"));
        }
        _ if json && dice.pick(4) > 0 => answer(&envelope(moods, dice), &[]),
        _ => {
            let mut calls: Vec<_> = (0..=dice.pick(4)).map(|_| native_call(moods, dice)).collect();
            if dice.rarely(6) {
                calls = vec![calls[0]; 4];
            }
            if request.tools.get(&ToolName::new(ToolName::USE_SKILL)).is_some() && dice.pick(2) == 0 {
                let skills =
                    ["{\"name\":\"s0x\"}", "{\"name\":\"s1x\"}", "{\"name\":\"s2x\"}", "{\"name\":\"s9x\"}", "{}"];
                calls.push(("local__use_skill", skills[dice.pick(skills.len())]));
            }
            answer(["", "I will look."][dice.pick(2)], &calls)
        }
    })
}

/// What becomes of a request for a summary.
pub(super) fn summary(
    plan: &Plan,
    request: &CondenseRequest,
    dice: &mut Dice,
    now: i64,
) -> Result<Summary, AgentError> {
    let fails = plan.has(Fault::Summaries);
    let usage = (dice.pick(2) == 0).then(|| Usage { total_tokens: 3, ..Usage::default() });
    let text = match dice.pick(8) {
        1 if fails => return Err(AgentError::Internal("nobody writes".into())),
        2 if fails => String::new(),
        3 if fails => " \n".to_owned(),
        4 if fails => format!("{now} {}", "x".repeat(request.max_bytes)),
        5 => format!("{now} {}", "x".repeat(request.max_bytes))[..request.max_bytes].to_owned(),
        _ => format!("what was said before {now};"),
    };
    Ok(Summary { text, usage })
}

/// Something that answers no question, or has no place in this state.
pub(super) fn foreign(state: &State, dice: &mut Dice) -> TurnMessage {
    let ticket = Ticket(9_000_000);
    let ended = Ended { content: "foreign".into(), ..Ended::new(FinishReason::Final) };
    let returned = ToolReturn { status: CallStatus::Ok, output: ToolOutput::text("foreign"), duration_ms: 1 };
    match dice.pick(15) {
        0 => TurnMessage::Checked { ticket, verdict: None },
        1 => TurnMessage::ToolReturned { ticket, returned: Box::new(returned) },
        2 => TurnMessage::Saved { ticket, result: Ok(1) },
        3 => TurnMessage::Saved { ticket, result: Err(StoreError::Fenced { epoch: 99 }) },
        4 => TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("foreign", &[]))) },
        5 => TurnMessage::Decided {
            approval: ApprovalId::new("foreign"),
            decision: Box::new(Decision::AllowOnce),
            asker: None,
        },
        6 => TurnMessage::Loaded { ticket, result: Ok(Claim::default()) },
        7 => TurnMessage::ToolsListed { ticket, tools: Arc::new(ToolSet::default()), servers: Vec::new() },
        8 if !matches!(state, State::BuildPrompt) => TurnMessage::BuildPrompt,
        9 if !matches!(state, State::CallTool(_)) => TurnMessage::CallTool,
        10 if !matches!(state, State::Done(_)) => TurnMessage::Done { ended: Box::new(ended) },
        12 => TurnMessage::Condensed { ticket, result: Ok(Arc::default()) },
        11 => TurnMessage::LayersRead { ticket, result: Err(AgentError::Internal("foreign".into())) },
        13 => TurnMessage::SkillsListed { ticket, index: Arc::default(), scores: None },
        14 => TurnMessage::OutputChecked { ticket, result: Ok(()) },
        _ => TurnMessage::Profiled { ticket, result: Err(LlmError::new(LlmErrorKind::Gone, "foreign")) },
    }
}

const TOOLS: [&str; 8] = ["read", "write", "idem", "ask", "deny", "bad", "ask_user", "nope"];

fn native_call(moods: Moods, dice: &mut Dice) -> (&'static str, &'static str) {
    let tool = moods.tool(dice);
    let arguments = match dice.pick(16) {
        _ if TOOLS[tool] == "ask_user" && !(moods.malformed && dice.rarely(8)) => "{\"question\":\"which?\"}",
        14 if moods.malformed => ["{\"a\":1,\"a\":2}", "{\"a\":"][dice.pick(2)],
        15 if moods.malformed => "[1]",
        0..=4 => "{\"a\":1}",
        5..=8 => "{\"a\":2}",
        9..=11 => "",
        _ => "{\"a\":0.1,\"b\":[1e300,-0.0,5.0142369e-5]}",
    };
    let native = ["local__read", "local__write", "local__idem", "local__ask", "local__deny", "local__bad"];
    (native.get(tool).unwrap_or(&TOOLS[tool]), arguments)
}

fn envelope(moods: Moods, dice: &mut Dice) -> String {
    let a = dice.pick(3);
    match TOOLS[moods.tool(dice)] {
        "ask_user" => "{\"type\":\"ask_user\",\"question\":\"which?\"}".to_owned(),
        tool => format!("{{\"type\":\"tool_call\",\"name\":\"local/{tool}\",\"arguments\":{{\"a\":{a}}}}}"),
    }
}
