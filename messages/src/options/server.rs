//! The specification of a tool server: in the configuration, in a session's options, and in a journal.
//!
//! Values that may be keys (of environment variables and headers, and the part of an address after its path) are in
//! memory only: they are never serialised or printed.

use super::{Hidden, SignIn};
use crate::ids::ServerId;
use crate::pool::Isolation;
use secrecy::SecretString;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One tool server. Equal specs, including keys, can share one process.
#[doc(alias = "McpToolAdapter")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Its name, the second part of its tools' names: `mcp/<id>/<tool>`.
    pub id: ServerId,
    /// How it is reached.
    #[serde(rename = "reach")]
    pub transport: ServerTransport,
    /// The tools that are offered, by the names the server gives them; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// How long a start may take, from the process to the list of tools, in milliseconds.
    #[serde(default = "startup_timeout_ms", skip_serializing_if = "is_startup_timeout")]
    pub startup_timeout_ms: u64,
    /// Timeout of a call, in milliseconds, unless its tool has one; `None` uses that of the call's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_timeout_ms: Option<u64>,
    /// Who shares its process.
    #[serde(default, skip_serializing_if = "Isolation::is_shared")]
    pub isolation: Isolation,
    /// When it is started; one that a session brings is started at once.
    #[serde(skip)]
    pub start: ServerStart,
    /// Whether the runtime requires it to start; not for one that a session brings.
    #[serde(skip)]
    pub required: bool,
    /// The folders that the server may query, as absolute paths, the workspace first. For one that a session brings,
    /// those of the session.
    #[serde(skip)]
    pub roots: Arc<[String]>,
}

/// How a tool server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum ServerTransport {
    /// A child process that reads requests and writes answers, one JSON text a line.
    Stdio(CommandSpec),
    /// A server somewhere else, spoken to over streamable HTTP. Nothing is started.
    Http(HttpSpec),
}

/// The program of a tool server. It inherits a short list of variables and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The program: a name is looked up in `PATH`, and a path starts in the folder. Never a shell line.
    pub command: String,
    /// Its arguments, which are journaled: a key belongs into `env`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its environment; only the names are journaled.
    #[serde(default)]
    pub env: Vec<Named>,
    /// Its working directory. Default: the session's working folder if a session brings it, otherwise that of this
    /// process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

/// Where a tool server is reached over HTTP.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpSpec {
    /// Its address, `http://` or `https://`; the part after `?` or `#`, and before `@`, is not journaled.
    #[serde(serialize_with = "serialize_url")]
    pub url: String,
    /// Headers of every request, sent to this address only; only the names are journaled.
    #[serde(default)]
    pub headers: Vec<Named>,
    /// How a client signs in, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<Box<SignIn>>,
}

/// When a tool server is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerStart {
    /// With its actor.
    #[default]
    Eager,
    /// With the first question, or when it is woken.
    Lazy,
}

/// A name with a value that only memory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The value.
    #[serde(default, skip_serializing)]
    pub value: Hidden,
}

impl CommandSpec {
    /// The program where it is: a path starts in the folder.
    pub fn program(&self) -> PathBuf {
        match &self.folder {
            Some(folder) if self.command.contains('/') => folder.join(&self.command),
            Some(_) | None => PathBuf::from(&self.command),
        }
    }
}

impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, headers, sign_in } = self;
        let mut spec = f.debug_struct("HttpSpec");
        spec.field("url", &shown(url)).field("headers", headers).field("sign_in", sign_in).finish()
    }
}

impl ServerTransport {
    /// The name of the transport.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
        }
    }

    /// Values that may be keys: its environment or its headers.
    pub fn named(&self) -> &[Named] {
        match self {
            Self::Stdio(command) => &command.env,
            Self::Http(http) => &http.headers,
        }
    }

    fn named_mut(&mut self) -> &mut Vec<Named> {
        match self {
            Self::Stdio(command) => &mut command.env,
            Self::Http(http) => &mut http.headers,
        }
    }
}

impl ServerSpec {
    /// A server with defaults: every tool offered, started at once, 20 seconds to start.
    pub fn new(id: ServerId, transport: ServerTransport) -> Self {
        Self {
            id,
            transport,
            tools: None,
            startup_timeout_ms: startup_timeout_ms(),
            tool_timeout_ms: None,
            isolation: Isolation::Shared,
            start: ServerStart::Eager,
            required: false,
            roots: Arc::default(),
        }
    }

    /// A child process.
    pub fn stdio<A: Into<String>>(id: ServerId, command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        let command = CommandSpec { command: command.into(), args, env: Vec::new(), folder: None };
        Self::new(id, ServerTransport::Stdio(command))
    }

    /// A server that is reached over HTTP.
    pub fn http(id: ServerId, url: impl Into<String>) -> Self {
        Self::new(id, ServerTransport::Http(HttpSpec { url: url.into(), headers: Vec::new(), sign_in: None }))
    }

    /// The server, given this too: a variable of its environment, or a header.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.transport.named_mut().push(Named { name: name.into(), value: Hidden::new(value) });
        self
    }

    /// The server, which is signed in to like this if it is reached over HTTP.
    #[must_use]
    pub fn with_sign_in(mut self, sign_in: SignIn) -> Self {
        if let ServerTransport::Http(http) = &mut self.transport {
            http.sign_in = Some(Box::new(sign_in));
        }
        self
    }

    /// Returns the part that is journaled.
    #[must_use]
    pub fn stripped(&self) -> Self {
        let mut kept = Self { start: ServerStart::Eager, required: false, roots: Arc::default(), ..self.clone() };
        kept.transport.named_mut().iter_mut().for_each(|named| named.value = Hidden::default());
        if let ServerTransport::Http(http) = &mut kept.transport {
            http.url = shown(&http.url);
            http.sign_in.iter_mut().for_each(|sign_in| sign_in.client_secret = Hidden::default());
        }
        kept
    }

    /// Returns the parts that are never serialised: values of its environment or headers, and secrets in its address.
    pub fn confided(&self) -> impl Iterator<Item = &str> {
        let url = match &self.transport {
            ServerTransport::Stdio(_) => None,
            ServerTransport::Http(http) => Some(http.url.as_str()),
        };
        let sign_in = match &self.transport {
            ServerTransport::Stdio(_) => None,
            ServerTransport::Http(http) => http.sign_in.as_ref(),
        };
        let values = self.transport.named().iter().filter_map(|named| named.value.expose());
        let secret = sign_in.and_then(|sign_in| sign_in.client_secret.expose());
        values.chain(secret).chain(url.into_iter().flat_map(confided_in))
    }

    /// How long a start may take.
    pub fn startup_timeout(&self) -> Duration {
        Duration::from_millis(self.startup_timeout_ms)
    }
}

/// Default timeout of a start, in milliseconds.
fn startup_timeout_ms() -> u64 {
    20_000
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks in this form")]
fn is_startup_timeout(ms: &u64) -> bool {
    *ms == startup_timeout_ms()
}

fn serialize_url<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown(url))
}

/// An address without its secret parts.
fn shown(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.split_once("://") {
        Some((scheme, rest)) => {
            let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let place = place.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{place}{path}")
        }
        None => path.to_owned(),
    }
}

/// The user and the password of an address, and the values behind its path. A name before a value is none.
fn confided_in(url: &str) -> impl Iterator<Item = &str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, behind) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let place = place.split('/').next().unwrap_or_default();
    let user = place.rsplit_once('@').map(|(user, _host)| user.split(':'));
    let values = behind.split(['?', '#', '&']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    user.into_iter().flatten().chain(values).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_key_is_never_written() {
        let canary = "sk-canary-1";
        let stdio = ServerSpec::stdio(ServerId::new("x"), "serve", ["-v"]).with("KEY", canary);
        let url = format!("https://user:{canary}@h.example:8/mcp?key={canary}#{canary}");
        let http = ServerSpec::http(ServerId::new("y"), url).with("Authorization", canary);
        for spec in [&stdio, &http] {
            let stripped = spec.stripped();
            assert_eq!(stripped.stripped(), stripped);
            assert_ne!(&stripped, spec);
            for spec in [spec, &stripped] {
                let json = serde_json::to_string(spec).unwrap();
                assert!(!json.contains(canary), "not even unstripped");
                assert!(!format!("{spec:?}").contains(canary));
                assert_eq!(serde_json::from_str::<ServerSpec>(&json).unwrap(), stripped);
            }
        }
        let secret = SignIn { client_secret: Hidden::new(canary), ..SignIn::default() };
        let signed = ServerSpec::http(ServerId::new("z"), "https://h.example/mcp").with_sign_in(secret);
        assert_eq!(signed.confided().collect::<Vec<_>>(), [canary]);
        let json = serde_json::to_string(&signed).unwrap();
        assert!(!json.contains(canary) && !format!("{signed:?}").contains(canary), "{json}");
        assert_eq!(serde_json::from_str::<ServerSpec>(&json).unwrap(), signed.stripped());
        let ServerTransport::Http(http) = http.stripped().transport else { panic!("it is reached otherwise") };
        assert_eq!(http.url, "https://h.example:8/mcp");
    }

    #[test]
    fn what_is_confided_is_what_is_stripped_and_no_names() {
        let of = |spec: &ServerSpec| spec.confided().map(str::to_owned).collect::<Vec<_>>();
        let stdio = ServerSpec::stdio(ServerId::new("x"), "serve", ["-v"]).with("KEY", "one").with("OTHER", "two");
        assert_eq!(of(&stdio), ["one", "two"]);
        assert!(of(&stdio.stripped()).is_empty());
        let url = "https://me:pass@h.example:8/a@b/mcp?session=s-1&system=a==&bare#last";
        let http = ServerSpec::http(ServerId::new("y"), url).with("Authorization", "Bearer k");
        assert_eq!(of(&http), ["Bearer k", "me", "pass", "s-1", "a==", "bare", "last"]);
        assert!(of(&http.stripped()).is_empty());
    }

    /// The form in journals, and forms that a user may write.
    #[test]
    fn the_json_of_a_server_stays_as_it_is_and_a_value_that_stands_there_is_taken() {
        let text = r#"{"id":"x","reach":{"transport":"stdio","command":"c","env":[{"name":"K","value":"v"}]}}"#;
        let spec: ServerSpec = serde_json::from_str(text).unwrap();
        assert_eq!(spec, ServerSpec::stdio(ServerId::new("x"), "c", [""; 0]).with("K", "v"));
        let kept = r#"{"id":"x","reach":{"transport":"stdio","command":"c","args":[],"env":[{"name":"K"}]}}"#;
        assert_eq!(serde_json::to_string(&spec).unwrap(), kept);
        let spec = ServerSpec {
            tools: Some(vec!["t".to_owned()]),
            startup_timeout_ms: 7,
            tool_timeout_ms: Some(8),
            start: ServerStart::Lazy,
            required: true,
            roots: Arc::from(["/r".to_owned()]),
            ..ServerSpec::http(ServerId::new("y"), "http://h/?k=v").with("A", "b")
        };
        let kept = r#"{"id":"y","reach":{"transport":"http","url":"http://h/","headers":[{"name":"A"}]},"tools":["t"],"startup_timeout_ms":7,"tool_timeout_ms":8}"#;
        assert_eq!(serde_json::to_string(&spec).unwrap(), kept);
    }

    /// Servers that are equal share a process, and a session must never be served with the keys of another one.
    #[test]
    fn g17_servers_that_are_given_different_keys_are_different_servers() {
        let stdio = |value: &str, folder: &str| {
            let mut spec = ServerSpec::stdio(ServerId::new("s"), "serve", ["x"]).with("KEY", value);
            if let ServerTransport::Stdio(command) = &mut spec.transport {
                command.folder = Some(folder.into());
            }
            spec
        };
        let web = |url: &str, value: &str| ServerSpec::http(ServerId::new("s"), url).with("Authorization", value);
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
