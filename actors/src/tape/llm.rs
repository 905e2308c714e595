//! The model port of a tape: in front of a real one while it records, instead of one while it replays.

use super::Tape;
use super::entry::AskedEnd;
use super::recorder::{Recorder, Seen};
use super::side::{Noting, Side};
use crate::llm::{DeltaSink, LlmPort, ProviderLimits};
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest};
use bob_messages::models::ModelPrice;
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A model port that records another one, or replays a tape.
///
/// Each attempt is a separate entry, so retries are replayed. A replay needs no provider, no key and no network, and
/// replies immediately.
#[derive(Debug)]
pub struct TapeLlm {
    side: Side<dyn LlmPort>,
    /// The models whose profile was recorded.
    known: Mutex<BTreeSet<ModelName>>,
}

impl TapeLlm {
    /// Records this port.
    pub fn recording(recorder: Recorder, port: Arc<dyn LlmPort>) -> Self {
        Self { side: Side::Recording(recorder, port), known: Mutex::default() }
    }

    /// Replays this tape.
    pub fn replaying(tape: Tape) -> Self {
        Self { side: Side::Replaying(tape), known: Mutex::default() }
    }
}

impl Recorder {
    /// Returns this port with all its calls recorded.
    pub fn model(&self, port: Arc<dyn LlmPort>) -> Arc<dyn LlmPort> {
        Arc::new(TapeLlm::recording(self.clone(), port))
    }
}

impl Tape {
    /// The models of the tape.
    pub fn model(&self) -> Arc<dyn LlmPort> {
        Arc::new(TapeLlm::replaying(self.clone()))
    }
}

impl LlmPort for TapeLlm {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        match &self.side {
            Side::Recording(recorder, port) => {
                let capabilities = port.capabilities(model)?;
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                if !known.contains(model) {
                    known.insert(model.clone());
                    recorder.tell(Seen::Profile(model.clone(), capabilities.clone()));
                }
                Ok(capabilities)
            }
            Side::Replaying(tape) => {
                tape.profile(model).ok_or_else(|| LlmError::new(LlmErrorKind::UnknownModel, tape.no_model(model)))
            }
        }
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        match &self.side {
            Side::Recording(recorder, port) => {
                let (asked, model_asked) = (Arc::clone(&request), model.clone());
                let entry = |began, end| Seen::Asked { began, request: asked, model: model_asked, end };
                let mut noting = Noting::begin(recorder, entry, || AskedEnd::Abandoned);
                let answer = port.complete_stream(request, model, deltas);
                Box::pin(async move {
                    let result = answer.await;
                    noting.end(match &result {
                        Ok(answer) => AskedEnd::Answered(answer.clone()),
                        Err(error) => AskedEnd::Failed(error.clone()),
                    });
                    result
                })
            }
            Side::Replaying(tape) => {
                let end = tape.asked(&request, model);
                Box::pin(async move {
                    match end? {
                        AskedEnd::Answered(answer) => {
                            if let Some(thought) = &answer.reasoning {
                                deltas.reasoning(thought);
                            }
                            deltas.text(&answer.text);
                            Ok(answer)
                        }
                        AskedEnd::Failed(error) => Err(error),
                        AskedEnd::Abandoned => std::future::pending().await,
                    }
                })
            }
        }
    }

    fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
        match &self.side {
            Side::Recording(_, port) => port.estimate_tokens(request),
            Side::Replaying(_) => request.bytes().div_ceil(4) as u64,
        }
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        match &self.side {
            Side::Recording(_, port) => port.price(model),
            Side::Replaying(_) => None,
        }
    }

    fn key_variable(&self, provider: &str) -> Option<String> {
        match &self.side {
            Side::Recording(_, port) => port.key_variable(provider),
            Side::Replaying(_) => None,
        }
    }

    fn limits(&self, provider: &str) -> ProviderLimits {
        match &self.side {
            Side::Recording(_, port) => port.limits(provider),
            Side::Replaying(_) => ProviderLimits::default(),
        }
    }
}
