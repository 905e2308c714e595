//! Order, batches and lost answers of the StoreActor, over stores that wait.

use super::*;
use crate::store::MemoryStore;
use crate::store::contract::{append, session};
use bob_messages::reply::Answer;
use bob_messages::store::Claim;

async fn start(store: Arc<dyn SessionStore>) -> ActorRef<StoreMessage> {
    Actor::spawn(None, StoreActor::default(), store).await.unwrap().0
}

fn ask<T: Send + 'static>(actor: &ActorRef<StoreMessage>, message: impl FnOnce(Reply<T>) -> StoreMessage) -> Answer<T> {
    let (reply, answer) = Reply::channel();
    actor.send_message(message(reply)).unwrap();
    answer
}

fn claim(actor: &ActorRef<StoreMessage>, session: &SessionId) -> Answer<Result<Claim, StoreError>> {
    ask(actor, |reply| StoreMessage::Claim { session: session.clone(), reply })
}

fn store(actor: &ActorRef<StoreMessage>, append: Append) -> Answer<Result<u64, StoreError>> {
    ask(actor, |reply| StoreMessage::Append { append, reply })
}

#[tokio::test]
async fn a_session_is_claimed_written_and_read() {
    let actor = start(MemoryStore::new()).await;
    let one = session("one");
    assert_eq!(claim(&actor, &one).await.unwrap().unwrap().epoch, 1);
    assert_eq!(store(&actor, append(&one, 1, 0, 2)).await, Some(Ok(2)));
    assert_eq!(store(&actor, append(&one, 1, 0, 2)).await, Some(Ok(2)));
    let loaded = ask(&actor, |reply| StoreMessage::Load { session: one.clone(), reply }).await;
    assert_eq!(loaded.unwrap().unwrap().len(), 2);
    ask(&actor, |reply| StoreMessage::Flush { reply }).await.unwrap();
    let deleted = ask(&actor, |reply| StoreMessage::Delete { session: one.clone(), reply }).await;
    assert_eq!(deleted, Some(Ok(true)));
}
