//! Reads a stream to its end marker; whatever ends otherwise is a failure.

use super::pace::Pace;
use super::tap::Tap;
use super::{Attempt, errors, render};
use crate::llm::deltas::DeltaSink;
use crate::llm::providers::ProviderKind;
use ::genai::chat::{self, ChatStream, ChatStreamEvent, ContentPart as Part, StreamEnd};
use bob_messages::chat::{StopReason, Usage};
use bob_messages::ids::ModelName;
use bob_messages::llm::{LlmAnswer, LlmError, LlmErrorKind, RawCall};
use serde_json::Value;
use std::time::Duration;

/// The largest answer we take, in bytes as they come over the wire.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// The whole answer, its pieces shown as they arrive.
pub(super) async fn read(
    mut stream: ChatStream,
    tap: &Tap,
    attempt: &Attempt<'_>,
    deltas: &DeltaSink,
) -> Result<LlmAnswer, LlmError> {
    let silence = Duration::from_millis(attempt.provider.limits.timeout_ms);
    let mut pace = Pace::default();
    // A stream may go on after an error; nothing it says then is believed.
    while let Some(event) = pace.next(&mut stream, tap, silence).await.map_err(|halt| errors::halt(halt, attempt))? {
        if tap.bytes() > MOST_BYTES {
            return Err(errors::too_large(attempt, MOST_BYTES));
        }
        if tap.is_torn() {
            return Err(errors::failure(attempt, LlmErrorKind::Unavailable, "sent an answer that cannot be read"));
        }
        let event = match event {
            Err(_) if tap.overheard().is_blocked => return answer(StreamEnd::default(), tap, attempt, deltas),
            event => event.map_err(|error| errors::read(error, attempt))?,
        };
        match event {
            ChatStreamEvent::Chunk(piece) => deltas.text(&piece.content),
            ChatStreamEvent::ReasoningChunk(piece) => deltas.reasoning(&piece.content),
            // genai makes up an end for a Gemini stream that has none.
            ChatStreamEvent::End(end) if end.captured_stop_reason.is_none() && adds_ends(attempt) => break,
            ChatStreamEvent::End(end) => return answer(end, tap, attempt, deltas),
            ChatStreamEvent::Start
            | ChatStreamEvent::ThoughtSignatureChunk(_)
            | ChatStreamEvent::ToolCallChunk(_)
            | ChatStreamEvent::Heartbeat => {}
        }
    }
    Err(errors::failure(attempt, LlmErrorKind::Unavailable, "ended its answer without an end marker"))
}

fn adds_ends(attempt: &Attempt<'_>) -> bool {
    attempt.provider.kind == ProviderKind::Gemini
}

fn answer(end: StreamEnd, tap: &Tap, attempt: &Attempt<'_>, deltas: &DeltaSink) -> Result<LlmAnswer, LlmError> {
    let overheard = tap.overheard();
    let mut text = end.captured_texts().map(|texts| texts.concat()).unwrap_or_default();
    let calls = calls(&end);
    let mut stop_reason = stop_reason(end.captured_stop_reason.as_ref(), !calls.is_empty());
    if text.is_empty() && calls.is_empty() && !overheard.refusal.is_empty() {
        deltas.text(&overheard.refusal);
        text = overheard.refusal;
        stop_reason = StopReason::Refusal;
    }
    if overheard.is_blocked {
        stop_reason = StopReason::ContentFilter;
    }
    let may_be_empty = matches!(stop_reason, StopReason::MaxTokens | StopReason::Refusal | StopReason::ContentFilter);
    if text.trim().is_empty() && calls.is_empty() && !may_be_empty {
        return Err(errors::failure(attempt, LlmErrorKind::Unavailable, "answered with neither text nor tool calls"));
    }
    let provider = attempt.model.provider();
    let said = overheard.model.and_then(|model| ModelName::parse(&format!("{provider}:{model}")).ok());
    Ok(LlmAnswer {
        text,
        reasoning: end.captured_reasoning_content,
        calls,
        stop_reason,
        usage: end.captured_usage.as_ref().and_then(usage),
        response_id: end.captured_response_id.or(overheard.id),
        model: said.unwrap_or_else(|| attempt.model.clone()),
        latency_ms: 0,
    })
}

/// The calls; the first one carries the signed thoughts of the message, where a
/// provider wants both back.
fn calls(end: &StreamEnd) -> Vec<RawCall> {
    let Some(content) = &end.captured_content else { return Vec::new() };
    let mut calls: Vec<RawCall> = content.tool_calls().into_iter().map(raw).collect();
    let signed: Vec<String> = content
        .parts()
        .windows(2)
        .filter_map(|pair| match pair {
            [Part::ThoughtSignature(signature), Part::ReasoningContent(thought)] => {
                Some(render::sign(signature, thought))
            }
            _another_pair => None,
        })
        .collect();
    if let Some(first) = calls.first_mut().filter(|_| !signed.is_empty()) {
        first.signatures = signed;
    }
    calls
}

fn raw(call: &chat::ToolCall) -> RawCall {
    let arguments = match &call.fn_arguments {
        // What did not parse is passed on as it came; judging it is not our work.
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    };
    let signatures = call.thought_signatures.clone().unwrap_or_default();
    RawCall { name: call.fn_name.clone(), arguments, signatures }
}

fn stop_reason(said: Option<&chat::StopReason>, has_calls: bool) -> StopReason {
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

/// `None` when the provider said nothing of it.
fn usage(said: &chat::Usage) -> Option<Usage> {
    let tokens = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
    let (input, output) = (tokens(said.prompt_tokens), tokens(said.completion_tokens));
    if input.is_none() && output.is_none() && said.total_tokens.is_none() {
        return None;
    }
    let (input_tokens, output_tokens) = (input.unwrap_or(0), output.unwrap_or(0));
    let details = said.prompt_tokens_details.as_ref();
    Some(Usage {
        input_tokens,
        output_tokens,
        total_tokens: tokens(said.total_tokens).unwrap_or(input_tokens + output_tokens),
        cached_input_tokens: tokens(details.and_then(|details| details.cached_tokens)),
        cache_write_tokens: tokens(details.and_then(|details| details.cache_creation_tokens)),
        reasoning_tokens: tokens(said.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens)),
    })
}
