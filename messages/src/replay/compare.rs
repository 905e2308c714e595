//! Equality of records up to times, estimated sizes and fields that older versions did not write.

use crate::agent::is_result;
use crate::chat::{CallStatus, ToolCall, ToolResult};
use crate::ids::{ResumeToken, SessionId};
use crate::input::TurnInput;
use crate::store::{Answered, Ended, FORMAT, Fact, Record};
use crate::tools::ToolOutput;
use crate::turn::{INTERRUPTED, NOT_BEGUN};
use serde_json::Value;
use std::sync::Arc;

pub(super) fn is_same(one: &Record, other: &Record) -> bool {
    let mut other = other.clone();
    // Older versions neither named steering messages nor recorded the preview shown for an approval.
    match (&one.fact, &mut other.fact) {
        (Fact::Steered { request_id: None, behind, .. }, Fact::Steered { request_id, behind: now, .. }) => {
            (*request_id, *now) = (None, *behind);
        }
        (Fact::ApprovalAsked { tool: None, reason, .. }, Fact::ApprovalAsked { tool, reason: now, .. }) => {
            *tool = None;
            now.clone_from(reason);
        }
        // They also took a write that was interrupted, and could have been repeated, for one that had not happened.
        (Fact::Result(old), Fact::Result(new))
            if old.call == new.call && is_cut(old, NOT_BEGUN) && is_cut(new, INTERRUPTED) =>
        {
            *new = Arc::clone(old);
        }
        // They gave a turn that a result begins all limits of the turn that made the call.
        (Fact::Input(old), Fact::Input(new)) if is_result(new) && old.limits != new.limits => {
            *new = Arc::new(TurnInput { limits: old.limits, ..(**new).clone() });
        }
        _as_it_is => {}
    }
    let other = &other;
    one == other || comparable(one).is_some_and(|one| Some(one) == comparable(other))
}

/// The compared part of a record as JSON, in the current format.
pub(super) fn comparable(record: &Record) -> Option<Value> {
    let mut record = Record { at: 0, format: FORMAT, ..record.clone() };
    match &mut record.fact {
        Fact::Answered(answered) => {
            let Answered { calls, tools, reasoning, cost, .. } = &mut **answered;
            cost.prompt_bytes = 0;
            // For readers only; no decision follows from either.
            (*tools, *reasoning) = (Vec::new(), None);
            *calls = calls.iter().map(|call| Arc::new(ToolCall { argument_bytes: 0, ..(**call).clone() })).collect();
        }
        Fact::Malformed { cost, .. } => cost.prompt_bytes = 0,
        Fact::Result(result) => without_running_time(result),
        Fact::Outcome(ended) => without_times(ended, &record.session),
        _without_sizes => {}
    }
    serde_json::to_value(&record).ok()
}

/// Removes the preview from two answers if only one has it: older versions did not record it.
pub(super) fn leave_out_what_one_lacks(one: &mut Record, other: &mut Record) {
    let (Fact::Answered(one), Fact::Answered(other)) = (&mut one.fact, &mut other.fact) else { return };
    if one.tools.is_empty() != other.tools.is_empty() {
        (one.tools, other.tools) = (Vec::new(), Vec::new());
    }
    if one.reasoning.is_some() != other.reasoning.is_some() {
        (one.reasoning, other.reasoning) = (None, None);
    }
}

/// Removes the run time and partial output of an interrupted call, which no other record contains.
pub(super) fn without_running_time(result: &mut Arc<ToolResult>) {
    if let Some(kept) = [NOT_BEGUN, INTERRUPTED].into_iter().find(|words| is_cut(result, words)) {
        *result = Arc::new(ToolResult { output: ToolOutput::error(kept), duration_ms: 0, ..(**result).clone() });
    }
}

/// Whether this is the result of a call that the end of its turn interrupted, with this text first.
fn is_cut(result: &ToolResult, words: &str) -> bool {
    let is_ended = matches!(result.status, CallStatus::Cancelled | CallStatus::Unknown);
    is_ended && result.output.plain().starts_with(words)
}

fn without_times(ended: &mut Ended, session: &SessionId) {
    (ended.duration_ms, ended.estimated) = (None, None);
    let Some(suspended) = &mut ended.suspended else { return };
    suspended.expires_at = None;
    // Older tokens did not begin with their session.
    if let Some(bare) = suspended.token.as_str().strip_prefix(&format!("{session}~")) {
        suspended.token = ResumeToken::new(bare);
    }
}
