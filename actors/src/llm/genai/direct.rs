//! The way around genai, for servers that speak OpenAI's chat completions.
//!
//! genai makes a tree of JSON of each request, tools and history included, and reads each frame of the answer once more
//! after the [`Wire`](super::wire::Wire) has read it. Here the request is written as it is sent, and a frame is read
//! once. What is sent means what genai would send: a test compares the two.

mod body;
mod frames;

use super::silence::Silence;
use super::stream::{Shown, answer};
use super::wire::Wire;
use super::{Attempt, NO_KEY, errors};
use crate::llm::deltas::DeltaSink;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest};
pub(super) use body::Tools;
use frames::Frames;
pub(super) use frames::Unreadable;
use futures_util::FutureExt;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use secrecy::ExposeSecret;
use std::time::Duration;
use tokio::time::timeout;

/// The longest body of an error, in bytes.
const MOST_ERROR_BYTES: usize = 1 << 20;

/// How long the rest of an answer may take behind its end marker, so that its connection can be used again.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// The most that is read behind an end marker, in bytes.
const MOST_REST_BYTES: usize = 64 * 1024;

/// Where requests go; `None` when the address is none, which genai tells as it does of others.
pub(super) fn address(base_url: &str) -> Option<Url> {
    let base = Url::parse(base_url).ok()?;
    let mut url = base.join("chat/completions").ok()?;
    url.set_query(base.query());
    Some(url)
}

/// Sends the request and reads its answer to the end marker; whatever ends otherwise is a failure.
pub(super) async fn ask(
    client: &Client,
    address: &Url,
    (request, can, tools): (&LlmRequest, &Capabilities, &Tools),
    attempt: &Attempt<'_>,
    deltas: &DeltaSink,
) -> Result<LlmAnswer, LlmError> {
    let silence = Duration::from_millis(attempt.provider.limits.timeout_ms);
    let body = body::render(attempt, request, can, tools);
    let sending = client.post(address.clone()).headers(headers(request, attempt)?).body(body).send();
    let response = match timeout(silence, sending).await {
        Ok(sent) => sent.map_err(|error| errors::transport(&error, attempt))?,
        Err(_elapsed) => return Err(errors::no_beginning(attempt)),
    };
    if !response.status().is_success() {
        return Err(refused(response, attempt, silence).await);
    }
    read(response, attempt, deltas, silence).await
}

fn headers(request: &LlmRequest, attempt: &Attempt<'_>) -> Result<HeaderMap, LlmError> {
    let key = attempt.provider.key.as_ref().map_or(NO_KEY, |key| key.expose_secret());
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_no_header| errors::unsendable_key(attempt));
    let mut bearer = value(&format!("Bearer {key}"))?;
    bearer.set_sensitive(true);
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(AUTHORIZATION, bearer);
    if let Ok(trace) = HeaderValue::from_str(&request.traceparent)
        && !trace.is_empty()
    {
        headers.insert("traceparent", trace);
    }
    if let Some(Ok(state)) = request.tracestate.as_deref().map(HeaderValue::from_str) {
        headers.insert("tracestate", state);
    }
    Ok(headers)
}

/// Reads frames until the end marker.
async fn read(
    mut response: Response,
    attempt: &Attempt<'_>,
    deltas: &DeltaSink,
    silence: Duration,
) -> Result<LlmAnswer, LlmError> {
    let mut wire = Wire::new(attempt.provider.kind);
    let (mut frames, mut shown, mut quiet, mut has_grown) =
        (Frames::default(), Shown::default(), Silence::default(), false);
    loop {
        let bytes = {
            let chunk = response.chunk();
            tokio::pin!(chunk);
            let next = std::future::poll_fn(|context| {
                if let std::task::Poll::Ready(chunk) = chunk.as_mut().poll(context) {
                    return std::task::Poll::Ready(Some(chunk));
                }
                let grown = std::mem::take(&mut has_grown);
                quiet.poll(context, grown, silence, silence).map(|()| None)
            });
            next.await.ok_or_else(|| errors::silent(attempt))?
        };
        // A provider that sends as fast as it is read would never let anything else run, nor the call be given up.
        tokio::task::coop::consume_budget().await;
        let bytes = bytes.map_err(|error| errors::transport(&error, attempt))?;
        let has_more = bytes.is_some();
        let whole = match &bytes {
            Some(bytes) => frames.read(bytes, |event, data| wire.frame(event, data)),
            None => frames.end(|event, data| wire.frame(event, data)),
        };
        // What stands behind the end of an answer does not count, wherever a read ends.
        let is_over = wire.has_ended || wire.fault.is_some();
        has_grown |= match whole {
            Ok(frames) => frames > 0,
            Err(_behind) if is_over => false,
            Err(unreadable) => return Err(errors::frames(unreadable, attempt)),
        };
        shown.show(&wire, deltas);
        if let Some(fault) = wire.fault.take() {
            return Err(errors::fault(fault, attempt));
        }
        if wire.has_ended {
            if has_more {
                rest(response);
            }
            return answer(&mut wire, attempt, deltas);
        }
        if !has_more {
            let what = "ended its answer without an end marker";
            return Err(errors::failure(attempt, LlmErrorKind::Unavailable, what));
        }
    }
}

/// Reads what comes behind the end marker, else the connection cannot be used again.
fn rest(mut response: Response) {
    // Nearly always it is there.
    match response.chunk().now_or_never() {
        Some(Ok(Some(_))) | None => {}
        Some(Ok(None) | Err(_)) => return,
    }
    let reading = async move {
        let mut bytes = 0;
        while let Ok(Some(more)) = response.chunk().await {
            bytes += more.len();
            if bytes > MOST_REST_BYTES {
                return;
            }
        }
    };
    // Bounded in time and bytes, and nothing waits for it.
    drop(tokio::spawn(timeout(REST_WITHIN, reading)));
}

/// An answer with another status than success: as much of its body as comes in time.
async fn refused(mut response: Response, attempt: &Attempt<'_>, silence: Duration) -> LlmError {
    let (status, mut body) = (response.status().as_u16(), Vec::new());
    let headers = std::mem::take(response.headers_mut());
    let reading = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() > MOST_ERROR_BYTES {
                return;
            }
        }
    };
    let _whole_or_not = timeout(silence, reading).await;
    if body.len() > MOST_ERROR_BYTES {
        return errors::frames(Unreadable::Endless, attempt);
    }
    errors::http(status, &String::from_utf8_lossy(&body), Some(&headers), attempt)
}

#[cfg(test)]
#[path = "direct/direct_tests.rs"]
mod tests;
