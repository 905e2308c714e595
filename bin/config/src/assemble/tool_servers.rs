//! The tool servers of a configuration.

use std::sync::Arc;

use bob::child::ChildSpec;
use bob::{AgentError, HttpSpec, ServerId, ServerSpec, ServerStart as Start, ServerTransport as Transport};

use super::servers::{folder, program};
use crate::{Config, McpServer, StartMode};

/// One spec for each configured tool server. Nothing is started.
///
/// # Errors
/// `Invalid` for a workspace that is not there, and for a server without what its transport needs.
pub fn tool_servers(config: &Config) -> Result<Vec<ServerSpec>, AgentError> {
    if config.mcp.servers.is_empty() {
        return Ok(Vec::new());
    }
    let workspace = super::workspace(config)?.to_string_lossy().into_owned();
    let roots: Arc<[String]> = Arc::from([workspace]);
    config.mcp.servers.iter().map(|server| tool_server(config, server, &roots)).collect()
}

fn tool_server(config: &Config, server: &McpServer, roots: &Arc<[String]>) -> Result<ServerSpec, AgentError> {
    Ok(ServerSpec {
        offered: server.tools.clone(),
        start: match server.start {
            StartMode::Eager => Start::Eager,
            StartMode::Lazy => Start::Lazy,
        },
        required: server.required,
        startup_timeout_ms: server.startup_timeout_ms,
        tool_timeout_ms: server.tool_timeout_ms,
        roots: Arc::clone(roots),
        ..ServerSpec::new(ServerId::new(server.id.as_str()), transport(config, server)?)
    })
}

fn transport(config: &Config, server: &McpServer) -> Result<Transport, AgentError> {
    let refuse = |why: &str| AgentError::Invalid(format!("the tool server {} {why}", server.id));
    match server.transport {
        crate::Transport::Stdio => {
            let command = server.command.as_deref().ok_or_else(|| refuse("needs a `command`"))?;
            let folder = folder(config);
            let env = server.env.iter().map(|(name, value)| (name.into(), value.expose().into())).collect();
            let program = program(&folder, command);
            let args = server.args.iter().cloned();
            Ok(Transport::Stdio(ChildSpec { folder: Some(folder), env, ..ChildSpec::new(program, args) }))
        }
        crate::Transport::Http => {
            let url = server.url.clone().ok_or_else(|| refuse("needs a `url`"))?;
            let headers = server.headers.iter().map(|(name, value)| (name.clone(), value.wrapped().clone())).collect();
            Ok(Transport::Http(HttpSpec { url, headers }))
        }
    }
}
