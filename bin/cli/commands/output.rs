//! The one result object of a turn: a line of `run --output json`, and the last line of `stream-json`.
//!
//! Its keys are a contract with scripts; they are written out here and pinned by a test, so that a change of the types
//! inside cannot change them by accident.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use bob::ModelName;
use bob::approvals::{DeniedCall, PermissionMode};
use bob::model::catalogue::Cost;
use bob::model::{Delegated, StopReason, Usage};
use bob::sessions::{FinishReason, GuardReason, RequestId, ResumeToken, TranscriptEntry, TurnOutcome};
use bob::tools::{FileChange, ToolName};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::arguments::OutputForm;
use crate::exit::{self, Failure};
use crate::terminal::{advice, print};

/// Whether this process has printed its result object. Exactly one is printed, even if an error follows.
static IS_PRINTED: AtomicBool = AtomicBool::new(false);

/// The labels of a result without a turn.
static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// How a turn ended, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct ResultObject<'a> {
    session_id: Option<&'a str>,
    turn_id: Option<&'a str>,
    request_id: Option<&'a RequestId>,
    model: Option<&'a ModelName>,
    finish_reason: FinishReason,
    guard_reason: Option<GuardReason>,
    content: &'a str,
    question: Option<&'a str>,
    token: Option<&'a ResumeToken>,
    stop_reason: Option<StopReason>,
    tool_transcript: &'a [TranscriptEntry],
    /// What the file tools changed, also those of sub-agents: each file as it was before and as it is then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<FileChange>,
    usage: Usage,
    /// What sub-agents used beside that.
    #[serde(skip_serializing_if = "Option::is_none")]
    delegated: Option<&'a Delegated>,
    /// What the turn's own model calls cost, as far as a price is known.
    #[serde(skip_serializing_if = "Cost::is_zero")]
    cost: Cost,
    steps: u32,
    duration_ms: u64,
    saved: bool,
    denied: Vec<DeniedObject<'a>>,
    labels: &'a BTreeMap<String, String>,
    error: Option<ErrorObject>,
    /// The line of a batch, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

/// A denied call: in which mode, and what would have allowed it.
#[derive(Debug, Serialize)]
struct DeniedObject<'a> {
    name: &'a ToolName,
    arguments: &'a Value,
    reason: &'a str,
    mode: PermissionMode,
    allowed_by: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct ErrorObject {
    kind: &'static str,
    message: String,
    retryable: bool,
}

impl<'a> ResultObject<'a> {
    /// The result of a turn that ended; `mode` is that of turns that name none, and `changes` what it changed of files.
    pub(crate) fn of(outcome: &'a TurnOutcome, mode: PermissionMode, changes: Vec<FileChange>) -> Self {
        let error = outcome.error.as_ref().map(|error| ErrorObject {
            kind: error.kind(),
            message: error.to_string(),
            retryable: outcome.is_retryable(),
        });
        let why = || outcome.unsaved.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let lost = || ErrorObject {
            kind: "store",
            message: format!("the end of the turn is not saved{}; `cli-agent doctor` checks the store", why()),
            retryable: false,
        };
        let error = error.or_else(|| exit::is_lost(outcome).then(lost));
        Self {
            session_id: Some(outcome.session_id.as_str()),
            turn_id: Some(outcome.turn_id.as_str()),
            request_id: outcome.request_id.as_ref(),
            model: outcome.model.as_ref(),
            finish_reason: outcome.finish_reason,
            guard_reason: outcome.guard_reason,
            content: &outcome.content,
            question: outcome.question.as_deref(),
            token: outcome.token.as_ref(),
            stop_reason: outcome.stop_reason,
            tool_transcript: &outcome.tool_transcript,
            changes,
            usage: outcome.usage,
            delegated: outcome.delegated.as_deref(),
            cost: outcome.cost,
            steps: outcome.steps,
            duration_ms: outcome.duration_ms,
            saved: outcome.saved,
            denied: outcome.denied.iter().map(|denied| DeniedObject::of(denied, mode)).collect(),
            labels: &outcome.labels,
            error,
            line: None,
        }
    }

    /// The result if there was no turn.
    pub(crate) fn without_turn(session: Option<&'a str>, failure: &Failure) -> Self {
        let error =
            ErrorObject { kind: failure.kind, message: failure.message.clone(), retryable: failure.is_retryable };
        let is_cancelled = failure.exit.is_cancelled();
        Self {
            session_id: session,
            turn_id: None,
            request_id: None,
            model: None,
            finish_reason: if is_cancelled { FinishReason::Cancelled } else { FinishReason::Error },
            guard_reason: None,
            content: "",
            question: None,
            token: None,
            stop_reason: None,
            tool_transcript: &[],
            changes: Vec::new(),
            usage: Usage::default(),
            delegated: None,
            cost: Cost::ZERO,
            steps: 0,
            duration_ms: 0,
            saved: false,
            denied: Vec::new(),
            labels: &NO_LABELS,
            error: (!is_cancelled).then_some(error),
            line: None,
        }
    }

    /// The result object for a line of a batch, counted from 1.
    pub(crate) fn at_line(self, line: u64) -> Self {
        Self { line: Some(line), ..self }
    }

    /// Prints the object in the requested format, unless one was printed before. Prints nothing in text format.
    pub(crate) fn print(&self, form: OutputForm) -> io::Result<()> {
        match form {
            OutputForm::Text => Ok(()),
            OutputForm::Json | OutputForm::StreamJson if !claim_result() => Ok(()),
            OutputForm::Json => print::json(self),
            OutputForm::StreamJson => print::json(&self.as_event(Map::new())),
        }
    }

    /// The last event of a stream: the keys of the event that ended it, and over them all keys of this object.
    pub(crate) fn as_event(&self, mut event: Map<String, Value>) -> Value {
        let Ok(Value::Object(keys)) = serde_json::to_value(self) else { return Value::Object(event) };
        event.insert("type".to_owned(), "turn.finished".into());
        event.entry("schema").or_insert_with(|| bob::events::SCHEMA.into());
        event.extend(keys);
        Value::Object(event)
    }
}

impl<'a> DeniedObject<'a> {
    fn of(denied: &'a DeniedCall, mode: PermissionMode) -> Self {
        let DeniedCall { name, arguments, reason, mode: own } = denied;
        let allowed_by = advice::allowed_by(denied);
        Self { name, arguments, reason, mode: own.unwrap_or(mode), allowed_by }
    }
}

/// Marks the result object as printed; returns `false` if it was already.
pub(crate) fn claim_result() -> bool {
    !IS_PRINTED.swap(true, Ordering::SeqCst)
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
