//! The LlmActor: the mailbox of the model side.

use super::admission::Admission;
use super::attempts;
use super::breakers::{Breakers, DEFAULT_BREAKER};
use super::budget::Budgets;
use super::port::LlmPort;
use super::retry::RetryPolicy;
use crate::feed::Feed;
use bob_messages::breaker::BreakerPolicy;
use bob_messages::llm::{LlmAnswer, LlmError, LlmMessage, LlmRequest, ModelProfile};
use bob_messages::reply::Reply;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;

/// Answers [`LlmMessage`]s. Each call becomes a task that ends when its reply is
/// abandoned and that goes on when this actor is started anew.
#[derive(Debug, Clone, Copy, Default)]
pub struct LlmActor;

/// What an LlmActor starts with. Clones share the places at the providers, the retry
/// budgets and the breakers: whoever starts the actor again starts it with a clone of
/// the same, so that calls still running keep counting.
#[derive(Clone)]
pub struct LlmArguments {
    pub(super) port: Arc<dyn LlmPort>,
    pub(super) feed: Arc<Feed>,
    pub(super) retry: RetryPolicy,
    pub(super) admission: Admission,
    pub(super) budgets: Budgets,
    pub(super) breakers: Breakers,
}

impl LlmArguments {
    /// The arguments of one runtime's LlmActor.
    pub fn new(port: Arc<dyn LlmPort>, feed: Arc<Feed>, retry: RetryPolicy) -> Self {
        let breakers = Breakers::new(DEFAULT_BREAKER);
        Self { port, feed, retry, admission: Admission::default(), budgets: Budgets::default(), breakers }
    }

    /// The same with other breakers, all closed.
    #[must_use]
    pub fn with_breaker(self, policy: BreakerPolicy) -> Self {
        Self { breakers: Breakers::new(policy), ..self }
    }
}

impl std::fmt::Debug for LlmArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LlmArguments").field("retry", &self.retry).finish_non_exhaustive()
    }
}

impl Actor for LlmActor {
    type Msg = LlmMessage;
    type State = LlmArguments;
    type Arguments = LlmArguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<LlmMessage>,
        arguments: LlmArguments,
    ) -> Result<LlmArguments, ActorProcessingErr> {
        Ok(arguments)
    }

    async fn handle(
        &self,
        _myself: ActorRef<LlmMessage>,
        message: LlmMessage,
        desk: &mut LlmArguments,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LlmMessage::Profile { model, reply } => {
                let capabilities = desk.port.capabilities(&model);
                reply.send(capabilities.map(|capabilities| Arc::new(ModelProfile { model, capabilities })));
            }
            LlmMessage::Infer { request, remaining_ms, reply } => {
                // In a box, since a task moves what it is given several times.
                tokio::spawn(Box::pin(call(desk.clone(), request, remaining_ms, reply)));
            }
            LlmMessage::Providers { reply } => reply.send(desk.breakers.states()),
        }
        Ok(())
    }
}

async fn call(
    desk: LlmArguments,
    request: Arc<LlmRequest>,
    remaining_ms: u64,
    mut reply: Reply<Result<Arc<LlmAnswer>, LlmError>>,
) {
    tokio::select! {
        biased;
        () = reply.abandoned() => {}
        result = attempts::answer(&desk, &request, remaining_ms) => reply.send(result.map(Arc::new)),
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "storm_tests.rs"]
mod storms;
