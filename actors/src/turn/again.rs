//! A turn's way to a room over the room's restarts.
//!
//! An actor may be started again between a question and its answer. Records have ids, a claim has no effect but a
//! higher epoch, and a model that was not asked yet may be asked, so these may be asked a second time.

use super::lease::Lease;
use crate::address::{Address, Again};
use crate::rooms::Rooms;
use bob_messages::ids::{ModelName, SessionId, Ticket};
use bob_messages::llm::{LlmAnswer, LlmError, LlmMessage, LlmRequest, ModelProfile};
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, StoreError, StoreMessage};
use bob_messages::turn::TurnMessage;
use ractor::ActorRef;
use std::sync::Arc;
use std::time::Duration;

/// Claims the session for a turn, on its lease.
pub(super) fn claim(
    store: &Address<StoreMessage>,
    session: SessionId,
    whole: bool,
    ticket: Ticket,
    turn: ActorRef<TurnMessage>,
    lease: Lease,
) {
    let told = Reply::to(move |answer: Option<Result<Claim, StoreError>>| {
        let result = answer.unwrap_or_else(|| Err(gone()));
        if let Ok(claim) = &result {
            lease.claimed(claim.epoch);
        }
        // An actor that has ended meanwhile gives back what is on its lease.
        drop(turn.cast(TurnMessage::Loaded { ticket, result }));
    });
    store.ask(Again::ONCE, told, move |reply, _asked| StoreMessage::Claim { session, whole, reply });
}

/// Appends after a pause, which gives a store that failed time to recover. An append that comes when its turn
/// was closed meanwhile stores nothing that was not sent with the closing.
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
    let told = Reply::to(move |answer: Option<Result<u64, StoreError>>| {
        let result = answer.unwrap_or_else(|| Err(gone()));
        if confirm || result.is_err() {
            tell(result);
        }
    });
    store.ask(Again::ONCE, told, move |reply, asked| {
        let reply = if asked == 0 { reply } else { reply.map(stored_before) };
        StoreMessage::Append { append, reply }
    });
}

/// Asks what a model can do, and remembers it: it follows from the configuration.
pub(super) fn profile(
    rooms: &Rooms,
    model: ModelName,
    tell: impl FnOnce(Result<Arc<ModelProfile>, LlmError>) + Send + 'static,
) {
    let profiles = rooms.profiles.clone();
    let told = Reply::to(move |answer: Option<Result<Arc<ModelProfile>, LlmError>>| {
        let result = answer.unwrap_or_else(|| Err(crate::llm::gone()));
        result.iter().for_each(|profile| profiles.keep(profile));
        tell(result);
    });
    rooms.llm.ask(Again::ONCE, told, move |reply, _asked| LlmMessage::Profile { model, reply });
}

/// Asks the model. A call survives its actor, so a question that comes back unanswered was
/// not taken up, and is asked once more.
pub(super) fn infer(
    llm: &Address<LlmMessage>,
    request: Arc<LlmRequest>,
    remaining_ms: u64,
    reply: Reply<Result<Arc<LlmAnswer>, LlmError>>,
) {
    llm.ask(Again::ONCE, reply, move |reply, _asked| LlmMessage::Infer { request, remaining_ms, reply });
}

/// What the second attempt came to: when it is refused, the first one may have been stored all the same.
fn stored_before(answer: Result<u64, StoreError>) -> Result<u64, StoreError> {
    answer.map_err(|error| match error {
        StoreError::Unavailable(why) | StoreError::Away(why) => StoreError::InDoubt(why),
        other => other,
    })
}

/// What is said of a question to a store that went away, or of one that is dropped while the store panics.
fn gone() -> StoreError {
    if std::thread::panicking() {
        return StoreError::InDoubt("the store panicked during the call: it has a fault of its own".into());
    }
    StoreError::InDoubt("the store was restarted during the call".into())
}
