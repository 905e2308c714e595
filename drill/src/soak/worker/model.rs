//! The model's port with faults before it: a scripted model that is slow, refuses, falls silent and breaks off.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bob::ModelName;
use bob::model::{Capabilities, DeltaSink, LlmAnswer, LlmError, LlmErrorKind, LlmPort, LlmRequest, ProviderLimits};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::telling::Telling;
use crate::soak::chaos::Kind;
use crate::soak::plan::Plan;
use crate::soak::schedule::{draw, exponential_ms, meets};
use crate::soak::turns::Place;

/// How long a silent model is waited for, as an adapter would.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a model call takes in the mean where there is chaos, in milliseconds; without chaos it takes no time.
const LATENCY_MS: u64 = 20;

/// Separates these draws from others.
const PURPOSE: u64 = 2_000;

/// Faults before a model.
pub(crate) struct FaultyLlm {
    pub(crate) inner: Arc<dyn LlmPort>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) telling: Telling,
    /// How often the newest call of each session was attempted.
    attempts: Mutex<HashMap<u32, (u32, u32, u32)>>,
}

impl FaultyLlm {
    pub(crate) fn new(inner: Arc<dyn LlmPort>, plan: Arc<Plan>, telling: Telling) -> Self {
        Self { inner, plan, telling, attempts: Mutex::default() }
    }

    /// Position of this attempt in the run, which is stable for a seed.
    fn place(&self, request: &LlmRequest) -> Option<[u64; 4]> {
        let Place { session, turn } = Place::of(request)?;
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = attempts.entry(session).or_default();
        let attempt = if (newest.0, newest.1) == (turn, request.step) { newest.2 + 1 } else { 0 };
        *newest = (turn, request.step, attempt);
        Some([session, turn, request.step, attempt].map(u64::from))
    }

    fn fault(&self, place: &[u64]) -> Option<Kind> {
        let kinds = [Kind::Llm429, Kind::Llm5xx, Kind::LlmStall, Kind::LlmCut];
        kinds.into_iter().find(|kind| meets(self.plan.seed, &self.plan.chaos, *kind, place))
    }

    async fn attempt(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> Result<LlmAnswer, LlmError> {
        let place = if self.plan.chaos.is_off() { None } else { self.place(&request) };
        let Some(place) = place else { return self.inner.complete_stream(request, model, deltas).await };
        let latency = exponential_ms(draw(self.plan.seed, PURPOSE, &place), LATENCY_MS);
        tokio::time::sleep(Duration::from_millis(latency)).await;
        let Some(kind) = self.fault(&place) else {
            return self.inner.complete_stream(request, model, deltas).await;
        };
        self.telling.fault(kind, format!("step {}", request.step), vec![request.session.to_string()]);
        if matches!(kind, Kind::LlmStall | Kind::LlmCut) {
            deltas.text("half of what was to be ");
        }
        if kind == Kind::LlmStall {
            tokio::time::sleep(SILENCE).await;
        }
        Err(match kind {
            Kind::Llm429 => {
                LlmError::new(LlmErrorKind::RateLimited, "the soak's model was asked too often, as planned")
                    .with_status(429)
                    .with_retry_after_ms(50)
            }
            Kind::LlmStall => LlmError::new(LlmErrorKind::Timeout, "the soak's model fell silent, as planned"),
            Kind::LlmCut => LlmError::new(LlmErrorKind::Unavailable, "the soak's model broke off, as planned"),
            _ => {
                LlmError::new(LlmErrorKind::Unavailable, "the soak's model is unavailable, as planned").with_status(503)
            }
        })
    }
}

impl LlmPort for FaultyLlm {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        self.inner.capabilities(model)
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let model = model.clone();
        async move { self.attempt(request, &model, deltas).await }.boxed()
    }

    fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
        self.inner.estimate_tokens(request)
    }

    fn limits(&self, provider: &str) -> ProviderLimits {
        self.inner.limits(provider)
    }
}
