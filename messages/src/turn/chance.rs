//! Chance for the properties: setups, decisions, and what models and tools say.

use super::state::State;
use super::world::{answer, model};
use super::{Brief, Limits, OnRestart, TurnMessage};
use crate::chat::{CallStatus, StopReason};
use crate::ids::{ApprovalId, Ticket};
use crate::llm::{LlmAnswer, LlmError, LlmErrorKind, LlmRequest, ToolMode, ToolModeChoice};
use crate::session::ApprovalsMode;
use crate::sessions::Decision;
use crate::store::{Ended, StoreError};
use crate::tools::{ToolOutput, ToolReturn, ToolSet};
use proptest::prelude::*;
use std::sync::Arc;

/// One decision of the scheduler: a number that is used up by choices. Zero always
/// chooses what happens on a good day, so that a failing case shrinks towards one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn pick(&mut self, choices: usize) -> usize {
        let choices = choices as u64;
        let chosen = self.0 % choices;
        self.0 /= choices;
        chosen as usize
    }

    /// Once in so many.
    pub(super) fn rarely(&mut self, often: usize) -> bool {
        self.pick(often) == often - 1
    }
}

/// What is the same for a whole run.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) limits: Limits,
    pub(super) approvals: ApprovalsMode,
    pub(super) mode: ToolModeChoice,
    pub(super) on_restart: OnRestart,
    pub(super) max_waiting: usize,
}

impl Setup {
    pub(super) fn brief(&self) -> Brief {
        let (tool_mode, on_restart, max_waiting) = (self.mode, self.on_restart, self.max_waiting);
        Brief { tool_mode, on_restart, max_waiting, ..Brief::new(model()) }
    }
}

pub(super) fn limits() -> impl Strategy<Value = Limits> {
    let tokens = prop_oneof![3 => Just(0_u64), 1 => 1_u64..60];
    (1_u32..=5, 0_u32..=4, 1_u32..=3, 1_u32..=3, tokens).prop_map(|(steps, calls, errors, identical, tokens)| Limits {
        max_steps: steps,
        max_tool_calls: calls,
        max_consecutive_errors: errors,
        max_identical_calls: identical,
        max_total_tokens: tokens,
        ..Limits::default()
    })
}

pub(super) fn setups() -> impl Strategy<Value = Setup> {
    let approvals = prop_oneof![Just(ApprovalsMode::Deny), Just(ApprovalsMode::Wait), Just(ApprovalsMode::Suspend)];
    let mode = prop_oneof![Just(ToolModeChoice::Native), Just(ToolModeChoice::Json)];
    let on_restart = prop_oneof![Just(OnRestart::Report), Just(OnRestart::Resume)];
    (limits(), approvals, mode, on_restart, 0_usize..4).prop_map(
        |(limits, approvals, mode, on_restart, max_waiting)| Setup { limits, approvals, mode, on_restart, max_waiting },
    )
}

pub(super) fn decisions() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(any::<u64>(), 0..120)
}

/// What a tool returns.
pub(super) fn returned(dice: &mut Dice) -> ToolReturn {
    let (status, output) = match dice.pick(4) {
        0 | 1 => (CallStatus::Ok, ToolOutput::text("done")),
        2 => (CallStatus::Error, ToolOutput::error("failed")),
        _ => (CallStatus::Unknown, ToolOutput::error("outcome unknown")),
    };
    ToolReturn { status, output, duration_ms: 1 }
}

/// What a model says; zero gives a final answer.
pub(super) fn reply(request: &LlmRequest, dice: &mut Dice) -> Result<LlmAnswer, LlmError> {
    let json = request.mode == ToolMode::Json;
    let plain = |text: &str| {
        let enveloped = serde_json::json!({"type": "final", "content": text}).to_string();
        answer(if json { &enveloped } else { text }, &[])
    };
    Ok(match dice.pick(12) {
        0 | 1 => plain("the answer"),
        2..=6 if json => answer(&envelope(dice), &[]),
        2..=7 => {
            let mut calls: Vec<_> = (0..=dice.pick(4)).map(|_| native_call(dice)).collect();
            if dice.rarely(4) {
                calls = vec![calls[0]; 4];
            }
            answer(["", "I will look."][dice.pick(2)], &calls)
        }
        8 => answer(["", "{\"type\":\"final\"}", "{\"type\":", "hello"][dice.pick(4)], &[]),
        9 => LlmAnswer { stop_reason: StopReason::Refusal, ..answer("I would rather not", &[]) },
        10 => {
            LlmAnswer { stop_reason: StopReason::MaxTokens, ..answer("so far", &[native_call(dice)][dice.pick(2)..]) }
        }
        _ => {
            let kind = [LlmErrorKind::Unavailable, LlmErrorKind::Rejected][dice.pick(2)];
            return Err(LlmError::new(kind, "the provider is down"));
        }
    })
}

/// Something that answers no question, or has no place in this state.
pub(super) fn foreign(state: &State, dice: &mut Dice) -> TurnMessage {
    let ticket = Ticket(9_000_000);
    let ended = Ended {
        finish_reason: crate::chat::FinishReason::Final,
        guard_reason: None,
        content: "foreign".into(),
        suspended: None,
        error: None,
    };
    match dice.pick(11) {
        0 => TurnMessage::Checked { ticket, verdict: None },
        1 => TurnMessage::ToolReturned { ticket, returned: Box::new(returned(dice)) },
        2 => TurnMessage::Saved { ticket, result: Ok(1) },
        3 => TurnMessage::Saved { ticket, result: Err(StoreError::Fenced { epoch: 99 }) },
        4 => TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("foreign", &[]))) },
        5 => TurnMessage::Decided { approval: ApprovalId::new("foreign"), decision: Box::new(Decision::AllowOnce) },
        6 => TurnMessage::Loaded { ticket, result: Ok(crate::store::Claim::default()) },
        7 => TurnMessage::ToolsListed { ticket, tools: Arc::new(ToolSet::default()), servers: Vec::new() },
        8 if !matches!(state, State::BuildPrompt) => TurnMessage::BuildPrompt,
        9 if !matches!(state, State::CallTool(_)) => TurnMessage::CallTool,
        10 if !matches!(state, State::Done(_)) => TurnMessage::Done { ended: Box::new(ended) },
        _ => TurnMessage::Profiled { ticket, result: Err(LlmError::new(LlmErrorKind::Gone, "foreign")) },
    }
}

const TOOLS: [&str; 8] = ["read", "write", "idem", "ask", "deny", "bad", "ask_user", "nope"];

fn native_call(dice: &mut Dice) -> (&'static str, &'static str) {
    let tool = TOOLS[dice.pick(8)];
    let arguments = match dice.pick(16) {
        _ if tool == "ask_user" && !dice.rarely(8) => "{\"question\":\"which?\"}",
        0..=4 => "{\"a\":1}",
        5..=8 => "{\"a\":2}",
        9..=11 => "",
        12 | 13 => "{\"a\":0.1,\"b\":[1e300,-0.0,5.0142369e-5]}",
        14 => ["{\"a\":1,\"a\":2}", "{\"a\":"][dice.pick(2)],
        _ => "[1]",
    };
    let native = ["local__read", "local__write", "local__idem", "local__ask", "local__deny", "local__bad"];
    (TOOLS.iter().position(|name| *name == tool).and_then(|at| native.get(at)).unwrap_or(&tool), arguments)
}

fn envelope(dice: &mut Dice) -> String {
    let a = dice.pick(2);
    match TOOLS[dice.pick(8)] {
        "ask_user" => "{\"type\":\"ask_user\",\"question\":\"which?\"}".to_owned(),
        tool => format!("{{\"type\":\"tool_call\",\"name\":\"local/{tool}\",\"arguments\":{{\"a\":{a}}}}}"),
    }
}
