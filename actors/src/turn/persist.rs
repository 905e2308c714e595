//! A turn's way to the store over the store's restarts.
//!
//! The StoreActor may be started again between a question and its answer. Records
//! have ids and a claim has no effect but a higher epoch, so both may be asked a
//! second time; that waits for the store to be back, in a task, never in a handler.

use crate::rooms::Address;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, StoreError, StoreMessage};
use std::sync::Arc;
use std::time::Duration;

/// How long a question waits for the store to be started again.
const STORE_RETURNS_WITHIN: Duration = Duration::from_secs(2);

pub(super) fn claim(
    store: &Address<StoreMessage>,
    session: SessionId,
    tell: impl FnOnce(Result<Claim, StoreError>) + Send + 'static,
) {
    ask_twice(store, move |reply| StoreMessage::Claim { session: session.clone(), reply }, tell);
}

pub(super) fn append(
    store: &Address<StoreMessage>,
    append: Append,
    tell: impl FnOnce(Result<u64, StoreError>) + Send + 'static,
) {
    ask_twice(store, move |reply| StoreMessage::Append { append: append.clone(), reply }, tell);
}

fn ask_twice<T: Send + 'static>(
    store: &Address<StoreMessage>,
    question: impl Fn(Reply<Result<T, StoreError>>) -> StoreMessage + Send + Sync + 'static,
    tell: impl FnOnce(Result<T, StoreError>) + Send + 'static,
) {
    let question = Arc::new(question);
    let (address, same_question) = (store.clone(), Arc::clone(&question));
    let reply = Reply::to(move |answer: Option<Result<T, StoreError>>| match answer {
        Some(result) => tell(result),
        None => ask_again(address, move |reply| same_question(reply), tell),
    });
    store.tell(question(reply));
}

fn ask_again<T: Send + 'static>(
    store: Address<StoreMessage>,
    question: impl FnOnce(Reply<Result<T, StoreError>>) -> StoreMessage + Send + 'static,
    tell: impl FnOnce(Result<T, StoreError>) + Send + 'static,
) {
    // A reply may be dropped while the program ends, outside any runtime.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return tell(Err(gone())) };
    runtime.spawn(async move {
        if store.inhabited(STORE_RETURNS_WITHIN).await.is_none() {
            return tell(Err(gone()));
        }
        let reply = Reply::to(move |answer: Option<Result<T, StoreError>>| tell(answer.unwrap_or_else(|| Err(gone()))));
        store.tell(question(reply));
    });
}

fn gone() -> StoreError {
    StoreError::InDoubt("the store was restarted during the call".into())
}
