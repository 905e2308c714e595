//! The tool servers of a configuration.

use std::sync::Arc;

use bob::AgentError;
use bob::tools::servers::{CommandSpec, HttpSpec, ServerId, ServerSpec, ServerStart, ServerTransport};

use super::servers::folder;
use crate::{Config, McpServer, StartMode, Transport};

/// Returns one spec for each configured tool server. Starts nothing.
///
/// # Errors
/// `Invalid` for a missing workspace, and for a server that lacks a key of its transport.
pub fn tool_servers(config: &Config) -> Result<Vec<ServerSpec>, AgentError> {
    if config.mcp.servers.is_empty() {
        return Ok(Vec::new());
    }
    let workspace = super::workspace(config)?.to_string_lossy().into_owned();
    let roots: Arc<[String]> = Arc::from([workspace]);
    config.mcp.servers.iter().map(|server| tool_server(config, server, &roots)).collect()
}

fn tool_server(config: &Config, server: &McpServer, roots: &Arc<[String]>) -> Result<ServerSpec, AgentError> {
    let refuse = |why: &str| AgentError::Invalid(format!("the tool server {} {why}", server.id));
    let (transport, keys) = match server.transport {
        Transport::Stdio => {
            let command = server.command.clone().ok_or_else(|| refuse("needs a `command`"))?;
            let (args, env, folder) = (server.args.clone(), Vec::new(), Some(folder(config.folder_of_servers())));
            (ServerTransport::Stdio(CommandSpec { command, args, env, folder }), &server.env)
        }
        Transport::Http => {
            let url = server.url.clone().ok_or_else(|| refuse("needs a `url`"))?;
            (ServerTransport::Http(HttpSpec { url, headers: Vec::new() }), &server.headers)
        }
    };
    let spec = ServerSpec {
        tools: server.tools.clone(),
        start: match server.start {
            StartMode::Eager => ServerStart::Eager,
            StartMode::Lazy => ServerStart::Lazy,
        },
        isolation: server.isolation,
        required: server.required,
        startup_timeout_ms: server.startup_timeout_ms,
        tool_timeout_ms: server.tool_timeout_ms,
        roots: Arc::clone(roots),
        ..ServerSpec::new(ServerId::new(server.id.as_str()), transport)
    };
    Ok(keys.iter().fold(spec, |spec, (name, value)| spec.with(name, value.wrapped().clone())))
}
