//! A tool server that a session brings: how it is reached, as the journal keeps it.
//!
//! What a key may hide in (the values of an environment and of headers, and what follows
//! the path of an address) is in memory only: it is never serialised, never printed, and
//! gone from what [`ServerLaunch::stripped`] gives, which is what sessions and journals see.

use crate::ids::ServerId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// One tool server of a session. Its tools are named `mcp/<id>/<tool>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerLaunch {
    /// Its name in the session; no two servers of a session have the same.
    pub id: ServerId,
    /// How it is reached.
    pub reach: Reach,
    /// The tools that are offered, by the names the server gives them; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// How long a start may take, in milliseconds; 20,000 unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_timeout_ms: Option<u64>,
    /// How long a call may take, in milliseconds, unless more is said of its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_timeout_ms: Option<u64>,
}

/// How a session's tool server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum Reach {
    /// A child process. It inherits a short list of variables and nothing else.
    Stdio {
        /// The program; a name without `/` is looked up in `PATH`.
        command: String,
        /// Its arguments, which are journaled: a key belongs into `env`.
        #[serde(default)]
        args: Vec<String>,
        /// What it is given in its environment; only the names are journaled.
        #[serde(default)]
        env: Vec<Named>,
        /// Its folder, absolute; the session's working folder when it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
    },
    /// A server somewhere else.
    Http {
        /// Its address; what follows a `?` or `#`, and what precedes an `@`, is not journaled.
        url: String,
        /// What is sent with every request; only the names are journaled.
        #[serde(default)]
        headers: Vec<Named>,
    },
}

/// A name with a value that only memory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Hidden::is_always")]
    pub value: Hidden,
}

/// A text that is never written anywhere: it serialises as nothing and prints as dots.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Hidden(Option<Arc<str>>);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(Some(text.into()))
    }

    /// The text; `None` where it came out of a journal.
    pub fn expose(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// For serde: such a field is always left out.
    fn is_always(&self) -> bool {
        true
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "…" } else { "(not given)" })
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Hidden {
    /// A value that stands there is a value that somebody gives: it is taken, and hidden from then on.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<String>::deserialize(deserializer).map(|given| Self(given.map(Into::into)))
    }
}

impl Named {
    fn stripped(&self) -> Self {
        Self { name: self.name.clone(), value: Hidden::default() }
    }
}

impl ServerLaunch {
    /// A child process.
    pub fn stdio<A: Into<String>>(id: ServerId, command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::reached(id, Reach::Stdio { command: command.into(), args, env: Vec::new(), folder: None })
    }

    /// A server that is reached over HTTP.
    pub fn http(id: ServerId, url: impl Into<String>) -> Self {
        Self::reached(id, Reach::Http { url: url.into(), headers: Vec::new() })
    }

    fn reached(id: ServerId, reach: Reach) -> Self {
        Self { id, reach, tools: None, startup_timeout_ms: None, tool_timeout_ms: None }
    }

    /// The same, given this too: a variable of its environment, or a header.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Arc<str>>) -> Self {
        let named = Named { name: name.into(), value: Hidden::new(value) };
        match &mut self.reach {
            Reach::Stdio { env, .. } => env.push(named),
            Reach::Http { headers, .. } => headers.push(named),
        }
        self
    }

    /// The same without anything a key may hide in.
    #[must_use]
    pub fn stripped(&self) -> Self {
        let reach = match &self.reach {
            Reach::Stdio { command, args, env, folder } => Reach::Stdio {
                command: command.clone(),
                args: args.clone(),
                env: env.iter().map(Named::stripped).collect(),
                folder: folder.clone(),
            },
            Reach::Http { url, headers } => {
                Reach::Http { url: shown(url), headers: headers.iter().map(Named::stripped).collect() }
            }
        };
        Self { reach, ..self.clone() }
    }

    /// What [`stripped`](Self::stripped) leaves out: the values of its environment or headers, and what stands in an
    /// address before the host, or behind the path as a value.
    pub fn confided(&self) -> impl Iterator<Item = &str> {
        let (named, url) = match &self.reach {
            Reach::Stdio { env, .. } => (env, None),
            Reach::Http { url, headers } => (headers, Some(url.as_str())),
        };
        named.iter().filter_map(|named| named.value.expose()).chain(url.into_iter().flat_map(confided_in))
    }

    /// Whether every value it needs is there. An address that was cut cannot be told from a whole one here.
    pub fn is_whole(&self) -> bool {
        let named = match &self.reach {
            Reach::Stdio { env, .. } => env,
            Reach::Http { headers, .. } => headers,
        };
        named.iter().all(|named| named.value.expose().is_some())
    }
}

/// An address without what may be a key.
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
        let stdio = ServerLaunch::stdio(ServerId::new("x"), "serve", ["-v"]).with("KEY", canary);
        let url = format!("https://user:{canary}@h.example:8/mcp?key={canary}#{canary}");
        let http = ServerLaunch::http(ServerId::new("y"), url).with("Authorization", canary);
        for launch in [&stdio, &http] {
            let stripped = launch.stripped();
            assert!(!serde_json::to_string(&stripped).unwrap().contains(canary));
            assert!(!format!("{stripped:?}").contains(canary));
            assert_eq!(stripped.stripped(), stripped);
            assert!(launch.is_whole() && !stripped.is_whole());
        }
        assert!(!serde_json::to_string(&stdio).unwrap().contains(canary), "not even unstripped");
        assert!(!format!("{stdio:?}").contains(canary));
        let Reach::Http { url, .. } = http.stripped().reach else { panic!("it is reached otherwise") };
        assert_eq!(url, "https://h.example:8/mcp");
        let back: ServerLaunch = serde_json::from_str(&serde_json::to_string(&stdio).unwrap()).unwrap();
        assert_eq!(back, stdio.stripped());
    }

    #[test]
    fn what_is_confided_is_what_is_stripped_and_no_names() {
        let of = |launch: &ServerLaunch| launch.confided().map(str::to_owned).collect::<Vec<_>>();
        let stdio = ServerLaunch::stdio(ServerId::new("x"), "serve", ["-v"]).with("KEY", "one").with("OTHER", "two");
        assert_eq!(of(&stdio), ["one", "two"]);
        assert!(of(&stdio.stripped()).is_empty());
        let url = "https://me:pass@h.example:8/a@b/mcp?session=s-1&system=a==&bare#last";
        let http = ServerLaunch::http(ServerId::new("y"), url).with("Authorization", "Bearer k");
        assert_eq!(of(&http), ["Bearer k", "me", "pass", "s-1", "a==", "bare", "last"]);
        assert!(of(&http.stripped()).is_empty());
    }

    #[test]
    fn a_value_that_is_written_by_a_person_is_taken() {
        let text = r#"{"id":"x","reach":{"transport":"stdio","command":"c","env":[{"name":"K","value":"v"}]}}"#;
        let launch: ServerLaunch = serde_json::from_str(text).unwrap();
        assert_eq!(launch, ServerLaunch::stdio(ServerId::new("x"), "c", [""; 0]).with("K", "v"));
    }
}
