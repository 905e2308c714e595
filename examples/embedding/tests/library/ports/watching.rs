//! The ports that watch a runtime.

use bob::config::{ActorPath, Hook};
use bob::events::{AgentEvent, Envelope, EventSink};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts outcomes.
#[derive(Default)]
pub struct Kept(AtomicUsize);

impl Kept {
    pub fn outcomes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl EventSink for Kept {
    fn emit(&self, event: &Envelope) {
        if matches!(event.event, AgentEvent::TurnFinished { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts what actors handle.
#[derive(Debug, Default)]
pub struct Steps(AtomicUsize);

impl Steps {
    pub fn handled(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Hook for Steps {
    fn before(&self, _: &ActorPath, _: &'static str) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }

    fn after(&self, _: &ActorPath, _: &'static str) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn effect(&self, _: &ActorPath, _: &'static str, _: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}
