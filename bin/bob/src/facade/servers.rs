//! Waits for tool servers: required ones at the start, and the end of their processes.

use super::agent_runtime::AgentRuntime;
use super::runtime::Runtime;
use bob_messages::mcp::ServerState;

impl Runtime {
    /// Waits until every required tool server was ready once. Errors: why one is not, with the end of its stderr.
    pub(super) async fn required_servers(&self) -> Result<(), String> {
        let mut changes = self.server_changes();
        if self.servers().iter().any(|server| server.required && server.state == ServerState::Asleep) {
            // One that belongs to tenants or sessions is started once, to see whether it can be.
            self.0.tree.rooms.tools.list(None, drop);
        }
        loop {
            let mut is_starting = false;
            for server in self.servers().into_iter().filter(|server| server.required) {
                match server.state {
                    ServerState::Ready => {}
                    ServerState::Asleep | ServerState::Starting => is_starting = true,
                    ServerState::Restarting | ServerState::GaveUp | ServerState::Stopped => {
                        let nobody_says = || format!("the tool server `{}` does not start", server.id);
                        return Err(server.last_error.unwrap_or_else(nobody_says));
                    }
                }
            }
            if !is_starting || changes.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Waits until the ends of all tool server processes were reported.
    pub(super) async fn without_processes(&self) {
        let mut changes = self.server_changes();
        while self.servers().iter().any(|server| server.pid.is_some()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
