//! What the LlmActor starts with, and what its calls share.

use super::admission::Admission;
use super::breakers::{Breakers, DEFAULT_BREAKER};
use super::budget::Budgets;
use super::port::LlmPort;
use super::retry::RetryPolicy;
use crate::feed::Feed;
use crate::model_server::ModelServers;
use std::sync::Arc;

/// What an LlmActor starts with. Clones share the places at the providers, the retry
/// budgets and the breakers: its supervisor restarts the actor with a clone, so that
/// calls still running keep counting.
#[derive(Clone)]
pub struct LlmArguments {
    pub(super) port: Arc<dyn LlmPort>,
    pub(super) feed: Arc<Feed>,
    pub(super) retry: RetryPolicy,
    pub(super) admission: Admission,
    pub(super) budgets: Budgets,
    pub(super) breakers: Breakers,
    pub(super) servers: ModelServers,
}

impl LlmArguments {
    /// The arguments of one runtime's LlmActor.
    pub fn new(port: Arc<dyn LlmPort>, feed: Arc<Feed>, retry: RetryPolicy) -> Self {
        let breakers = Breakers::new(DEFAULT_BREAKER);
        let (admission, budgets, servers) = (Admission::default(), Budgets::default(), ModelServers::default());
        Self { port, feed, retry, admission, budgets, breakers, servers }
    }

    /// Calls wait for these servers before they queue for their provider.
    #[must_use]
    pub fn with_servers(self, servers: ModelServers) -> Self {
        Self { servers, ..self }
    }
}

impl std::fmt::Debug for LlmArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LlmArguments").field("retry", &self.retry).finish_non_exhaustive()
    }
}
