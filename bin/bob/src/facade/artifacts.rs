//! The large parts of a session's records, for a program.

use super::runtime::Runtime;
use super::tenant::TenantRuntime;
use bob_actors::store::StoredArtifact;
use bob_messages::artifact::ArtifactId;
use bob_messages::error::AgentError;
use bob_messages::ids::SessionId;
use std::ops::Range;

impl Runtime {
    /// The artifacts of a session, by name: parts of its records above 256 KiB. Empty for a session that has none or does
    /// not exist, and where the store keeps none.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn artifacts_of(&self, session: &SessionId) -> Result<Vec<StoredArtifact>, AgentError> {
        match self.artifacts().port() {
            Some(port) => Ok(port.list(session).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Reads a range of an artifact, in bytes, as far as there is content; `None` when the session has no such artifact.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn artifact(
        &self,
        session: &SessionId,
        id: &ArtifactId,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, AgentError> {
        match self.artifacts().port() {
            Some(port) => Ok(port.get(session, id, range).await?),
            None => Ok(None),
        }
    }
}

impl TenantRuntime {
    /// As [`Runtime::artifacts_of`]; a session of another tenant has none.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn artifacts_of(&self, session: &SessionId) -> Result<Vec<StoredArtifact>, AgentError> {
        match self.owns(session).await? {
            true => self.runtime().artifacts_of(session).await,
            false => Ok(Vec::new()),
        }
    }

    /// As [`Runtime::artifact`]; an artifact of another tenant does not exist.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn artifact(
        &self,
        session: &SessionId,
        id: &ArtifactId,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, AgentError> {
        match self.owns(session).await? {
            true => self.runtime().artifact(session, id, range).await,
            false => Ok(None),
        }
    }
}
