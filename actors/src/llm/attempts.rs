//! One model call: its place, its attempts, its fallbacks.
//!
//! The only place where anything is tried again. Everything it needs it holds, so it goes on when the LlmActor is
//! started anew; dropping it ends the call and closes the provider's connection.

use super::admission::Most;
use super::arguments::LlmArguments;
use super::bounds;
use super::deltas::DeltaSink;
use super::retry::{Failure, Verdict};
use crate::clock;
use bob_messages::chat::Message;
use bob_messages::event::AgentEvent;
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmRequest, ToolMode};
use bob_messages::reply::{Pulse, SoFar};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tower::retry::budget::Budget;

/// Asks until there is an answer or nothing more to try. `remaining_ms` is what is
/// left of the turn; what readers see of the answer is kept in `seen`, which counts each piece as a sign of life.
pub(super) async fn answer(
    shared: &LlmArguments,
    request: &Arc<LlmRequest>,
    remaining_ms: u64,
    seen: SoFar,
) -> Result<Arc<LlmAnswer>, LlmError> {
    let started = Instant::now();
    shared.port.capabilities(&request.model)?;
    let request = &shared.artifacts.whole(request).await;
    let deltas = match request.aside {
        true => DeltaSink::unread(),
        false => DeltaSink::new(Arc::clone(&shared.feed), Arc::clone(request), seen),
    };
    let (model, fallbacks) = (&request.model, &*request.fallback);
    let waited = Duration::ZERO;
    let mut call = Call { shared, request, deltas, started, waited, remaining_ms, model, fallbacks, tried_again: 0 };
    loop {
        if let Some(answered) = call.ask_model().await? {
            return Ok(answered);
        }
    }
}

struct Call<'a> {
    shared: &'a LlmArguments,
    request: &'a Arc<LlmRequest>,
    deltas: DeltaSink,
    started: Instant,
    /// How much of the time since then it waited for a server of this machine to start.
    waited: Duration,
    remaining_ms: u64,
    model: &'a ModelName,
    /// Who else could be.
    fallbacks: &'a [ModelName],
    /// How often the call was tried again, by whatever model.
    tried_again: u32,
}

impl<'a> Call<'a> {
    /// All attempts at one model. `None`: the next model is to be asked.
    async fn ask_model(&mut self) -> Result<Option<Arc<LlmAnswer>>, LlmError> {
        let Self { shared, request, .. } = *self;
        let provider = self.model.provider();
        // Checked before queueing, too: a call that would be refused need not wait for that.
        if let Err(down) = shared.breakers.look(provider) {
            return self.after(down, 0, || false).map(|_at_once| None);
        }
        let is_local = shared.readiness.as_deref().is_some_and(|readiness| readiness.starts(provider));
        let most = Most { calls: shared.port.limits(provider).max_concurrent, is_shared: !is_local };
        let budget = shared.budgets.of(provider);
        for repeated in 0.. {
            let attempted = match self.ready(provider).await {
                Err(not_ready) => Err(not_ready),
                // The place is given back while this call waits to try again: a provider that asked one session to
                // wait may answer another. A call that comes back queues as any other.
                Ok(()) => {
                    let _place = shared.admission.enter(provider, most, &request.session, request.interactive).await;
                    if repeated == 0 {
                        budget.deposit();
                    }
                    self.attempt(provider).await
                }
            };
            let error = match attempted {
                Ok(mut answer) => {
                    self.deltas.end();
                    answer.cost = answer.usage.and_then(|usage| Some(shared.port.price(self.model)?.of(&usage)));
                    answer.latency_ms = self.took_ms();
                    // Shared at once, since it is large and goes through several futures.
                    return Ok(Some(Arc::new(answer)));
                }
                Err(error) => error,
            };
            let Some(delay_ms) = self.after(error, repeated, || budget.withdraw())? else { break };
            // In a box, since it is rare and its timer is large.
            Box::pin(tokio::time::sleep(Duration::from_millis(delay_ms))).await;
        }
        Ok(None)
    }

    /// Waits for the provider's server on this machine, if it has one. All calls wait for its start together, before
    /// they queue, and what it takes counts for no limit of their turns.
    async fn ready(&mut self, provider: &str) -> Result<(), LlmError> {
        let readiness = self.shared.readiness.as_deref();
        let Some(readiness) = readiness.filter(|readiness| readiness.starts(provider)) else { return Ok(()) };
        let waiting = Waiting::begin(self.deltas.pulse());
        let ready = readiness.ready(provider).await;
        self.waited += waiting.began.elapsed();
        ready
    }

    /// How long the call has taken without waiting for a server.
    fn took_ms(&self) -> u64 {
        millis(self.started.elapsed().saturating_sub(self.waited))
    }

    /// One attempt, unless the provider is down.
    async fn attempt(&self, provider: &str) -> Result<LlmAnswer, LlmError> {
        let pass = self.shared.breakers.pass(provider)?;
        let request = Arc::clone(self.request);
        let mut result = self.shared.port.complete_stream(request, self.model, self.deltas.clone()).await;
        if let Ok(answer) = &result
            && let Err(error) = bounds::check(answer, self.model)
        {
            result = Err(error);
        }
        pass.tell(&result);
        result
    }

    /// What follows a failure: the same model again after so many milliseconds, or `None` for the next model at once.
    fn after(
        &mut self,
        error: LlmError,
        repeated: u32,
        budget: impl FnOnce() -> bool,
    ) -> Result<Option<u64>, LlmError> {
        let delay_ms = match self.rule(&error, repeated, budget) {
            Verdict::Again { delay_ms } => Some(delay_ms),
            Verdict::Fallback if self.take_fallback() => None,
            Verdict::Fallback | Verdict::GiveUp => return Err(error),
        };
        self.tried_again += 1;
        self.deltas.reset();
        self.tell(delay_ms.unwrap_or(0), error);
        Ok(delay_ms)
    }

    fn rule(&mut self, error: &LlmError, repeated: u32, budget: impl FnOnce() -> bool) -> Verdict {
        while let Some(next) = self.fallbacks.first()
            && let Some(why) = misfit(self.shared, self.request, next)
        {
            tracing::warn!(session = %self.request.session, fallback = %next, "the fallback is passed over: {why}");
            self.take_next();
        }
        let remaining_ms = self.remaining_ms.saturating_sub(self.took_ms());
        let has_fallback = !self.fallbacks.is_empty();
        let is_down = self.shared.breakers.look(self.model.provider()).is_err();
        let failure = Failure { error, repeated, remaining_ms, chance: fastrand::f64(), has_fallback, is_down };
        self.shared.retry.rule(failure, budget)
    }

    fn take_fallback(&mut self) -> bool {
        self.take_next().map(|next| self.model = next).is_some()
    }

    fn take_next(&mut self) -> Option<&'a ModelName> {
        let (next, rest) = self.fallbacks.split_first()?;
        self.fallbacks = rest;
        Some(next)
    }

    fn tell(&self, delay_ms: u64, error: LlmError) {
        let Self { shared, request, .. } = *self;
        if !shared.feed.is_watched() {
            return;
        }
        let models = u32::try_from(request.fallback.len()).unwrap_or(u32::MAX).saturating_add(1);
        let of = shared.retry.max.saturating_add(1).saturating_mul(models).saturating_sub(1);
        let (attempt, model) = (self.tried_again, self.model.clone());
        let event = AgentEvent::LlmRetried { attempt, of, delay_ms, model, reason: error.message };
        shared.feed.emit(&request.session, &request.turn, clock::now(), event.in_step(request.step));
    }
}

/// A wait that counts for no limit of the turn; it ends when this is dropped.
struct Waiting {
    pulse: Pulse,
    began: Instant,
}

impl Waiting {
    fn begin(pulse: Pulse) -> Self {
        pulse.wait_begins();
        Self { pulse, began: Instant::now() }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pulse.wait_ends(millis(self.began.elapsed()));
    }
}

/// Why a fallback cannot be asked what was prepared for the first choice; `None` if it can.
fn misfit(shared: &LlmArguments, request: &LlmRequest, model: &ModelName) -> Option<&'static str> {
    if request.priced && shared.port.price(model).is_none() {
        return Some("its price is not known, and the turn has a bound of cost");
    }
    let Ok(can) = shared.port.capabilities(model) else { return Some("nothing is known of this model") };
    let Capabilities { native_tools, system_role, context_tokens, .. } = can;
    let has_calls = native_tools || request.tools.is_empty() || request.mode == ToolMode::Json;
    match () {
        () if !has_calls => Some("it has no native tools, as far as is known (`capabilities` of its provider)"),
        () if !system_role && !request.system.is_empty() => Some("it takes no instructions apart from messages"),
        () if shared.port.estimate_tokens(request) > u64::from(context_tokens) => Some("the prompt is too long for it"),
        () if !request.messages.iter().all(|message| takes(&can, message)) => {
            Some("it does not take a part of a message")
        }
        () => None,
    }
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
