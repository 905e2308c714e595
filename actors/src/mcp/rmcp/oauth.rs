//! Tokens for a tool server over HTTP, got with OAuth.
//!
//! A request carries the token that is known. When the server refuses it, the token is renewed, or got by signing in,
//! once however many requests wait for it, and the request is sent again: a refused request has done nothing. Where the
//! authorization server is, and which permissions to ask for, is what the server's refusal says. rmcp performs the steps.
//!
//! No token, code or secret is in an error, an event or a log of this module.
//!
//! | file | contents |
//! |---|---|
//! | `attempt` | one attempt at a time to get a token, for all who wait for one |
//! | `steps` | what an attempt does |
//! | `metadata` | which authorization servers are used |
//! | `kept` | the tokens, in memory and in a file |
//! | `answer` | the answer of the browser |

mod answer;
mod attempt;
mod kept;
mod metadata;
mod steps;

use super::trouble::clip;
use crate::cause::root_cause;
use crate::mcp::sign_in::{SignInPort, SignIns};
use crate::panics::Panics;
use crate::secrets::Secrets;
use attempt::{Attempts, Purpose};
use bob_messages::ids::ServerId;
use bob_messages::options::{ServerSpec, ServerTransport, SignIn};
use kept::{Kept, Store};
use reqwest::Url;
use rmcp::transport::auth::AuthError;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A server's refusal of a request.
pub(super) struct Challenge {
    /// 401 or 403.
    pub(super) status: u16,
    /// Its `WWW-Authenticate` header, or nothing.
    pub(super) header: String,
}

/// The tokens for one server, shared by all its connections. Dropping it ends the wait for a person who signs in; a
/// request to an authorization server is finished.
pub(in crate::mcp) struct Tokens {
    client: Arc<Client>,
    _wanted: DropGuard,
}

struct Client {
    server: ServerId,
    /// The server's address without what may be secret in it.
    address: String,
    sign_in: SignIn,
    port: Option<Arc<dyn SignInPort>>,
    panics: Panics,
    store: Store,
    /// What is secret in the configuration of the server.
    secrets: Secrets,
    attempts: Attempts,
    /// How often a person was asked.
    pages: AtomicU32,
    /// How often permissions were added.
    steps: AtomicU32,
    /// Cancelled when `Tokens` is dropped.
    unwanted: CancellationToken,
}

impl Tokens {
    /// Of a server that wants its client to sign in.
    pub(in crate::mcp) fn of(spec: &ServerSpec, sign_ins: &SignIns) -> Option<Self> {
        let ServerTransport::Http(http) = &spec.transport else { return None };
        let sign_in = SignIn::clone(http.sign_in.as_ref()?);
        let unwanted = CancellationToken::new();
        let client = Client {
            server: spec.id.clone(),
            address: metadata::bare(&http.url),
            sign_in,
            port: sign_ins.port.clone(),
            panics: Panics::of("sign-in"),
            store: Store::new(sign_ins.folder.as_deref(), &spec.id, &http.url),
            secrets: Secrets::of(spec.confided()),
            attempts: Attempts::default(),
            pages: AtomicU32::new(0),
            steps: AtomicU32::new(0),
            unwanted: unwanted.clone(),
        };
        Some(Self { client: Arc::new(client), _wanted: unwanted.drop_guard() })
    }

    /// The token that is known, good or not. Sends no request.
    pub(super) fn known(&self) -> Option<String> {
        self.client.access()
    }

    /// The token for the next request; `None` if there is none: then the server says what it wants.
    pub(super) async fn current(&self) -> Result<Option<String>, String> {
        match self.client.store.known().filter(Kept::is_fresh) {
            Some(kept) => Ok(kept.access()),
            None => self.client.got(&Purpose::Renew).await,
        }
    }

    /// The token to send a request again with, which was refused with `used`.
    /// Errors: why there is none, with what to do; the text follows the server's name.
    pub(super) async fn after(&self, used: Option<&str>, challenge: &Challenge) -> Result<String, String> {
        let (used, header) = (used.map(str::to_owned), challenge.header.clone());
        let purpose = Purpose::Replace { used, status: challenge.status, header };
        self.client.got(&purpose).await?.ok_or_else(|| self.client.advice(challenge.status))
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        self.client.store.known().map(|kept| kept.secrets()).unwrap_or_default()
    }

    /// How often a person was asked to sign in so far.
    pub(in crate::mcp) fn pages(&self) -> u32 {
        self.client.pages.load(Ordering::Relaxed)
    }

    /// Waits for the end of an attempt to get a token that is under way, which has its own time limit.
    pub(in crate::mcp) async fn settled(&self) -> Result<(), String> {
        match self.client.attempts.under_way() {
            Some(outcome) => outcome.await.map(drop),
            None => Ok(()),
        }
    }

    /// Whether a person was asked after the first `pages` times, and there is no good token all the same.
    pub(super) fn was_denied_after(&self, pages: u32) -> bool {
        self.pages() > pages && !self.client.store.known().is_some_and(|kept| kept.is_fresh())
    }
}

impl Client {
    fn access(&self) -> Option<String> {
        self.store.known().and_then(|kept| kept.access())
    }

    fn advice(&self, status: u16) -> String {
        let why = if status == 403 { "needs more permissions" } else { "requires signing in" };
        format!("{why} (HTTP {status}): run `cli-agent mcp login {}`", self.server)
    }

    fn failed(&self, what: &str, error: &AuthError) -> String {
        let (text, cause) = (error.to_string(), root_cause(error).to_string());
        let text = if text.contains(&cause) { text } else { format!("{text}: {cause}") };
        let kept = self.store.known().map(|kept| kept.secrets()).unwrap_or_default();
        let secrets = self.secrets.and(kept.iter().map(String::as_str));
        format!("{what}: {}", clip(&secrets.hidden_in(&text)))
    }
}

/// Signs in to a server, whether or not there are tokens.
/// Errors: why that is not possible; the text follows the server's name.
pub(in crate::mcp) async fn log_in(spec: &ServerSpec, sign_ins: &SignIns) -> Result<(), String> {
    let tokens = Tokens::of(spec, sign_ins).ok_or("has no `auth` in its configuration")?;
    if Url::parse(&tokens.client.address).is_ok_and(|url| !crate::loopback::keeps_secrets(&url)) {
        return Err(super::PLAIN_URL.to_owned());
    }
    tokens.client.got(&Purpose::LogIn).await.map(drop)
}

/// Removes the tokens of a server; returns whether there were any. Waits for another process that renews them.
pub(in crate::mcp) fn log_out(spec: &ServerSpec, folder: &Path) -> Result<bool, String> {
    match &spec.transport {
        ServerTransport::Http(http) => kept::forget(folder, &spec.id, &http.url),
        ServerTransport::Stdio(_) => Ok(false),
    }
}

#[cfg(test)]
#[path = "oauth_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "oauth_safety_tests.rs"]
mod safety_tests;

#[cfg(test)]
#[path = "oauth_attempt_tests.rs"]
mod attempt_tests;
