//! Where the actors of one runtime are found.
//!
//! Whatever can be restarted is looked up when something is sent, never held: an
//! [`Address`] is filled by the supervisor that starts the actor and read by
//! whoever sends to it. Rooms belong to one runtime, so several runtimes live in
//! one process without sharing names.

use crate::metrics::Metrics;
use crate::people::{Memory, People};
use crate::prompt_files::PromptReader;
use crate::pulse::Pulses;
use crate::skills::Skills;
use crate::tools::ToolPlane;
use crate::turn::compactor::Compactor;
use bob_messages::ids::ModelName;
use bob_messages::llm::{LlmMessage, ModelProfile};
use bob_messages::sessions::SessionsMessage;
use bob_messages::store::StoreMessage;
use ractor::{ActorRef, ActorStatus};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

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
    /// The actor starts here; whoever waits for it goes on.
    pub fn fill(&self, actor: ActorRef<M>) {
        *self.0.actor.write().unwrap_or_else(PoisonError::into_inner) = Some(actor);
        self.0.moved_in.notify_waiters();
    }

    /// The actor ended.
    pub fn clear(&self) {
        *self.0.actor.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The actor, if there is one now. One that ends takes no more messages and is gone,
    /// also when its supervisor has not heard of it yet.
    pub fn actor(&self) -> Option<ActorRef<M>> {
        let actor = self.0.actor.read().unwrap_or_else(PoisonError::into_inner).clone();
        actor.filter(|actor| actor.get_status() < ActorStatus::Draining)
    }

    /// Sends to whoever is there now.
    ///
    /// # Errors
    /// [`Gone`] when nobody is; the message is dropped, and a
    /// [`Reply`](bob_messages::reply::Reply) in it thereby answers `None`.
    pub fn send(&self, message: M) -> Result<(), Gone> {
        let actor = self.actor().ok_or(Gone)?;
        actor.send_message(message).map_err(|_the_actor_has_ended| Gone)
    }

    /// The same for a question whose asker is answered even when nobody takes it.
    pub fn tell(&self, message: M) {
        let _a_dropped_reply_answers = self.send(message);
    }

    /// Waits until somebody is there, at most for `limit`. Cancel-safe.
    pub async fn inhabited(&self, limit: Duration) -> Option<ActorRef<M>> {
        tokio::time::timeout(limit, self.moved_in()).await.ok()
    }

    /// Waits until somebody is there; as long as it takes. Cancel-safe.
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

/// Nobody is in the room; its supervisor may be starting somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody is there to take the message")]
pub struct Gone;

/// How many models are remembered; callers may name any.
const REMEMBERED_MODELS: usize = 256;

/// What models can do, as the LlmActor has said: that follows from the configuration,
/// so it is asked once for each model. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Profiles(Arc<RwLock<HashMap<ModelName, Arc<ModelProfile>>>>);

impl Profiles {
    /// What is known of a model.
    pub fn get(&self, model: &ModelName) -> Option<Arc<ModelProfile>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(model).cloned()
    }

    /// Remembers what was said of a model.
    pub fn keep(&self, profile: &Arc<ModelProfile>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MODELS {
            known.clear();
        }
        known.insert(profile.model.clone(), Arc::clone(profile));
    }
}

/// The rooms of one runtime.
#[derive(Debug, Clone, Default)]
pub struct Rooms {
    /// The StoreActor.
    pub store: Address<StoreMessage>,
    /// The LlmActor.
    pub llm: Address<LlmMessage>,
    /// What it has said of models.
    pub profiles: Profiles,
    /// The hosts of tools: the actor of those in this process, and the tool servers.
    pub tools: ToolPlane,
    /// What stands before a conversation, where files say it.
    pub prompt_files: PromptReader,
    /// Who writes summaries of histories that became too long.
    pub compactor: Compactor,
    /// Whether they get on with their messages.
    pub pulses: Pulses,
    /// The sessions supervisor.
    pub sessions: Address<SessionsMessage>,
    /// Where skills come from, if they come from anywhere.
    pub skills: Skills,
    /// What is counted there.
    pub metrics: Arc<Metrics>,
    /// Who is asked about calls.
    pub people: People,
    /// What was decided about tools for good.
    pub memory: Memory,
}
