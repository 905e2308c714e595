//! `mcp login` and `mcp logout`: the tokens for a tool server that wants its client to sign in.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use bob::AgentError;
use bob::tools::servers::{ServerId, ServerSpec, ServerTransport, SignInPort, SignIns};
use bob_config::Config;
use bob_config::assemble::{sign_ins, tool_servers};
use futures_util::future::BoxFuture;
use tokio::process::Command;

use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::terminal::print;

/// Opens the page in a browser, where there is one; the system's own command chooses it.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Shows a person the page to sign in at.
struct Page;

impl SignInPort for Page {
    fn open<'a>(&'a self, server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        print::note(&format!("open this page to sign in to {server}; the answer is awaited for five minutes:"));
        print::note(page);
        if print::stderr_is_screen() && has_browser() {
            let mut browser = Command::new(OPENER);
            browser.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // Without a browser here, there is the page's address. The runtime reaps the process.
            drop(browser.spawn());
        }
        Box::pin(std::future::ready(()))
    }
}

fn has_browser() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// `mcp login`.
///
/// # Errors
/// When the server is not one that is signed in to, or it was not possible to sign in.
pub(crate) async fn log_in(config: &Config, id: &str) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let spec = server(config, id)?;
    let sign_ins = SignIns { folder: Some(folder(config)?), port: Some(Arc::new(Page)) };
    let signed_in = tokio::select! { biased;
        caught = signals.next() => return Err(Failure::signalled(caught.exit())),
        signed_in = bob::tools::servers::log_in(&spec, &sign_ins) => signed_in,
    };
    signed_in.map_err(|why| Failure::from(AgentError::Tool(format!("the tool server `{id}` {why}"))))?;
    print::line(&format!("signed in to {id}"))?;
    Ok(Exit::Success)
}

/// `mcp logout`.
///
/// # Errors
/// When the server is not one that is signed in to, or the tokens cannot be removed.
pub(crate) fn log_out(config: &Config, id: &str) -> Result<Exit, Failure> {
    let spec = server(config, id)?;
    let was_signed_in = bob::tools::servers::log_out(&spec, &folder(config)?).map_err(Failure::internal)?;
    print::line(&match was_signed_in {
        true => format!("signed out of {id}: its tokens are removed from this machine"),
        false => format!("there are no tokens of {id}"),
    })?;
    Ok(Exit::Success)
}

fn server(config: &Config, id: &str) -> Result<ServerSpec, Failure> {
    let specs = tool_servers(config)?;
    let names: Vec<_> = specs.iter().map(|spec| spec.id.as_str()).collect();
    let unknown = || match names.as_slice() {
        [] => Failure::usage("no tool server is configured; [[mcp.servers]] adds one"),
        names => Failure::usage(format!("there is no tool server {id:?}; the configuration has {}", names.join(", "))),
    };
    let spec = specs.iter().find(|spec| spec.id.as_str() == id).ok_or_else(unknown)?;
    let signs_in = matches!(&spec.transport, ServerTransport::Http(http) if http.sign_in.is_some());
    if !signs_in {
        return Err(Failure::usage(format!("the tool server {id} has no `auth` in its configuration")));
    }
    Ok(spec.clone())
}

fn folder(config: &Config) -> Result<PathBuf, Failure> {
    sign_ins(config).ok_or_else(|| Failure::usage("there is no folder for state: set HOME or XDG_STATE_HOME"))
}
