//! Addresses of actors that survive restarts, and repetition of questions that an actor dropped when it ended.
//!
//! An actor that can be restarted is looked up at every send and never held: an [`Address`] is set by the supervisor
//! that starts the actor and read by its senders.
//!
//! A message that is sent at the moment at which the actor ends may stay in its mailbox, neither read nor dropped, until
//! nothing holds the actor any more: the queue is emptied before the last send is in it (once in some thousand ends under a
//! storm of messages, tokio 1.54). So a supervisor clears the address at once, and no message holds the actor that it is
//! sent to.

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;

use bob_messages::reply::Reply;
use ractor::{ActorId, ActorRef, ActorStatus};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long an actor that has dropped a message may take to end.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// How long a question waits for its actor to be started again.
pub const RETURNS_WITHIN: Duration = Duration::from_secs(2);

/// How often a question is repeated, and how long each repetition waits for an actor.
#[derive(Debug, Clone, Copy)]
pub struct Again {
    /// How often, at most.
    pub times: u32,
    /// For how long, each time.
    pub within: Duration,
}

impl Again {
    /// Once more, of an actor that is there within [`RETURNS_WITHIN`].
    pub const ONCE: Self = Self { times: 1, within: RETURNS_WITHIN };
}

/// The actor that can be reached here now, if there is one.
#[derive(Debug)]
pub struct Address<M>(watch::Sender<Slot<M>>);

#[derive(Debug)]
enum Slot<M> {
    Empty,
    Filled(ActorRef<M>),
    /// It stays empty.
    Closed,
}

impl<M> Slot<M> {
    /// Returns the actor unless it is ending, even if its supervisor does not know yet.
    fn actor(&self) -> Option<&ActorRef<M>> {
        match self {
            Self::Filled(actor) => Some(actor).filter(|actor| actor.get_status() < ActorStatus::Draining),
            Self::Empty | Self::Closed => None,
        }
    }
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M> Default for Address<M> {
    fn default() -> Self {
        Self(watch::Sender::new(Slot::Empty))
    }
}

impl<M: ractor::Message> Address<M> {
    /// Sets the actor and wakes the tasks that wait for it.
    pub fn fill(&self, actor: ActorRef<M>) {
        self.0.send_replace(Slot::Filled(actor));
    }

    /// Removes the actor, which has ended.
    pub fn clear(&self) {
        self.0.send_replace(Slot::Empty);
    }

    /// Removes this actor, which has ended, unless another one is there by now. For a supervisor that starts actors elsewhere than
    /// in the handler that hears of their ends.
    pub fn clear_of(&self, ended: ActorId) {
        self.0.send_if_modified(|slot| {
            let is_there = matches!(slot, Slot::Filled(actor) if actor.get_id() == ended);
            if is_there {
                *slot = Slot::Empty;
            }
            is_there
        });
    }

    /// Removes the actor permanently: questions waiting for a successor are dropped.
    pub fn close(&self) {
        self.0.send_replace(Slot::Closed);
    }

    /// The actor, if there is one now.
    pub fn actor(&self) -> Option<ActorRef<M>> {
        self.0.borrow().actor().cloned()
    }

    /// Sends to the current actor.
    ///
    /// # Errors
    /// [`Gone`] when there is none; the message is dropped, and a [`Reply`] in it thereby answers `None`.
    pub fn send(&self, message: M) -> Result<(), Gone> {
        let actor = self.actor().ok_or(Gone)?;
        actor.send_message(message).map_err(|_the_actor_has_ended| Gone)
    }

    /// Sends a question. Without an actor it is dropped, and its dropped reply answers the caller.
    pub fn tell(&self, message: M) {
        let _a_dropped_reply_answers = self.send(message);
    }

    /// Sends a question, and repeats it to the next actor if the reply is dropped unanswered. Only for idempotent
    /// questions: the actor that ended may have performed it.
    ///
    /// `question` creates the message from the number of earlier attempts. The reply is dropped when no actor comes;
    /// an abandoned one, as by the drop of an [`Answer`](bob_messages::reply::Answer), is not repeated. Waiting is
    /// done in a task, never in a handler.
    pub fn ask<T: Send + 'static>(
        &self,
        again: Again,
        reply: Reply<T>,
        question: impl FnOnce(Reply<T>, u32) -> M + Clone + Send + 'static,
    ) {
        self.ask_after(0, again, reply, question);
    }

    fn ask_after<T: Send + 'static>(
        &self,
        asked: u32,
        again: Again,
        reply: Reply<T>,
        question: impl FnOnce(Reply<T>, u32) -> M + Clone + Send + 'static,
    ) {
        let told = self.actor();
        let reply = match asked < again.times {
            false => reply,
            true => {
                let (address, told, question) =
                    (self.clone(), told.as_ref().map(|told| told.get_id()), question.clone());
                reply.if_unheard(move |mut reply| {
                    // A reply may be dropped while the program ends, outside any runtime.
                    let Ok(runtime) = Handle::try_current() else { return };
                    runtime.spawn(async move {
                        let successor = timeout(again.within, address.successor(told)).await;
                        if let Ok(Some(_actor)) = successor
                            && !reply.is_abandoned()
                        {
                            address.ask_after(asked + 1, again, reply, question);
                        }
                    });
                })
            }
        };
        let message = question(reply, asked);
        if let Some(actor) = told {
            let _a_dropped_reply_answers = actor.send_message(message);
        }
    }

    /// Waits for an actor other than `told`, which dropped a message. An actor that is ending drops its messages
    /// before it counts as ended, and is not asked again meanwhile. One that stays alive dropped a single message,
    /// and is returned after half a second.
    async fn successor(&self, told: Option<ActorId>) -> Option<ActorRef<M>> {
        let another = self.wait_for(|actor| Some(actor.get_id()) != told);
        match timeout(ENDS_WITHIN, another).await {
            Ok(found) => found,
            Err(_it_lives_on) => self.wait_for_actor().await,
        }
    }

    /// Waits for an actor, at most for `limit`. Cancel-safe.
    pub async fn wait_for_actor_within(&self, limit: Duration) -> Option<ActorRef<M>> {
        timeout(limit, self.wait_for_actor()).await.ok().flatten()
    }

    /// Waits for an actor without a limit; `None` when the address is closed. Cancel-safe.
    pub async fn wait_for_actor(&self) -> Option<ActorRef<M>> {
        self.wait_for(|_any| true).await
    }

    async fn wait_for(&self, is_it: impl Fn(&ActorRef<M>) -> bool) -> Option<ActorRef<M>> {
        let (mut slot, mut found) = (self.0.subscribe(), None);
        let settled = slot.wait_for(|slot| {
            found = slot.actor().filter(|actor| is_it(actor)).cloned();
            found.is_some() || matches!(slot, Slot::Closed)
        });
        drop(settled.await);
        found
    }
}

/// No actor is registered; its supervisor may be starting one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no actor is registered at this address")]
pub struct Gone;
