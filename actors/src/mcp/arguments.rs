//! What the actor of one tool server starts with, and what its successors share.

use super::elicit::Elicit;
use crate::address::RETURNS_WITHIN;
use crate::child::{Ladder, Watcher};
use crate::secrets::Secrets;
use crate::tape::Recorder;
use crate::tools::Policy;
use crate::tools::grant::KeyPlace;
use crate::tools::plane::Shelf;
use bob_messages::options::{ServerSpec, ServerTransport};
use bob_messages::tools::ToolsMessage;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the actor is started with. A supervisor makes one per server and hands clones
/// of the same one to each successor, so that two processes of one server never
/// overlap.
#[derive(Clone)]
pub struct McpServerArguments {
    /// The server.
    pub spec: ServerSpec,
    /// The rules over its tools.
    pub policy: Policy,
    /// Ends its process when this program cannot.
    pub watcher: Watcher,
    /// How its process is stopped.
    pub ladder: Ladder,
    /// Who answers what it asks a person; without one, every question is declined.
    pub elicit: Option<Arc<dyn Elicit>>,
    /// Where its tools are published.
    pub shelf: Option<Shelf>,
    /// What writes its calls down, if anything does.
    pub recorder: Option<Recorder>,
    pub(super) place: Arc<Place>,
}

/// What the successors of one server's actor share.
#[derive(Default)]
pub(super) struct Place {
    /// Held by the keeper whose server lives.
    pub(super) taken: Arc<tokio::sync::Mutex<()>>,
    pub(super) was_ready: AtomicBool,
    /// What seals their grants: a call that was allowed before a restart may run after it.
    pub(super) key: KeyPlace,
}

impl McpServerArguments {
    /// A server under a policy, without anybody to answer what it asks.
    pub fn new(spec: ServerSpec, policy: Policy, watcher: Watcher) -> Self {
        let (elicit, shelf, recorder) = (None, None, None);
        Self { spec, policy, watcher, ladder: Ladder::default(), elicit, shelf, recorder, place: Arc::default() }
    }

    /// Takes the place of another server, whose process ends before this one's
    /// starts.
    #[must_use]
    pub fn in_place_of(self, before: &Self) -> Self {
        let place = Place { taken: Arc::clone(&before.place.taken), ..Place::default() };
        Self { place: Arc::new(place), ..self }
    }

    /// Whether nothing of this server is left for which one in its place would wait.
    pub fn is_vacant(&self) -> bool {
        self.place.taken.try_lock().is_ok()
    }

    /// What the server was given in its environment, which its own words may repeat. What is sent to one over HTTP is
    /// hidden where it answers.
    pub(super) fn secrets(&self) -> Secrets {
        match &self.spec.transport {
            ServerTransport::Stdio(_) => Secrets::of(self.spec.confided()),
            ServerTransport::Http(_) => Secrets::of([]),
        }
    }

    pub(super) fn patience(&self, question: &ToolsMessage) -> Duration {
        match (self.place.was_ready.load(Ordering::Relaxed), &self.shelf) {
            (true, Some(shelf)) => shelf.returns_within(question),
            // Nothing is known of its starts.
            (true, None) => RETURNS_WITHIN,
            (false, _) => self.spec.startup_timeout(),
        }
    }
}

impl fmt::Debug for McpServerArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerArguments")
            .field("spec", &self.spec)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
