//! What sessions changed of files, for a program.

use super::runtime::Runtime;
use super::tenant::TenantRuntime;
use crate::tools::file_changes::{SessionChanges, gathered};
use bob_messages::error::AgentError;
use bob_messages::ids::SessionId;
use futures_util::FutureExt;

impl Runtime {
    /// What the turns of a session changed of files, also by sub-agents, as far as its journal has it. Shell commands and
    /// tool servers do not say what they change.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn file_changes(&self, session: &SessionId) -> Result<SessionChanges, AgentError> {
        let records = self.journal(session.clone()).await?;
        let load =
            |session: SessionId| async move { self.journal(session).await.map_err(|error| error.to_string()) }.boxed();
        Ok(gathered(session, &records, &load).await)
    }
}

impl TenantRuntime {
    /// As [`Runtime::file_changes`]; a session of another tenant has none.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn file_changes(&self, session: &SessionId) -> Result<SessionChanges, AgentError> {
        match self.owns(session).await? {
            true => self.runtime().file_changes(session).await,
            false => Ok(SessionChanges::default()),
        }
    }
}
