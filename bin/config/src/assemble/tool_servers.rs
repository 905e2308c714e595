use std::path::PathBuf;
use std::sync::Arc;

use bob::AgentError;
use bob::tools::servers::{
    CommandSpec, Hidden, HttpSpec, ServerId, ServerSpec, ServerStart, ServerTransport, SignIn, SignInGrant,
};

use super::servers::folder;
use crate::{Auth, Config, McpServer, StartMode, Transport};

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
            let sign_in = server.auth.map(|auth| Box::new(sign_in(server, auth)));
            (ServerTransport::Http(HttpSpec { url, headers: Vec::new(), sign_in }), &server.headers)
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

fn sign_in(server: &McpServer, auth: Auth) -> SignIn {
    SignIn {
        grant: match auth {
            Auth::Oauth => SignInGrant::AuthorizationCode,
            Auth::ClientCredentials => SignInGrant::ClientCredentials,
        },
        client_id: server.client_id.clone(),
        client_secret: server
            .client_secret
            .as_ref()
            .map(|secret| Hidden::new(secret.wrapped().clone()))
            .unwrap_or_default(),
        client_metadata_url: server.client_metadata_url.clone(),
        scopes: server.scopes.clone(),
    }
}

/// Where tokens for tool servers are kept: in the user's folder for state. `None` without a home.
pub fn sign_ins(config: &Config) -> Option<PathBuf> {
    config.files().state.as_ref().map(|state| state.join("sign-ins"))
}
