//! Reads a stream to its end marker; whatever ends otherwise is a failure.
//!
//! genai is asked for the next event only so that it reads on. What was said, and what it took, is what the
//! [`Wire`](super::wire::Wire) read.

use super::pace::Pace;
use super::tap::Tap;
use super::wire::{Said, Wire};
use super::{Attempt, errors};
use crate::llm::deltas::DeltaSink;
use ::genai::chat::{self, ChatStream, ChatStreamEvent};
use bob_messages::chat::StopReason;
use bob_messages::ids::ModelName;
use bob_messages::llm::{LlmAnswer, LlmError, LlmErrorKind, RawCall};
use std::time::Duration;

/// The whole answer, its pieces shown as they arrive.
pub(super) async fn read(
    mut stream: ChatStream,
    tap: &Tap,
    attempt: &Attempt<'_>,
    deltas: &DeltaSink,
) -> Result<LlmAnswer, LlmError> {
    let silence = Duration::from_millis(attempt.provider.limits.timeout_ms);
    let mut pace = Pace::default();
    let mut shown = Shown::default();
    loop {
        let event = pace.next(&mut stream, tap, silence).await;
        // A provider that sends as fast as it is read would never let anything else run, nor the call be given up.
        tokio::task::coop::consume_budget().await;
        let (fault, has_ended, is_blocked) = tap.wire(|wire| {
            shown.show(wire, deltas);
            (wire.fault.take(), wire.has_ended, wire.is_blocked)
        });
        if let Some(fault) = fault {
            return Err(errors::fault(fault, attempt));
        }
        if has_ended {
            // Also of one whose last frame genai could make nothing of.
            return tap.wire(|wire| answer(wire, attempt, deltas));
        }
        match event.map_err(|halt| errors::halt(halt, attempt))? {
            // For a refused prompt there is no candidate that could end.
            Some(Err(_)) | None if is_blocked => {
                return tap.wire(|wire| answer(wire, attempt, deltas));
            }
            // genai makes up an end for a Gemini stream that has none.
            Some(Ok(ChatStreamEvent::End(_))) | None => break,
            Some(Err(error)) if !errors::is_of_content(&error) => return Err(errors::read(error, attempt)),
            // What genai cannot make sense of was read from the wire.
            Some(Ok(_) | Err(_)) => {}
        }
    }
    Err(errors::failure(attempt, LlmErrorKind::Unavailable, "ended its answer without an end marker"))
}

#[derive(Debug, Default)]
pub(super) struct Shown {
    turns: u32,
    text: usize,
    reasoning: usize,
    /// How much of the answer was there, what is not shown included.
    weight: usize,
}

impl Shown {
    pub(super) fn show(&mut self, wire: &Wire, deltas: &DeltaSink) {
        if wire.turns != self.turns {
            *self = Self { turns: wire.turns, ..Self::default() };
            deltas.reset();
        }
        let Said { text, reasoning, .. } = &wire.said;
        if let Some(new) = reasoning.get(self.reasoning..).filter(|new| !new.is_empty()) {
            deltas.reasoning(new);
        }
        if let Some(new) = text.get(self.text..).filter(|new| !new.is_empty()) {
            deltas.text(new);
        }
        (self.reasoning, self.text) = (reasoning.len(), text.len());
        let weight = wire.weight();
        if weight > std::mem::replace(&mut self.weight, weight) {
            deltas.beat();
        }
    }
}

pub(super) fn answer(wire: &mut Wire, attempt: &Attempt<'_>, deltas: &DeltaSink) -> Result<LlmAnswer, LlmError> {
    let (said, id, model, usage, is_blocked) =
        (std::mem::take(&mut wire.said), wire.id.take(), wire.model.take(), wire.usage.take(), wire.is_blocked);
    let Said { mut text, reasoning, refusal, calls, signatures, stop } = said;
    let calls = raw(calls.into_inner(), signatures);
    let mut stop_reason = stop_reason(stop.map(chat::StopReason::from), !calls.is_empty());
    if text.is_empty() && calls.is_empty() && !refusal.is_empty() {
        deltas.text(&refusal);
        text = refusal;
        stop_reason = StopReason::Refusal;
    }
    if is_blocked {
        stop_reason = StopReason::ContentFilter;
    }
    let may_be_empty = matches!(stop_reason, StopReason::MaxTokens | StopReason::Refusal | StopReason::ContentFilter);
    if text.trim().is_empty() && calls.is_empty() && !may_be_empty {
        return Err(errors::failure(attempt, LlmErrorKind::Unavailable, "answered with neither text nor tool calls"));
    }
    let provider = attempt.model.provider();
    let another = model.filter(|model| model != attempt.model.model());
    let answered = another.and_then(|model| ModelName::parse(&format!("{provider}:{model}")).ok());
    Ok(LlmAnswer::text(answered.unwrap_or_else(|| attempt.model.clone()), text)
        .with_reasoning(Some(reasoning).filter(|reasoning| !reasoning.is_empty()))
        .with_calls(calls)
        .with_stop_reason(stop_reason)
        .with_usage(usage)
        .with_response_id(id))
}

/// The calls; the first one carries the signatures of the message, unless it has its own.
fn raw(begun: Vec<super::wire::Begun>, signatures: Vec<String>) -> Vec<RawCall> {
    let mut calls: Vec<RawCall> = begun
        .into_iter()
        .map(|call| RawCall::new(call.name, bare(call.arguments)).with_signatures(call.signatures))
        .collect();
    if let Some(first) = calls.first_mut().filter(|first| first.signatures.is_empty()) {
        first.signatures = signatures;
    }
    calls
}

/// Arguments as a model meant them: `null` is none, and some servers quote the text once too often.
fn bare(arguments: String) -> String {
    match arguments.trim() {
        "null" => String::new(),
        quoted if quoted.starts_with('"') => serde_json::from_str(quoted).unwrap_or(arguments),
        _object_or_anything => arguments,
    }
}

fn stop_reason(said: Option<chat::StopReason>, has_calls: bool) -> StopReason {
    match said {
        Some(chat::StopReason::MaxTokens(_)) => StopReason::MaxTokens,
        Some(chat::StopReason::ContentFilter(raw)) if raw == "refusal" => StopReason::Refusal,
        Some(chat::StopReason::ContentFilter(_)) => StopReason::ContentFilter,
        // Some servers say "stop" beside calls.
        _any_other_reason if has_calls => StopReason::ToolCalls,
        Some(chat::StopReason::ToolCall(_)) => StopReason::ToolCalls,
        Some(chat::StopReason::Completed(_) | chat::StopReason::StopSequence(_)) => StopReason::Stop,
        Some(chat::StopReason::Other(_)) | None => StopReason::Other,
    }
}
