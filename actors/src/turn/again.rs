//! A turn's way to a room over the room's restarts.
//!
//! An actor may be started again between a question and its answer. Records have
//! ids and a claim has no effect but a higher epoch, so these may be asked a second
//! time; that waits for the actor to be back, in a task, never in a handler.

use super::llm_gone;
use crate::rooms::{Address, Rooms};
use bob_messages::ids::{ModelName, SessionId, Ticket};
use bob_messages::llm::{LlmError, LlmMessage, ModelProfile};
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
    let reply = Reply::to(move |answer: Option<Result<Arc<ModelProfile>, LlmError>>| {
        let result = answer.unwrap_or_else(|| Err(llm_gone()));
        result.iter().for_each(|profile| profiles.keep(profile));
        tell(result);
    });
    rooms.llm.tell(LlmMessage::Profile { model, reply });
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
        None => ask_again(address, move |reply| question(again, reply), tell),
    });
    room.tell(question(what, reply));
}

fn ask_again<M: ractor::Message, T: Send + 'static>(
    room: Address<M>,
    question: impl FnOnce(Reply<T>) -> M + Send + 'static,
    tell: impl FnOnce(Option<T>) + Send + 'static,
) {
    // A reply may be dropped while the program ends, outside any runtime.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return tell(None) };
    runtime.spawn(async move {
        if room.inhabited(RETURNS_WITHIN).await.is_none() {
            return tell(None);
        }
        room.tell(question(Reply::to(tell)));
    });
}

fn gone() -> StoreError {
    StoreError::InDoubt("the store was restarted during the call".into())
}
