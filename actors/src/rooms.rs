//! Where the actors of one runtime are found, with what its turns share.
//!
//! Rooms belong to one runtime, so several runtimes live in one process without
//! sharing names.

use crate::address::Address;
use crate::at_work::AtWork;
use crate::clock::WallClock;
use crate::compactor::Compactor;
use crate::metrics::Metrics;
use crate::people::{Memory, People};
use crate::prompt_files::PromptReader;
use crate::skills::Skills;
use crate::tools::ToolPlane;
use crate::watchdog::Watchdog;
use bob_messages::ids::ModelName;
use bob_messages::llm::{LlmMessage, ModelProfile};
use bob_messages::store::StoreMessage;
use bob_messages::submission::SessionsMessage;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

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
    /// Profiles of models that the LlmActor has looked up.
    pub profiles: Profiles,
    /// The hosts of tools: the actor of those in this process, and the tool servers.
    pub tools: ToolPlane,
    /// Reads the prompt files.
    pub prompt_files: PromptReader,
    /// Summarises histories that became too long.
    pub compactor: Compactor,
    /// Warns of actors whose handlers block.
    pub watchdog: Watchdog,
    /// The sessions supervisor.
    pub sessions: Address<SessionsMessage>,
    /// The TurnActors that still run.
    pub at_work: AtWork,
    /// The source of skills, if there is one.
    pub skills: Skills,
    /// Counts and latencies of the runtime.
    pub metrics: Arc<Metrics>,
    /// Asks a person whether a call may run.
    pub people: People,
    /// Lasting decisions about tools.
    pub memory: Memory,
    /// The wall clock of turns.
    pub clock: WallClock,
}
