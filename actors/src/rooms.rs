//! The addresses of the actors of one runtime, and the state that its turns share.
//!
//! Several runtimes in one process do not share names.

use crate::address::Address;
use crate::approvals::{Approver, Memory};
use crate::at_work::AtWork;
use crate::clock::WallClock;
use crate::compactor::Compactor;
use crate::metrics::Metrics;
use crate::model_server::ModelServers;
#[cfg(any(test, feature = "local-tools"))]
use crate::prompt_files::PromptReader;
use crate::skills::Skills;
use crate::tenants::Tenants;
use crate::tools::ToolRegistry;
#[cfg(any(test, feature = "local-tools"))]
use crate::tools::local::BackgroundCommands;
use crate::watchdog::Watchdog;
use bob_messages::ids::ModelName;
use bob_messages::llm::{LlmMessage, ModelProfile};
use bob_messages::models::ModelsMessage;
use bob_messages::store::StoreMessage;
use bob_messages::submission::SessionsMessage;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// How many models are remembered; callers may name any.
const REMEMBERED_MODELS: usize = 256;

/// Cache of model profiles from the LlmActor. They follow from the configuration, so each is requested once. Clones
/// share the cache.
#[derive(Debug, Clone, Default)]
pub struct Profiles(Arc<RwLock<HashMap<ModelName, Arc<ModelProfile>, RandomState>>>);

impl Profiles {
    /// Returns the cached profile of a model.
    pub fn get(&self, model: &ModelName) -> Option<Arc<ModelProfile>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(model).cloned()
    }

    /// Forgets them: what they follow from has changed.
    pub fn forget(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Caches a profile.
    pub fn keep(&self, profile: &Arc<ModelProfile>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MODELS {
            known.clear();
        }
        known.insert(profile.model.clone(), Arc::clone(profile));
    }
}

/// The addresses and shared state of one runtime.
#[derive(Debug, Clone, Default)]
pub struct Rooms {
    /// The StoreActor.
    pub store: Address<StoreMessage>,
    /// The LlmActor.
    pub llm: Address<LlmMessage>,
    /// The ModelsActor, where there is a source to ask again.
    pub models: Address<ModelsMessage>,
    /// The model servers of this machine.
    pub model_servers: ModelServers,
    /// Profiles of models that the LlmActor has looked up.
    pub profiles: Profiles,
    /// The hosts of tools: the actor of those in this process, and the tool servers.
    pub tools: ToolRegistry,
    /// Reads the prompt files.
    #[cfg(any(test, feature = "local-tools"))]
    pub prompt_files: PromptReader,
    /// The commands in the background.
    #[cfg(any(test, feature = "local-tools"))]
    pub background: BackgroundCommands,
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
    pub approver: Approver,
    /// Lasting decisions about tools.
    pub memory: Memory,
    /// The limits of tenants, and what they spent.
    pub tenants: Tenants,
    /// The wall clock of turns.
    pub clock: WallClock,
}
