//! The operations of a tenant, limited to the tenant or, as a planted defect, not.

use bob::approvals::{ApprovalId, Decision};
use bob::context::TenantRuntime;
use bob::events::{AgentEvents, EventsFrom};
use bob::model::ContentPart;
use bob::sessions::SessionFilter;
use bob::store::ArtifactId;
use bob::{AgentError, AgentRuntime, Runtime, SessionId};

/// The runtime as an operation of a tenant meets it.
pub(crate) struct View {
    pub(crate) runtime: Runtime,
    pub(crate) tenant: TenantRuntime,
    pub(crate) is_scoped: bool,
}

impl View {
    pub(crate) async fn decide(
        &self,
        at: SessionId,
        approval: ApprovalId,
        decision: Decision,
    ) -> Result<bool, AgentError> {
        match self.is_scoped {
            true => self.tenant.decide(at, approval, decision).await,
            false => self.runtime.decide(at, approval, decision).await,
        }
    }

    pub(crate) async fn events(&self, of: SessionId) -> AgentEvents {
        let events = match self.is_scoped {
            true => self.tenant.subscribe(of, EventsFrom::Beginning).await,
            false => self.runtime.subscribe(of, EventsFrom::Beginning).await,
        };
        events.unwrap()
    }

    /// All that lists, looks and records show, as text.
    pub(crate) async fn looks(&self, of: SessionId) -> String {
        let filter = SessionFilter::default();
        let (page, look, records) = match self.is_scoped {
            true => (
                self.tenant.sessions(filter, None).await,
                self.tenant.session(of.clone()).await,
                self.tenant.records(of).await,
            ),
            false => (
                self.runtime.sessions(filter, None).await,
                self.runtime.session(of.clone()).await,
                self.runtime.records(of).await,
            ),
        };
        format!("{:?} {:?} {:?}", page.unwrap(), look.unwrap(), records.unwrap())
    }

    pub(crate) async fn interrupts(&self, of: SessionId, deletes: bool) -> bool {
        match (self.is_scoped, deletes) {
            (true, false) => self.tenant.cancel(of).await.unwrap(),
            (true, true) => self.tenant.delete(of).await.unwrap_or(false),
            (false, false) => self.runtime.cancel(of).await,
            (false, true) => self.runtime.delete(of).await.unwrap_or(false),
        }
    }

    pub(crate) async fn steers(&self, of: SessionId, text: String) -> bool {
        let parts = vec![ContentPart::text(text)];
        match self.is_scoped {
            true => self.tenant.steer(of, None, parts).await.unwrap(),
            false => self.runtime.steer(of, parts).await.unwrap(),
        }
    }

    /// The artifacts of a session.
    pub(crate) async fn artifacts(&self, of: &SessionId) -> Vec<ArtifactId> {
        let listed = match self.is_scoped {
            true => self.tenant.artifacts_of(of).await,
            false => self.runtime.artifacts_of(of).await,
        };
        listed.unwrap().into_iter().map(|stored| stored.id).collect()
    }

    /// Exports an artifact of a session.
    pub(crate) async fn export(&self, of: &SessionId, id: &ArtifactId) -> Option<Vec<u8>> {
        match self.is_scoped {
            true => self.tenant.artifact(of, id, 0..u64::MAX).await.unwrap(),
            false => self.runtime.artifact(of, id, 0..u64::MAX).await.unwrap(),
        }
    }
}
