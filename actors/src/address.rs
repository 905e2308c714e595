//! How an actor is reached over its restarts.
//!
//! An actor that can be restarted is looked up at every send and never held: an
//! [`Address`] is set by the supervisor that starts the actor and read by its senders.

use ractor::{ActorRef, ActorStatus};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

/// How long an actor that has dropped a message may take to end.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// The actor that has a room's mailbox now, if one has.
#[derive(Debug)]
pub struct Address<M>(Arc<Slot<M>>);

#[derive(Debug)]
struct Slot<M> {
    actor: RwLock<Option<ActorRef<M>>>,
    moved_in: Notify,
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Default for Address<M> {
    fn default() -> Self {
        Self(Arc::new(Slot { actor: RwLock::new(None), moved_in: Notify::new() }))
    }
}

impl<M: ractor::Message> Address<M> {
    /// Sets the actor and wakes the tasks that wait for it.
    pub fn fill(&self, actor: ActorRef<M>) {
        *self.0.actor.write().unwrap_or_else(PoisonError::into_inner) = Some(actor);
        self.0.moved_in.notify_waiters();
    }

    /// Removes the actor, which has ended.
    pub fn clear(&self) {
        *self.0.actor.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The actor, if there is one now. One that ends takes no more messages and is gone,
    /// also when its supervisor has not heard of it yet.
    pub fn actor(&self) -> Option<ActorRef<M>> {
        let actor = self.0.actor.read().unwrap_or_else(PoisonError::into_inner).clone();
        actor.filter(|actor| actor.get_status() < ActorStatus::Draining)
    }

    /// Sends to the current actor.
    ///
    /// # Errors
    /// [`Gone`] when there is none; the message is dropped, and a
    /// [`Reply`](bob_messages::reply::Reply) in it thereby answers `None`.
    pub fn send(&self, message: M) -> Result<(), Gone> {
        let actor = self.actor().ok_or(Gone)?;
        actor.send_message(message).map_err(|_the_actor_has_ended| Gone)
    }

    /// Sends a question. Without an actor it is dropped, and its dropped reply answers the caller.
    pub fn tell(&self, message: M) {
        let _a_dropped_reply_answers = self.send(message);
    }

    /// Sends a message that is built with the actor it goes to, so that a caller whose message was dropped can wait
    /// for the [successor](Self::successor) of exactly that actor.
    pub fn tell_knowing(&self, message: impl FnOnce(Option<ActorRef<M>>) -> M) {
        let actor = self.actor();
        let message = message(actor.clone());
        if let Some(actor) = actor {
            let _a_dropped_reply_answers = actor.send_message(message);
        }
    }

    /// Waits until an actor is there behind `told`, which has dropped a message, at most for `limit`. An actor that ends
    /// drops what it holds before it counts as ended, and is not asked again meanwhile. One that lives on has let go of
    /// a single message, and is given after half a second. Cancel-safe.
    pub async fn successor(&self, told: Option<ActorRef<M>>, limit: Duration) -> Option<ActorRef<M>> {
        let next = async {
            if let Some(told) = told {
                let _ended_or_lives_on = told.wait(Some(ENDS_WITHIN)).await;
            }
            self.moved_in().await
        };
        tokio::time::timeout(limit, next).await.ok()
    }

    /// Waits for an actor, at most for `limit`. Cancel-safe.
    pub async fn inhabited(&self, limit: Duration) -> Option<ActorRef<M>> {
        tokio::time::timeout(limit, self.moved_in()).await.ok()
    }

    /// Waits for an actor without a limit. Cancel-safe.
    pub async fn moved_in(&self) -> ActorRef<M> {
        loop {
            let moved_in = self.0.moved_in.notified();
            if let Some(actor) = self.actor() {
                return actor;
            }
            moved_in.await;
        }
    }
}

/// No actor is registered; its supervisor may be starting one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody is there to take the message")]
pub struct Gone;
