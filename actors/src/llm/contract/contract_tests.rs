//! The scripted model keeps the rules; each rule is broken by a port that is made for it.

use super::*;
use crate::contract::testing::each_rule_is_broken;
use crate::llm::{ProviderLimits, Router, ScriptedLlm, ScriptedReply};
use bob_messages::llm::{Capabilities, LlmErrorKind};
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A scripted model with one fault.
struct Faulty {
    model: ScriptedLlm,
    fault: Fault,
    count: AtomicU32,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    OtherCapabilities,
    NoPlace,
    OneEstimate,
    OtherModel,
    LostPiece,
    OneAtATime,
    NotFreed,
    FirstMessage,
}

impl LlmPort for Faulty {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        let known = self.model.capabilities(model)?;
        let more = if self.fault == Fault::OtherCapabilities { self.count.fetch_add(1, Ordering::SeqCst) } else { 0 };
        Ok(Capabilities { context_tokens: known.context_tokens + more, ..known })
    }

    fn limits(&self, provider: &str) -> ProviderLimits {
        let max_concurrent = if self.fault == Fault::NoPlace { 0 } else { 1 };
        ProviderLimits { max_concurrent, ..self.model.limits(provider) }
    }

    fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
        if self.fault == Fault::OneEstimate { 1 } else { self.model.estimate_tokens(request) }
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let model = model.clone();
        Box::pin(async move {
            if self.fault == Fault::FirstMessage {
                let _first = &request.messages[0];
            }
            if self.fault == Fault::LostPiece {
                deltas.text("Hel");
                return self.model.complete_stream(request, &model, DeltaSink::unread()).await;
            }
            let is_in_use = matches!(self.fault, Fault::OneAtATime | Fault::NotFreed)
                && self.count.fetch_add(1, Ordering::SeqCst) > 0;
            if is_in_use {
                return Err(LlmError::new(LlmErrorKind::Unavailable, "in use"));
            }
            if self.fault == Fault::OneAtATime {
                let _freed = scopeguard(&self.count);
                tokio::time::sleep(Duration::from_millis(1)).await;
                return self.model.complete_stream(request, &model, deltas).await;
            }
            if self.fault == Fault::NotFreed {
                tokio::time::sleep(Duration::from_millis(1)).await;
                self.count.store(0, Ordering::SeqCst);
            }
            let mut answer = self.model.complete_stream(request, &model, deltas).await?;
            if self.fault == Fault::OtherModel {
                answer.model = ModelName::parse("another:model").unwrap();
            }
            Ok(answer)
        })
    }
}

/// Sets a count to 0 when it is dropped.
fn scopeguard(count: &AtomicU32) -> impl Drop + '_ {
    struct Freed<'a>(&'a AtomicU32);
    impl Drop for Freed<'_> {
        fn drop(&mut self) {
            self.0.store(0, Ordering::SeqCst);
        }
    }
    Freed(count)
}

fn scripted() -> ScriptedLlm {
    ScriptedLlm::replies(vec![ScriptedReply::text("Hello from a script")])
}

fn name() -> ModelName {
    ModelName::parse("scripted:m").unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_scripted_model_keeps_the_rules_also_behind_a_router() {
    model(|| Arc::new(scripted()), &name()).await.assert();
    let routed = || -> Arc<dyn LlmPort> { Arc::new(Router::new().with("scripted", Arc::new(scripted()))) };
    model(routed, &name()).await.assert();
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_a_model_is_broken_by_a_port_with_its_fault() {
    let mut suites = Vec::new();
    for (rule, fault) in [
        ("the capabilities of a model are the same each time", Fault::OtherCapabilities),
        ("the limits of a provider let a call through", Fault::NoPlace),
        ("a longer prompt is estimated at more tokens", Fault::OneEstimate),
        ("an answer says something and names a model of the provider that was asked", Fault::OtherModel),
        ("the pieces of an answer are its text, or there are none", Fault::LostPiece),
        ("calls beside each other are all answered", Fault::OneAtATime),
        ("a call that is dropped leaves the model usable", Fault::NotFreed),
        ("an unusual request is answered or refused, without a panic", Fault::FirstMessage),
    ] {
        let make = || -> Arc<dyn LlmPort> { Arc::new(Faulty { model: scripted(), fault, count: AtomicU32::new(0) }) };
        suites.push((rule, model(make, &name()).await));
    }
    each_rule_is_broken(suites);
}
