//! One model call: its place, its attempts, its fallbacks.
//!
//! The only place where anything is tried again. Everything it needs it holds, so it
//! goes on when the LlmActor is started anew; dropping it ends the call and closes
//! the provider's connection.

use super::actor::LlmArguments;
use super::deltas::DeltaSink;
use super::retry::{Failure, Verdict};
use crate::clock;
use bob_messages::chat::Message;
use bob_messages::event::AgentEvent;
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmRequest, ToolMode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tower::retry::budget::Budget;

/// Asks until there is an answer or nothing more to try. `remaining_ms` is what is
/// left of the turn.
pub(super) async fn answer(
    desk: &LlmArguments,
    request: &Arc<LlmRequest>,
    remaining_ms: u64,
) -> Result<LlmAnswer, LlmError> {
    let started = Instant::now();
    desk.port.capabilities(&request.model)?;
    let deltas = DeltaSink::new(Arc::clone(&desk.feed), Arc::clone(request));
    let mut asked = Asked { model: &request.model, fallbacks: &request.fallback, tried_again: 0 };
    loop {
        let provider = asked.model.provider();
        let most = desk.port.limits(provider).max_concurrent;
        // Held while waiting to try again, too: a provider that fails is not asked by more.
        let _place = desk.admission.enter(provider, most, &request.session, request.interactive).await;
        let budget = desk.budgets.of(provider);
        budget.deposit();
        let mut repeated = 0;
        loop {
            let error = match desk.port.complete_stream(Arc::clone(request), asked.model, deltas.clone()).await {
                Ok(answer) => {
                    deltas.end();
                    return Ok(LlmAnswer { latency_ms: millis(started.elapsed()), ..answer });
                }
                Err(error) => error,
            };
            asked.skip_unsuitable(desk, request);
            let remaining_ms = remaining_ms.saturating_sub(millis(started.elapsed()));
            let has_fallback = !asked.fallbacks.is_empty();
            let failure = Failure { error: &error, repeated, remaining_ms, chance: fastrand::f64(), has_fallback };
            let delay_ms = match desk.retry.rule(failure, || budget.withdraw()) {
                Verdict::Again { delay_ms } => Some(delay_ms),
                Verdict::Fallback if asked.take_fallback() => None,
                Verdict::Fallback | Verdict::GiveUp => return Err(error),
            };
            asked.tried_again += 1;
            deltas.reset();
            tell(desk, request, &asked, delay_ms.unwrap_or(0), error);
            let Some(delay_ms) = delay_ms else { break };
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            repeated += 1;
        }
    }
}

/// Which model is asked, and who else could be.
struct Asked<'a> {
    model: &'a ModelName,
    fallbacks: &'a [ModelName],
    /// How often this call was tried again, by whatever model.
    tried_again: u32,
}

impl Asked<'_> {
    fn skip_unsuitable(&mut self, desk: &LlmArguments, request: &LlmRequest) {
        while let [next, rest @ ..] = self.fallbacks {
            if suits(desk, request, next) {
                return;
            }
            self.fallbacks = rest;
        }
    }

    fn take_fallback(&mut self) -> bool {
        match self.fallbacks {
            [next, rest @ ..] => {
                (self.model, self.fallbacks) = (next, rest);
                true
            }
            [] => false,
        }
    }
}

fn tell(desk: &LlmArguments, request: &LlmRequest, asked: &Asked<'_>, delay_ms: u64, error: LlmError) {
    if !desk.feed.is_watched() {
        return;
    }
    let models = u32::try_from(request.fallback.len()).unwrap_or(u32::MAX).saturating_add(1);
    let of = desk.retry.max.saturating_add(1).saturating_mul(models).saturating_sub(1);
    let LlmRequest { session, turn, step, .. } = request;
    let (attempt, model) = (asked.tried_again, asked.model.clone());
    let event = AgentEvent::LlmRetried { step: *step, attempt, of, delay_ms, model, reason: error.message };
    desk.feed.emit(session, turn, clock::now(), event);
}

/// Whether a fallback can be asked what was prepared for the first choice.
fn suits(desk: &LlmArguments, request: &LlmRequest, model: &ModelName) -> bool {
    desk.port.capabilities(model).is_ok_and(|can| {
        let Capabilities { native_tools, system_role, context_tokens, .. } = can;
        let calls = native_tools || request.tools.is_empty() || request.mode == ToolMode::Json;
        let told = system_role || request.system.is_empty();
        let fits = desk.port.estimate_tokens(request) <= u64::from(context_tokens);
        calls && told && fits && request.messages.iter().all(|message| takes(&can, message))
    })
}

fn takes(can: &Capabilities, message: &Message) -> bool {
    match message {
        Message::User { parts } => parts.iter().all(|part| can.takes(part)),
        Message::Assistant { .. } | Message::Tool { .. } => true,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
