//! A turn's way to a room over the room's restarts.
//!
//! An actor may be started again between a question and its answer. Records have
//! ids, a claim has no effect but a higher epoch, and a model that was not asked yet
//! may be asked, so these may be asked a second time; that waits for the actor to be
//! back, in a task, never in a handler.

use super::llm_gone;
use crate::rooms::{Address, Rooms};
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

/// Claims the session for a turn. When its actor has ended meanwhile, nobody else would
/// give the session back.
pub(super) fn claim(store: &Address<StoreMessage>, session: SessionId, ticket: Ticket, turn: ActorRef<TurnMessage>) {
    let question = |session, reply| StoreMessage::Claim { session, reply };
    let (room, claimed) = (store.clone(), session.clone());
    ask_twice(store, session, question, move |answer: Option<Result<Claim, StoreError>>| {
        let result = answer.unwrap_or_else(|| Err(gone()));
        let epoch = result.as_ref().ok().map(|claim| claim.epoch);
        let told = turn.cast(TurnMessage::Loaded { ticket, result });
        if let (Err(_nobody_there), Some(epoch)) = (told, epoch) {
            room.tell(StoreMessage::Release { session: claimed, epoch });
        }
    });
}

/// Success is told only where it is to be confirmed; a failure always is.
pub(super) fn append(
    store: &Address<StoreMessage>,
    append: Append,
    confirm: bool,
    tell: impl FnOnce(Result<u64, StoreError>) + Send + 'static,
) {
    let question = |append, reply| StoreMessage::Append { append, reply };
    ask_twice(store, append, question, move |answer| {
        let result = answer.unwrap_or_else(|| Err(gone()));
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
    ask_twice(&rooms.llm, model, question, move |answer: Option<Result<Arc<ModelProfile>, LlmError>>| {
        let result = answer.unwrap_or_else(|| Err(llm_gone()));
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
    let reply = reply.if_unheard(move |reply| {
        when_back(room, LlmMessage::Infer { request: again, remaining_ms, reply });
    });
    llm.tell(LlmMessage::Infer { request, remaining_ms, reply });
}

/// Asks about `what`, and a second time when the room was left meanwhile.
fn ask_twice<M: ractor::Message, W: Clone + Send + 'static, T: Send + 'static>(
    room: &Address<M>,
    what: W,
    question: fn(W, Reply<T>) -> M,
    tell: impl FnOnce(Option<T>) + Send + 'static,
) {
    let (address, again) = (room.clone(), what.clone());
    let reply = Reply::to(move |answer: Option<T>| match answer {
        Some(answer) => tell(Some(answer)),
        None => when_back(address, question(again, Reply::to(tell))),
    });
    room.tell(question(what, reply));
}

/// Says it to whoever is in the room next; to nobody, when nobody comes, and then the
/// reply in it answers.
fn when_back<M: ractor::Message>(room: Address<M>, message: M) {
    // A reply may be dropped while the program ends, outside any runtime.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        if room.inhabited(RETURNS_WITHIN).await.is_some() {
            room.tell(message);
        }
    });
}

fn gone() -> StoreError {
    StoreError::InDoubt("the store was restarted during the call".into())
}
