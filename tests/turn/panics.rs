//! A port that panics is called one that panicked: by the kind of the error, or by its text.

use std::sync::Arc;

use bob::model::{
    Capabilities, DeltaSink, LlmAnswer, LlmError, LlmErrorKind, LlmPort, LlmRequest, ScriptedLlm, ScriptedReply,
};
use bob::sessions::FinishReason;
use bob::{AgentError, AgentRuntime, BoxFuture, ModelName, RuntimeBuilder};
use bob_drill::store::{Fault, FaultStore, Operation};

use crate::support::runtime::{build, say, turn};

/// A model whose port panics: in its method, or in the future that it returns.
struct Panics {
    at_once: bool,
}

impl LlmPort for Panics {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities::default())
    }

    fn complete_stream(
        &self,
        _request: Arc<LlmRequest>,
        _model: &ModelName,
        _deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        assert!(!self.at_once, "a fault of the port");
        Box::pin(async { panic!("a fault of the port") })
    }
}

fn builder(model: impl LlmPort) -> RuntimeBuilder {
    RuntimeBuilder::new(ModelName::parse("scripted:m").unwrap()).model(Arc::new(model))
}

#[tokio::test]
async fn a_model_that_panics_is_an_error_of_its_own_kind() {
    for at_once in [true, false] {
        let runtime = build(builder(Panics { at_once })).await;
        for _ in 0..3 {
            let outcome = turn(&runtime, say("hi")).await;
            let Some(AgentError::Llm(error)) = &outcome.error else { panic!("{outcome:?}") };
            assert_eq!((error.kind, error.is_retryable()), (LlmErrorKind::Panicked, false), "{error}");
            assert!(error.message.contains("panicked"), "{error}");
        }
        runtime.shutdown().await;
    }
}

#[tokio::test]
async fn a_store_that_panics_again_and_again_is_named_in_the_error() {
    for fault in [Fault::Panic, Fault::PanicLater] {
        let store = FaultStore::new(bob::store::MemoryStore::new());
        for nth in 1..=20 {
            store.plan(Some(Operation::Claim), nth, fault.clone());
        }
        let model = ScriptedLlm::replies(vec![ScriptedReply::text("fine")]);
        let runtime = build(builder(model).store(store)).await;
        let refused = runtime.run(say("hi")).await;
        let error = match refused {
            Ok(result) => result.response().error.clone().unwrap(),
            Err(error) => error,
        };
        assert!(matches!(&error, AgentError::Store(why) if why.to_string().contains("panicked")), "{error:?}");
        runtime.shutdown().await;
    }
}

#[tokio::test]
async fn a_request_to_a_runtime_that_was_shut_down_says_so() {
    let runtime = build(builder(ScriptedLlm::replies(vec![ScriptedReply::text("fine")]))).await;
    assert_eq!(turn(&runtime, say("hi")).await.finish_reason, FinishReason::Final);
    runtime.shutdown().await;
    let refused = runtime.run(say("hi")).await;
    assert!(matches!(&refused, Err(AgentError::Stopped(why)) if why.contains("shut down")), "{refused:?}");
    assert!(!refused.unwrap_err().is_retryable());
}
