//! The ModelsActor: asks the source of the catalogue again and again.
//!
//! It never waits for an answer: a task asks, and its answer is a message. The task ends with the actor. What was known
//! before stays known, as long as it is not too old.

use super::facts::ModelFacts;
use crate::rooms::Profiles;
use bob_messages::models::ModelsMessage;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How often newly measured latencies are kept.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// How soon a source that did not answer is asked again, at most.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Refreshes the catalogue of a runtime.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelsActor;

/// What a ModelsActor is started with.
#[derive(Debug, Clone)]
pub struct ModelsArguments {
    /// The catalogue.
    pub facts: Arc<ModelFacts>,
    /// The profiles that follow from it: forgotten when it changes.
    pub profiles: Profiles,
}

/// The state of a ModelsActor.
#[derive(Debug)]
pub struct ModelsState {
    arguments: ModelsArguments,
    asking: Option<JoinHandle<()>>,
}

impl Actor for ModelsActor {
    type Msg = ModelsMessage;
    type State = ModelsState;
    type Arguments = ModelsArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<ModelsMessage>,
        arguments: ModelsArguments,
    ) -> Result<ModelsState, ActorProcessingErr> {
        let facts = &arguments.facts;
        // What was kept may still be new enough.
        let age = facts.age().filter(|_| facts.closed().is_none());
        let first = age.map_or(Duration::ZERO, |age| facts.settings.refresh_every.saturating_sub(age));
        drop(myself.send_after(first, || ModelsMessage::Due));
        drop(myself.send_after(KEEP_EVERY, || ModelsMessage::Keep));
        Ok(ModelsState { arguments, asking: None })
    }

    fn handle(
        &self,
        myself: ActorRef<ModelsMessage>,
        message: ModelsMessage,
        state: &mut ModelsState,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        match message {
            ModelsMessage::Due => state.ask(&myself),
            ModelsMessage::Fetched { result } => {
                state.asking = None;
                let every = state.arguments.facts.settings.refresh_every;
                let next = if result.is_ok() { every } else { every.min(AGAIN_AFTER) };
                match &result {
                    Ok(_models) => state.arguments.profiles.forget(),
                    Err(why) => tracing::warn!(why, "the source of the catalogue of models gave no answer"),
                }
                drop(myself.send_after(next, || ModelsMessage::Due));
            }
            ModelsMessage::Keep => {
                let facts = Arc::clone(&state.arguments.facts);
                drop(tokio::task::spawn_blocking(move || facts.keep_latencies()));
                drop(myself.send_after(KEEP_EVERY, || ModelsMessage::Keep));
            }
        }
        ready(Ok(()))
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<ModelsMessage>,
        state: &mut ModelsState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(asking) = state.asking.take() {
            asking.abort();
        }
        Ok(())
    }
}

impl ModelsState {
    /// Asks the source in a task, unless it is being asked.
    fn ask(&mut self, myself: &ActorRef<ModelsMessage>) {
        if self.asking.is_some() {
            return;
        }
        let (facts, myself) = (Arc::clone(&self.arguments.facts), myself.clone());
        self.asking = Some(tokio::spawn(async move {
            let result = facts.refresh().await.map_err(|error| error.to_string());
            drop(myself.cast(ModelsMessage::Fetched { result }));
        }));
    }
}

impl Drop for ModelsState {
    fn drop(&mut self) {
        // An actor that was killed is not told of its end.
        if let Some(asking) = self.asking.take() {
            asking.abort();
        }
    }
}
