//! What went wrong, in our words.
//!
//! Of a provider's body a short message and a code are shown (see `said`) and nothing else: it may hold the prompt or
//! the key. For the same reason genai's own texts are not used.

use super::direct::Unreadable;
use super::pace::Halt;
use super::wire::{Fault, MOST_ANSWER_BYTES, MOST_CALLS, MOST_WIRE_BYTES};
use super::{Attempt, retry_after, said};
use crate::cause::{copied, root_cause};
use ::genai::Error;
use ::genai::webc::{Error as WebError, StreamTimeout};
use bob_messages::llm::{LlmError, LlmErrorKind as Kind};
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::error::Error as _;

/// As much of an error body as is looked at, in bytes.
const MOST_BODY_BYTES: usize = 16 * 1024;

/// How much is told of what the system said, characters.
const MOST_CAUSE: usize = 120;

/// Words by which providers say that the quota is used up and waiting is no use.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "insufficient quota",
    "insufficient_balance",
    "insufficient balance",
    "exceeded_current_quota",
    "quota_exhausted",
    "quota exhausted",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit balance is too low",
    "perday",
];

/// Words by which providers say that the prompt is too long for the model.
const CONTEXT: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "prompt is too long",
    "input length and `max_tokens` exceed",
    "input token count",
    "context window",
];

pub(super) fn read(error: Error, attempt: &Attempt<'_>) -> LlmError {
    match error {
        Error::WebStream { error, .. } => boxed(error, attempt),
        Error::HttpError { status, body, headers, .. } => http(status.as_u16(), &body, Some(&headers), attempt),
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => web(webc_error, attempt),
        Error::ChatResponse { body, .. } => in_stream(&body, attempt),
        Error::MessageContentTypeNotSupported { .. } | Error::AdapterNotSupported { .. } => {
            failure(attempt, Kind::Rejected, "does not take this kind of content")
        }
        _malformed_or_out_of_order => unreadable(attempt),
    }
}

/// Whether genai failed over what a frame holds, which was read from the wire as well.
pub(super) fn is_of_content(error: &Error) -> bool {
    matches!(error, Error::StreamParse { .. } | Error::ChatResponse { .. } | Error::JsonValueExt(_))
}

pub(super) fn fault(fault: Fault, attempt: &Attempt<'_>) -> LlmError {
    let too_large = |what: &str| failure(attempt, Kind::TooLarge, what);
    match fault {
        Fault::Unreadable => unreadable(attempt),
        Fault::WireTooLarge => too_large(&format!("sent more than {MOST_WIRE_BYTES} bytes for one answer")),
        Fault::AnswerTooLarge => too_large(&format!(
            "sent more than {MOST_ANSWER_BYTES} bytes of text, reasoning and arguments in one answer, or too \
             much in very small pieces"
        )),
        Fault::TooManyCalls => too_large(&format!("asked for more than {MOST_CALLS} calls in one answer")),
        Fault::Reported(body) => in_stream(&body, attempt),
    }
}

fn unreadable(attempt: &Attempt<'_>) -> LlmError {
    failure(attempt, Kind::Unavailable, "sent an answer that cannot be read")
}

/// An event that did not come to its end.
pub(super) fn halt(halt: Halt, attempt: &Attempt<'_>) -> LlmError {
    match halt {
        Halt::Silent => silent(attempt),
        Halt::Endless => endless(attempt),
        Halt::Broken => unreadable(attempt),
    }
}

pub(super) fn silent(attempt: &Attempt<'_>) -> LlmError {
    let limit_ms = attempt.provider.limits.timeout_ms;
    failure(attempt, Kind::Timeout, &format!("was silent in the middle of its answer for {limit_ms} ms"))
}

pub(super) fn frames(unreadable_because: Unreadable, attempt: &Attempt<'_>) -> LlmError {
    match unreadable_because {
        Unreadable::Endless => endless(attempt),
        Unreadable::NoText => unreadable(attempt),
    }
}

fn endless(attempt: &Attempt<'_>) -> LlmError {
    failure(attempt, Kind::TooLarge, "sent an event or a body that does not end")
}

/// The headers did not come in time.
pub(super) fn no_beginning(attempt: &Attempt<'_>) -> LlmError {
    let limit_ms = attempt.provider.limits.timeout_ms;
    failure(attempt, Kind::Timeout, &format!("did not begin to answer within {limit_ms} ms"))
}

/// The key holds what no header can.
pub(super) fn unsendable_key(attempt: &Attempt<'_>) -> LlmError {
    failure(attempt, Kind::Rejected, "has a key that cannot be sent: it holds a line end or another control character")
}

/// A failure without a status: "provider openai …".
pub(super) fn failure(attempt: &Attempt<'_>, kind: Kind, what: &str) -> LlmError {
    LlmError::new(kind, format!("provider {} {what}", attempt.provider.name))
}

fn boxed(error: ::genai::BoxError, attempt: &Attempt<'_>) -> LlmError {
    let error = match error.downcast::<Error>() {
        Ok(error) => return read(*error, attempt),
        Err(other) => other,
    };
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return transport(error, attempt);
    }
    match error.downcast_ref::<StreamTimeout>() {
        Some(StreamTimeout::Headers) => no_beginning(attempt),
        Some(StreamTimeout::Read) => silent(attempt),
        None => unreadable(attempt),
    }
}

fn web(error: WebError, attempt: &Attempt<'_>) -> LlmError {
    match error {
        WebError::ResponseFailedStatus { status, body, headers } => {
            http(status.as_u16(), &body, Some(&headers), attempt)
        }
        WebError::Reqwest(error) => transport(&error, attempt),
        WebError::ResponseFailedNotJson { .. }
        | WebError::ResponseFailedInvalidJson { .. }
        | WebError::JsonValueExt(_) => unreadable(attempt),
    }
}

pub(super) fn transport(error: &reqwest::Error, attempt: &Attempt<'_>) -> LlmError {
    let failed = if error.is_timeout() {
        failure(attempt, Kind::Timeout, "did not answer in time")
    } else if error.is_connect() {
        let cause: String = root_cause(error).to_string().chars().take(MOST_CAUSE).collect();
        let what = format!("cannot be reached ({cause}): check that it runs and that its base_url is right");
        failure(attempt, Kind::Unavailable, &what)
    } else {
        failure(attempt, Kind::Unavailable, "broke the connection in the middle of its answer")
    };
    // Its own text has the address, and what is in an address may be a key.
    match error.source() {
        Some(below) => failed.with_source(copied(below, &|text| said::sanitised(text, attempt.keys))),
        None => failed,
    }
}

/// An error inside a stream that began with status 200.
fn in_stream(body: &Value, attempt: &Attempt<'_>) -> LlmError {
    let code = ["/code", "/error/code", "/status"].iter().find_map(|path| body.pointer(path)?.as_u64());
    if let Some(status) = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code)) {
        return http(status, &body.to_string(), None, attempt);
    }
    let text = body.to_string();
    let words = lowered(&text);
    let status = if contains(&words, QUOTA) || words.contains("rate_limit") {
        429
    } else if contains(&words, CONTEXT) || words.contains("invalid_request") {
        400
    } else if words.contains("authentication_error") || words.contains("permission_error") {
        401
    } else {
        let error = failure(attempt, Kind::Unavailable, "reported an error in the middle of its answer");
        return said::with(error, &text, attempt.keys);
    };
    let mut error = http(status, &text, None, attempt);
    error.status = None;
    error
}

pub(super) fn http(status: u16, body: &str, headers: Option<&HeaderMap>, attempt: &Attempt<'_>) -> LlmError {
    let kind = classify(status, &lowered(body));
    let name = &attempt.provider.name;
    let advice = match kind {
        Kind::Unauthorized => match &attempt.provider.key_variable {
            Some(variable) => format!("check the key in {variable}"),
            None => format!("check the key of [providers.{name}]"),
        },
        Kind::QuotaExhausted => "its quota is used up: check plan and billing, or use another model".to_owned(),
        Kind::RateLimited => "too many requests: try again later".to_owned(),
        Kind::ContextExceeded => "the prompt is longer than the model's context".to_owned(),
        Kind::UnknownModel => format!("it does not know the model {}: check its name", attempt.model.model()),
        Kind::Unavailable | Kind::Timeout => "the provider failed: try again later".to_owned(),
        _rejected_and_those_without_a_status => "it refused the request".to_owned(),
    };
    let mut error = LlmError::new(kind, format!("HTTP {status} from provider {name}: {advice}")).with_status(status);
    error.retry_after_ms = headers.and_then(retry_after::read);
    said::with(error, &body[..body.floor_char_boundary(MOST_BODY_BYTES)], attempt.keys)
}

fn classify(status: u16, words: &str) -> Kind {
    match status {
        401 | 403 => Kind::Unauthorized,
        402 => Kind::QuotaExhausted,
        400 | 413 | 422 | 429 if contains(words, QUOTA) => Kind::QuotaExhausted,
        429 => Kind::RateLimited,
        400 | 413 | 422 if contains(words, CONTEXT) => Kind::ContextExceeded,
        404 => Kind::UnknownModel,
        400 if words.contains("model_not_found") => Kind::UnknownModel,
        408 => Kind::Timeout,
        500.. => Kind::Unavailable,
        _any_other_refusal => Kind::Rejected,
    }
}

fn lowered(body: &str) -> String {
    body[..body.floor_char_boundary(MOST_BODY_BYTES)].to_lowercase()
}

fn contains(words: &str, any: &[&str]) -> bool {
    any.iter().any(|word| words.contains(word))
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
