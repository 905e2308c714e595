//! The commands in the background, for a person who looks at them beside the model.

use super::shell::Jobs;
use bob_messages::ids::SessionId;
use bob_messages::tools::BackgroundCommand;
use std::sync::Arc;

/// The background commands of one set of local tools ([`tools`](super::tools)). Clones are handles to the same commands.
#[derive(Debug, Clone, Default)]
pub struct BackgroundCommands(pub(super) Arc<Jobs>);

impl BackgroundCommands {
    /// The commands of a session, in the order of their numbers; those that ended are kept for a while.
    pub fn of(&self, session: &SessionId) -> Vec<BackgroundCommand> {
        self.0.all(session).iter().map(|job| job.shown()).collect()
    }

    /// Stops a command as `local/shell_stop` does: SIGTERM, and SIGKILL after 2 s. Returns whether the session has such a
    /// command.
    pub async fn stop(&self, session: &SessionId, id: u32) -> bool {
        let Ok(job) = self.0.get(session, id) else { return false };
        job.stop().await;
        true
    }
}
