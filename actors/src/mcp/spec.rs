//! What a tool server is, as its actor is told it.

use crate::child::ChildSpec;
use crate::secrets::Secrets;
use bob_messages::ids::ServerId;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One tool server. Nothing in it changes while its actor lives.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSpec {
    /// Its name, the second part of its tools' names: `mcp/<id>/<tool>`.
    pub id: ServerId,
    /// How it is reached.
    pub transport: Transport,
    /// The tools that are offered, by the names the server gives them; `None`: all.
    pub offered: Option<Vec<String>>,
    /// When it is started.
    pub start: Start,
    /// Whether the runtime refuses to start without it. The actor does not act on it.
    pub required: bool,
    /// How long a start may take, from the process to the list of tools, in
    /// milliseconds.
    pub startup_timeout_ms: u64,
    /// How long a call may run unless more is said of its tool, in milliseconds;
    /// `None`: as long as the call's context says.
    pub tool_timeout_ms: Option<u64>,
    /// The folders a server that asks is told, as absolute paths; the first is the
    /// workspace.
    pub roots: Arc<[String]>,
}

/// How a tool server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A child process that reads requests and writes answers, one JSON text a line.
    /// Its stdin and stdout are pipes, whatever is set here.
    Stdio(ChildSpec),
    /// A server somewhere else, spoken to over streamable HTTP. Nothing is started.
    Http(HttpSpec),
}

/// Where a server is reached over HTTP. Its `Debug` shows no value of a header and
/// nothing of the URL that could be a key.
#[derive(Clone)]
pub struct HttpSpec {
    /// The server's one address, `http://` or `https://`.
    pub url: String,
    /// What is sent with every request and to nobody else: names and their values.
    pub headers: Vec<(String, SecretString)>,
}

impl HttpSpec {
    /// A server that asks for no key.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new() }
    }

    /// The same, sent this header too.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| name.as_str())
    }
}

impl PartialEq for HttpSpec {
    fn eq(&self, other: &Self) -> bool {
        let mut values = self.headers.iter().zip(&other.headers);
        self.url == other.url
            && self.names().eq(other.names())
            && values.all(|((_, one), (_, another))| one.expose_secret() == another.expose_secret())
    }
}

impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().collect();
        let shown = self.url.split(['?', '#']).next().filter(|shown| !shown.contains('@')).unwrap_or("…");
        f.debug_struct("HttpSpec").field("url", &shown).field("headers", &names).finish()
    }
}

impl Transport {
    /// In one word, to be shown.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
        }
    }
}

/// When a tool server is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// With its actor.
    #[default]
    Eager,
    /// With the first question, or when it is woken.
    Lazy,
}

impl ServerSpec {
    /// A server with nothing set but what it must have: every tool offered, eager, 20
    /// seconds to start.
    pub fn new(id: ServerId, transport: Transport) -> Self {
        Self {
            id,
            transport,
            offered: None,
            start: Start::Eager,
            required: false,
            startup_timeout_ms: 20_000,
            tool_timeout_ms: None,
            roots: Arc::from([]),
        }
    }

    /// What it was given in its environment, which its own words may repeat. What is sent
    /// to a server over HTTP is hidden where it answers.
    pub(super) fn secrets(&self) -> Secrets {
        match &self.transport {
            Transport::Stdio(command) => command.secrets(),
            Transport::Http(_) => Secrets::of([]),
        }
    }

    pub(super) fn startup_timeout(&self) -> Duration {
        Duration::from_millis(self.startup_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is equal is one server; whoever brings another key must never be served by somebody else's.
    #[test]
    fn g17_servers_that_are_given_different_keys_are_different_servers() {
        let id = || ServerId::new("s");
        let stdio = |value: &str, folder: &str| {
            let env = vec![("KEY".into(), value.into())];
            let command = ChildSpec { env, folder: Some(folder.into()), ..ChildSpec::new("serve", ["x"]) };
            ServerSpec::new(id(), Transport::Stdio(command))
        };
        let web = |url: &str, value: &str| {
            ServerSpec::new(id(), Transport::Http(HttpSpec::new(url).with_header("Authorization", value.to_owned())))
        };
        assert_eq!(stdio("mine", "/a"), stdio("mine", "/a"));
        assert_ne!(stdio("mine", "/a"), stdio("yours", "/a"));
        assert_ne!(stdio("mine", "/a"), stdio("mine", "/b"));
        assert_eq!(web("http://h/", "mine"), web("http://h/", "mine"));
        assert_ne!(web("http://h/", "mine"), web("http://h/", "yours"));
        assert_ne!(web("http://h/?k=mine", "x"), web("http://h/?k=yours", "x"));
        let roots = ServerSpec { roots: Arc::from(["/a".to_owned()]), ..stdio("mine", "/a") };
        assert_ne!(roots, stdio("mine", "/a"));
    }
}
