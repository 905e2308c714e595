//! What a builder is told of tools beside ports: servers, and hooks around calls.

use super::builder::RuntimeBuilder;
use bob_actors::hooks::HookPrograms;
use bob_actors::tools::ToolHook;
#[cfg(feature = "mcp")]
use bob_messages::options::ServerSpec;
use std::sync::Arc;
#[cfg(feature = "mcp")]
use std::time::Duration;

impl RuntimeBuilder {
    /// Adds a hook that is asked about calls of every tool, those of tool servers included, behind the hooks that were added
    /// before. May be called repeatedly.
    #[must_use]
    pub fn tool_hook(mut self, hook: Arc<dyn ToolHook>) -> Self {
        self.tool_hooks.push(hook);
        self
    }

    /// Sets the programs that are run at points of a turn. They are asked behind the hooks of
    /// [`tool_hook`](Self::tool_hook). Make them with [`watcher`](Self::watcher).
    #[must_use]
    pub fn hook_programs(mut self, programs: HookPrograms) -> Self {
        self.hook_programs = Some(programs);
        self
    }

    /// Adds a tool server. It is started with the runtime, or on first use if its spec says so; its tools are named
    /// `mcp/<id>/<tool>`. May be called repeatedly.
    #[doc(alias = "register_mcp_server")]
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn tool_server(mut self, spec: ServerSpec) -> Self {
        self.tool_servers.push(spec);
        self
    }

    /// How long a tool server of sessions keeps running after the last of them was closed; default ten minutes.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn brought_servers_end_after(mut self, unused: Duration) -> Self {
        self.brought_end_after = unused;
        self
    }

    /// Limits of different tool servers that sessions may bring: `runtime` in all, `session` for one session at a
    /// time; default 64 and 16. Further servers are refused by name and not started.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn brought_servers_at_most(mut self, runtime: usize, session: usize) -> Self {
        self.brought_bounds = bob_supervisors::tools::brought::BroughtBounds { runtime, session };
        self
    }

    /// Bounds of the processes of tool servers that not all sessions share ([`ServerSpec::isolation`]): one ends when no turn
    /// of its owner ran for `idle_ttl`, default ten minutes, and there are at most `max_processes`, default 64. For another
    /// one, an unused process is ended; if all are in use, the turn goes on without the server.
    #[doc(alias = "McpConnectionPool")]
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn server_pool(mut self, idle_ttl: Duration, max_processes: usize) -> Self {
        self.server_pool = bob_supervisors::tools::brought::ServerPool { idle_ttl, max_processes };
        self
    }

    /// How tool servers with [`HttpSpec::sign_in`](crate::tools::servers::HttpSpec::sign_in) are signed in to: where tokens
    /// are kept, and how a person is shown the page. By default they are kept in memory, and no page is shown: then such a
    /// server is unavailable until [`log_in`](crate::tools::servers::log_in) has been called for the same folder. Servers
    /// that sessions bring have no part in it.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn sign_ins(mut self, sign_ins: bob_actors::mcp::SignIns) -> Self {
        self.sign_ins = sign_ins;
        self
    }
}
