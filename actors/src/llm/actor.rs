//! The LlmActor: the mailbox of the model side.

use super::arguments::LlmArguments;
use super::{attempts, estimate};
use bob_messages::llm::{LlmAnswer, LlmError, LlmMessage, LlmRequest, ModelProfile};
use bob_messages::reply::Reply;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

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
                let profile = shared.port.capabilities(&model).map(|capabilities| {
                    let tokens_per_kb = estimate::tokens_per_kb(&*shared.port, &model);
                    Arc::new(ModelProfile { model, capabilities, price, tokens_per_kb })
                });
                reply.send(profile);
            }
            LlmMessage::Infer { request, remaining_ms, reply } => {
                // What readers see is told word by word, which takes its time.
                let is_at_hand = shared.port.is_at_hand(&request) && !shared.feed.is_watched();
                // In a box, since a task moves what it is given several times.
                let call = Box::pin(call(Arc::clone(shared), request, remaining_ms, reply));
                if is_at_hand { begin(call) } else { drop(tokio::spawn(call)) }
            }
            LlmMessage::Providers { reply } => reply.send(shared.breakers.states()),
        }
        ready(Ok(()))
    }
}

/// Makes a call whose answer is at hand. One that has to wait all the same, for its place or after a failure, goes on in a
/// task; one that panics has dropped its reply, as in a task.
fn begin(mut call: Pin<Box<impl Future<Output = ()> + Send + 'static>>) {
    let mut context = Context::from_waker(Waker::noop());
    let begun = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context)));
    if matches!(begun, Ok(Poll::Pending)) {
        tokio::spawn(call);
    }
}

#[expect(clippy::manual_async_fn, reason = "the future of an async fn has room for its arguments twice")]
fn call(
    shared: Arc<LlmArguments>,
    request: Arc<LlmRequest>,
    remaining_ms: u64,
    mut reply: Reply<Result<Arc<LlmAnswer>, LlmError>>,
) -> impl Future<Output = ()> + Send {
    async move {
        if reply.is_abandoned() {
            return;
        }
        if let Err(refused) = shared.tenants.allow(&request) {
            return reply.send(Err(refused));
        }
        let seen = reply.so_far().clone();
        tokio::select! {
            biased;
            // First, since an answer that is at hand needs no watch over its asker.
            result = attempts::answer(&shared, &request, remaining_ms, seen) => reply.send(result),
            () = reply.abandoned() => {}
        }
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "storm_tests.rs"]
mod storms;
