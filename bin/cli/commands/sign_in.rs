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

struct Page;

impl SignInPort for Page {
    fn open<'a>(&'a self, server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        print::note(&format!("open this page to sign in to {server}; the answer is awaited for five minutes:"));
        print::note(page);
        if print::stderr_is_screen() && has_browser() && is_web_page(page) {
            // Without a browser here, there is the page's address. The runtime reaps the process.
            drop(browser(page).spawn());
        }
        Box::pin(std::future::ready(()))
    }
}

/// Whether it is a page for a browser: the system has programs for other addresses, which do more than show a page.
fn is_web_page(page: &str) -> bool {
    page.starts_with("https://") || page.starts_with("http://")
}

/// A browser gets no key that this program has, and ends with the desktop and not with a signal to this program.
fn browser(page: &str) -> Command {
    let mut browser = Command::new(OPENER);
    browser.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    browser.env_clear().envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_for_browser)));
    browser.process_group(0);
    browser
}

/// Variables by which a desktop and its programs are found.
fn is_for_browser(name: &str) -> bool {
    const NAMES: [&str; 13] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TMPDIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "BROWSER",
        "DESKTOP_SESSION",
        "KDE_FULL_SESSION",
        "KDE_SESSION_VERSION",
    ];
    NAMES.contains(&name) || ["XDG_", "DBUS_", "LC_"].iter().any(|start| name.starts_with(start))
}

fn has_browser() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

pub(crate) async fn log_in(config: &Config, id: &str) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let spec = server(config, id)?;
    let sign_ins = SignIns { folder: Some(folder(config)?), port: Some(Arc::new(Page)) };
    let signed_in = tokio::select! { biased;
        caught = signals.next() => return Err(Failure::signalled(caught.exit())),
        signed_in = bob::tools::servers::log_in(&spec, &sign_ins) => signed_in,
    };
    signed_in.map_err(|error| Failure::from(AgentError::Tool(error.to_string())))?;
    print::line(&format!("signed in to {id}"))?;
    Ok(Exit::Success)
}

pub(crate) fn log_out(config: &Config, id: &str) -> Result<Exit, Failure> {
    let spec = server(config, id)?;
    let was_signed_in =
        bob::tools::servers::log_out(&spec, &folder(config)?).map_err(|error| Failure::internal(error.to_string()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_started_for_pages_alone() {
        assert!(is_web_page("https://as.example/authorize?state=s") && is_web_page("http://127.0.0.1:8/authorize"));
        for other in ["file:///etc/passwd", "smb://h/x", "vscode://h/x", "javascript:x", "-x", "/bin/sh", ""] {
            assert!(!is_web_page(other), "{other}");
        }
    }

    #[test]
    fn a_browser_gets_the_desktop_and_no_keys() {
        for name in ["PATH", "HOME", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
            assert!(is_for_browser(name), "{name}");
        }
        for name in
            ["ANTHROPIC_API_KEY", "BOB__PROVIDERS__X__API_KEY", "LD_PRELOAD", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY"]
        {
            assert!(!is_for_browser(name), "{name}");
        }
        let browser = browser("https://as.example/");
        let args: Vec<_> = browser.as_std().get_args().collect();
        assert_eq!(args, ["https://as.example/"]);
        let mut kept = browser.as_std().get_envs().map(|(name, _)| name.to_string_lossy().into_owned());
        assert!(kept.all(|name| is_for_browser(&name)));
    }
}
