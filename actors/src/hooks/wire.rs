//! What a program reads, and what it may say.

use super::program::{HookPoint, HookProgram};
use crate::tools::{HookedCall, ToolError};
use bob_messages::chat::ContentPart;
use bob_messages::event::Envelope;
use bob_messages::tools::ToolOutput;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How much of a result a program is told, in bytes.
const MOST_RESULT: usize = 64 * 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BeforeCall {
    pub(super) decision: Option<Word>,
    pub(super) reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// As policy and mode say.
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AfterCall {
    pub(super) note: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtQuestion {
    pub(super) decision: Option<Answer>,
    pub(super) reason: Option<String>,
}

/// A question may be answered by a no only; a yes is a person's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Deny,
}

/// What a program said; nothing at all is nothing to say.
pub(super) fn read<T: Default + DeserializeOwned>(said: &[u8]) -> Result<T, String> {
    if said.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(said).map_err(|error| format!("what it said is not the JSON that was expected: {error}"))
}

/// The input about a call, and about its result if it has one.
pub(super) fn of_call(program: &HookProgram, call: &HookedCall, result: Option<&Value>) -> Vec<u8> {
    let HookedCall { tool, call, context } = call;
    let mut input = json!({
        "hook": program.name,
        "on": program.on.name(),
        "session_id": context.session,
        "turn_id": context.turn,
        "step": context.step,
        "cwd": context.roots.first(),
        "mode": context.mode,
        "context": context.context,
        "call": {
            "id": call.id,
            "tool": call.name,
            "kind": tool.kind,
            "arguments": &*call.arguments,
        },
    });
    if let (Some(keys), Some(result)) = (input.as_object_mut(), result) {
        keys.insert("result".to_owned(), result.clone());
    }
    line(&input)
}

pub(super) fn result(result: &Result<ToolOutput, ToolError>) -> Value {
    let (is_error, mut text) = match result {
        Ok(output) => (output.is_error, output.plain()),
        Err(error) => (true, error.to_string()),
    };
    let is_in_part = |part: &ContentPart| part.artifact().is_some_and(|artifact| !artifact.is_whole);
    let is_cut = text.len() > MOST_RESULT || result.iter().flat_map(|output| &output.parts).any(is_in_part);
    text.truncate(text.floor_char_boundary(MOST_RESULT));
    let changed = result.iter().flat_map(|output| &output.changes).map(|change| &change.path);
    json!({ "is_error": is_error, "text": text, "is_cut": is_cut, "changed_files": changed.collect::<Vec<_>>() })
}

pub(super) fn of_event(program: &HookProgram, event: &Envelope) -> Vec<u8> {
    line(&json!({
        "hook": program.name,
        "on": program.on.name(),
        "session_id": event.session_id,
        "turn_id": event.turn_id,
        "event": event.to_json(),
    }))
}

fn line(input: &Value) -> Vec<u8> {
    let mut line = input.to_string().into_bytes();
    line.push(b'\n');
    line
}

impl HookPoint {
    pub(super) fn is_at(self, event: &Envelope) -> bool {
        use bob_messages::event::AgentEvent::{ApprovalRequested, TurnFinished};
        use bob_messages::outcome::SuspendReason::AskUser;
        match (self, &event.event) {
            (Self::TurnEnd, TurnFinished { .. }) | (Self::Question, ApprovalRequested { .. }) => true,
            (Self::Question, TurnFinished { outcome }) => outcome.suspend_reason == Some(AskUser),
            (Self::BeforeCall | Self::AfterCall | Self::Question | Self::TurnEnd, _) => false,
        }
    }
}
