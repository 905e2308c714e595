//! The LlmActor: the mailbox of the model side.

use super::arguments::LlmArguments;
use super::attempts;
use bob_messages::llm::{LlmAnswer, LlmError, LlmMessage, LlmRequest, ModelProfile};
use bob_messages::reply::Reply;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::future::ready;
use std::sync::Arc;

/// Answers [`LlmMessage`]s. Each call becomes a task that ends when its reply is
/// abandoned and that goes on when this actor is started anew.
#[derive(Debug, Clone, Copy, Default)]
pub struct LlmActor;

impl Actor for LlmActor {
    type Msg = LlmMessage;
    type State = Arc<LlmArguments>;
    type Arguments = LlmArguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<LlmMessage>,
        arguments: LlmArguments,
    ) -> Result<Arc<LlmArguments>, ActorProcessingErr> {
        Ok(Arc::new(arguments))
    }

    fn handle(
        &self,
        _myself: ActorRef<LlmMessage>,
        message: LlmMessage,
        shared: &mut Arc<LlmArguments>,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        match message {
            LlmMessage::Profile { model, reply } => {
                let price = shared.port.price(&model);
                let capabilities = shared.port.capabilities(&model);
                reply.send(capabilities.map(|capabilities| Arc::new(ModelProfile { model, capabilities, price })));
            }
            LlmMessage::Infer { request, remaining_ms, reply } => {
                // In a box, since a task moves what it is given several times.
                tokio::spawn(Box::pin(call(Arc::clone(shared), request, remaining_ms, reply)));
            }
            LlmMessage::Providers { reply } => reply.send(shared.breakers.states()),
        }
        ready(Ok(()))
    }
}

async fn call(
    shared: Arc<LlmArguments>,
    request: Arc<LlmRequest>,
    remaining_ms: u64,
    mut reply: Reply<Result<Arc<LlmAnswer>, LlmError>>,
) {
    let seen = reply.so_far().clone();
    tokio::select! {
        biased;
        () = reply.abandoned() => {}
        result = attempts::answer(&shared, &request, remaining_ms, seen) => reply.send(result.map(Arc::new)),
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "storm_tests.rs"]
mod storms;
