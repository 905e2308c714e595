//! A turn's way to a room over the room's restarts.
//!
//! An actor may be started again between a question and its answer. Records have
//! ids, a claim has no effect but a higher epoch, and a model that was not asked yet
//! may be asked, so these may be asked a second time; that waits for the actor to be
//! back, in a task, never in a handler.

use super::lease::Lease;
use crate::address::Address;
use crate::rooms::Rooms;
use bob_messages::ids::{ModelName, SessionId, Ticket};
use bob_messages::llm::{LlmAnswer, LlmError, LlmMessage, LlmRequest, ModelProfile};
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, StoreError, StoreMessage};
use bob_messages::turn::TurnMessage;
use ractor::ActorRef;
use std::sync::Arc;
use std::time::Duration;

/// How long a question waits for its actor to be started again.
const RETURNS_WITHIN: Duration = Duration::from_secs(2);

/// Claims the session for a turn, on its lease.
pub(super) fn claim(
    store: &Address<StoreMessage>,
    session: SessionId,
    whole: bool,
    ticket: Ticket,
    turn: ActorRef<TurnMessage>,
    lease: Lease,
) {
    let question = |(session, whole), reply| StoreMessage::Claim { session, whole, reply };
    ask_twice(store, (session, whole), question, move |answer: Option<Result<Claim, StoreError>>, _again| {
        let result = answer.unwrap_or_else(|| Err(gone()));
        if let Ok(claim) = &result {
            lease.claimed(claim.epoch);
        }
        // An actor that has ended meanwhile gives back what is on its lease.
        drop(turn.cast(TurnMessage::Loaded { ticket, result }));
    });
}

/// The same after a pause, which a store that failed is given. An append that comes when its turn
/// was closed meanwhile stores nothing that was not sent with that.
pub(super) fn append_after(
    pause: Duration,
    store: &Address<StoreMessage>,
    what: Append,
    confirm: bool,
    tell: impl FnOnce(Result<u64, StoreError>) + Send + 'static,
) {
    if pause.is_zero() {
        return append(store, what, confirm, tell);
    }
    let store = store.clone();
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        append(&store, what, confirm, tell);
    });
}

/// Success is reported only if it is to be confirmed; a failure always is.
pub(super) fn append(
    store: &Address<StoreMessage>,
    append: Append,
    confirm: bool,
    tell: impl FnOnce(Result<u64, StoreError>) + Send + 'static,
) {
    let question = |append, reply| StoreMessage::Append { append, reply };
    ask_twice(store, append, question, move |answer, again| {
        let result = match answer {
            // Refused the second time: the first one may have been stored all the same.
            Some(Err(StoreError::Unavailable(why))) if again => Err(StoreError::InDoubt(why)),
            answer => answer.unwrap_or_else(|| Err(gone())),
        };
        if confirm || result.is_err() {
            tell(result);
        }
    });
}

/// What a model can do: asked once for each model, since it follows from the
/// configuration.
pub(super) fn profile(
    rooms: &Rooms,
    model: ModelName,
    tell: impl FnOnce(Result<Arc<ModelProfile>, LlmError>) + Send + 'static,
) {
    if let Some(profile) = rooms.profiles.get(&model) {
        return tell(Ok(profile));
    }
    let profiles = rooms.profiles.clone();
    let question = |model, reply| LlmMessage::Profile { model, reply };
    ask_twice(&rooms.llm, model, question, move |answer: Option<Result<Arc<ModelProfile>, LlmError>>, _again| {
        let result = answer.unwrap_or_else(|| Err(crate::llm::gone()));
        result.iter().for_each(|profile| profiles.keep(profile));
        tell(result);
    });
}

/// Asks the model. A call survives its actor, so a question that comes back unanswered was
/// not taken up, and is asked once more.
pub(super) fn infer(
    llm: &Address<LlmMessage>,
    request: Arc<LlmRequest>,
    remaining_ms: u64,
    reply: Reply<Result<Arc<LlmAnswer>, LlmError>>,
) {
    let (room, again) = (llm.clone(), Arc::clone(&request));
    llm.tell_knowing(|told| {
        let reply = reply.if_unheard(move |reply| {
            when_back(room, told, LlmMessage::Infer { request: again, remaining_ms, reply });
        });
        LlmMessage::Infer { request, remaining_ms, reply }
    });
}

/// Asks about `what`, and a second time when the room was left meanwhile; whether it was is told, too.
fn ask_twice<M: ractor::Message, W: Clone + Send + 'static, T: Send + 'static>(
    room: &Address<M>,
    what: W,
    question: fn(W, Reply<T>) -> M,
    tell: impl FnOnce(Option<T>, bool) + Send + 'static,
) {
    let (address, again) = (room.clone(), what.clone());
    room.tell_knowing(|told| {
        let reply = Reply::to(move |answer: Option<T>| match answer {
            Some(answer) => tell(Some(answer), false),
            None => when_back(address, told, question(again, Reply::to(|answer| tell(answer, true)))),
        });
        question(what, reply)
    });
}

/// Says it to the actor that comes behind the one that was told; to nobody, when nobody comes, and then the reply in it
/// answers.
fn when_back<M: ractor::Message>(room: Address<M>, told: Option<ActorRef<M>>, message: M) {
    // A reply may be dropped while the program ends, outside any runtime.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        if let Some(actor) = room.successor(told, RETURNS_WITHIN).await {
            drop(actor.send_message(message));
        }
    });
}

fn gone() -> StoreError {
    StoreError::InDoubt("the store was restarted during the call".into())
}
