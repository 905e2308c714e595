//! What the LlmActor starts with, and what its calls share.

use super::admission::Admission;
use super::breakers::{Breakers, DEFAULT_BREAKER};
use super::budget::Budgets;
use super::port::{LlmPort, Readiness};
use super::retry::RetryPolicy;
use crate::feed::Feed;
use crate::store::Artifacts;
use crate::tenants::Tenants;
use bob_messages::share::Share;
use std::sync::Arc;

/// What an LlmActor starts with. Clones share the places at the providers, the retry budgets and the breakers: its
/// supervisor restarts the actor with a clone, so that calls still running keep counting.
#[derive(Clone)]
pub struct LlmArguments {
    pub(super) port: Arc<dyn LlmPort>,
    pub(super) feed: Arc<Feed>,
    pub(super) retry: RetryPolicy,
    pub(super) admission: Admission,
    pub(super) budgets: Budgets,
    pub(super) breakers: Breakers,
    /// Waits for providers of this machine.
    pub(super) readiness: Option<Arc<dyn Readiness>>,
    /// Where the content of pictures and sounds is that requests name.
    pub(super) artifacts: Artifacts,
    /// Refuses the calls of tenants whose day is used up.
    pub(super) tenants: Tenants,
}

impl LlmArguments {
    /// The arguments of one runtime's LlmActor.
    pub fn new(port: Arc<dyn LlmPort>, feed: Arc<Feed>, retry: RetryPolicy) -> Self {
        let breakers = Breakers::new(DEFAULT_BREAKER);
        let (admission, budgets) = (Admission::default(), Budgets::default());
        let (artifacts, tenants) = (Artifacts::default(), Tenants::default());
        Self { port, feed, retry, admission, budgets, breakers, readiness: None, artifacts, tenants }
    }

    /// Requests get the content of what they name from here.
    #[must_use]
    pub fn with_artifacts(self, artifacts: Artifacts) -> Self {
        Self { artifacts, ..self }
    }

    /// Calls count for the limits of these tenants.
    #[must_use]
    pub fn with_tenants(self, tenants: Tenants) -> Self {
        Self { tenants, ..self }
    }

    /// The limits of providers are those of several processes together, of which this says which one this is.
    #[must_use]
    pub fn with_share(self, share: Arc<dyn Fn() -> Share + Send + Sync>) -> Self {
        Self { admission: self.admission.shared(share), ..self }
    }

    /// Calls wait for their provider here before they queue for it.
    #[must_use]
    pub fn with_readiness(self, readiness: Arc<dyn Readiness>) -> Self {
        Self { readiness: Some(readiness), ..self }
    }
}

impl std::fmt::Debug for LlmArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LlmArguments").field("retry", &self.retry).finish_non_exhaustive()
    }
}
