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
//! | `kept` | the tokens, in memory and in a file |
//! | `answer` | the answer of the browser |

mod answer;
mod kept;

use super::trouble::clip;
use crate::mcp::sign_in::{SignInPort, SignIns};
use crate::secrets::Secrets;
use answer::Listener;
use bob_messages::ids::ServerId;
use bob_messages::options::{ServerSpec, ServerTransport, SignIn, SignInGrant};
use kept::{Kept, Store};
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, ClientCredentialsConfig, OAuthClientConfig, WWWAuthenticateParams,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The name under which a client registers itself.
const CLIENT_NAME: &str = "Bob";

/// The redirect of a client that renews a token and is redirected nowhere.
const NO_REDIRECT: &str = "http://127.0.0.1/callback";

/// How often one process asks for more permissions of a server.
const MAX_STEPS: u32 = 3;

/// A server's refusal of a request.
pub(super) struct Challenge {
    /// 401 or 403.
    pub(super) status: u16,
    /// Its `WWW-Authenticate` header, or nothing.
    pub(super) header: String,
}

/// An authorization server.
struct Found {
    issuer: Option<String>,
    /// Whether the address of a document is a client's name there.
    takes_documents: bool,
}

/// The tokens for one server, shared by all its connections.
pub(in crate::mcp) struct Tokens {
    server: ServerId,
    url: String,
    sign_in: SignIn,
    port: Option<Arc<dyn SignInPort>>,
    store: Store,
    /// Held while a token is got; how often permissions were added.
    steps: Mutex<u32>,
}

impl Tokens {
    /// Of a server that wants its client to sign in.
    pub(in crate::mcp) fn of(spec: &ServerSpec, sign_ins: &SignIns) -> Option<Self> {
        let ServerTransport::Http(http) = &spec.transport else { return None };
        let sign_in = SignIn::clone(http.sign_in.as_ref()?);
        let store = Store::new(sign_ins.folder.as_deref(), &spec.id, &http.url);
        let (server, url, port) = (spec.id.clone(), http.url.clone(), sign_ins.port.clone());
        Some(Self { server, url, sign_in, port, store, steps: Mutex::default() })
    }

    /// Whether a person may have to sign in during a request, for which no limit of a request counts.
    pub(super) fn may_ask(&self) -> bool {
        self.port.is_some()
    }

    /// The token for the next request; `None` if there is none: then the server says what it wants.
    ///
    /// # Errors
    /// When a token that is old cannot be renewed now.
    pub(super) async fn current(&self) -> Result<Option<String>, String> {
        if let Some(kept) = self.store.known().filter(Kept::is_fresh) {
            return Ok(kept.access());
        }
        let _one_at_a_time = self.steps.lock().await;
        let _nor_elsewhere = self.store.lock().await?;
        match self.store.read()? {
            Some(kept) if kept.is_fresh() => Ok(kept.access()),
            Some(kept) if kept.can_renew() => self.renewed(&kept, None).await,
            Some(_) | None => Ok(None),
        }
    }

    /// The token to send a request again with, which was refused with `used`.
    ///
    /// # Errors
    /// Why there is none, with what to do; the text follows the server's name.
    pub(super) async fn after(&self, used: Option<&str>, challenge: &Challenge) -> Result<String, String> {
        let mut steps = self.steps.lock().await;
        let header = Some(challenge.header.as_str()).filter(|header| !header.is_empty());
        {
            let _nor_elsewhere = self.store.lock().await?;
            let kept = self.store.read()?;
            let other = kept.as_ref().filter(|kept| kept.is_fresh() && kept.access().as_deref() != used);
            if let Some(token) = other.and_then(Kept::access) {
                return Ok(token);
            }
            if self.sign_in.grant == SignInGrant::ClientCredentials {
                return match challenge.status {
                    401 => self.credentials(header).await,
                    status => Err(format!("denies its client access (HTTP {status})")),
                };
            }
            if let (401, Some(kept)) = (challenge.status, kept.filter(Kept::can_renew))
                && let Some(token) = self.renewed(&kept, header).await?
            {
                return Ok(token);
            }
        }
        let wanted = self.wanted(challenge)?;
        let Some(port) = &self.port else {
            if !wanted.is_empty() {
                self.store.change(|kept| kept.missed = wanted)?;
            }
            return Err(self.advice(challenge.status));
        };
        if challenge.status == 403 {
            *steps += 1;
            if *steps > MAX_STEPS {
                return Err("asks for more permissions again and again".to_owned());
            }
        }
        self.authorize(&**port, header, wanted).await
    }

    /// The permissions to ask for beyond those at hand, which a refusal for lack of them names.
    fn wanted(&self, challenge: &Challenge) -> Result<Vec<String>, String> {
        if challenge.status != 403 {
            return Ok(Vec::new());
        }
        let url = Url::parse(&self.url).map_err(|error| error.to_string())?;
        let named = WWWAuthenticateParams::parse(&challenge.header, &url).scope.unwrap_or_default();
        let had = self.store.known().and_then(|kept| kept.credentials).map(|kept| kept.granted_scopes);
        let had: BTreeSet<String> = had.unwrap_or_default().into_iter().collect();
        let named: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
        if named.iter().all(|scope| had.contains(scope)) {
            return Err("denies access (HTTP 403), although its permissions were granted".to_owned());
        }
        Ok(named.into_iter().chain(had).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn advice(&self, status: u16) -> String {
        let why = if status == 403 { "needs more permissions" } else { "requires signing in" };
        format!("{why} (HTTP {status}): run `cli-agent mcp login {}`", self.server)
    }

    /// Renews a token, under the lock; `None` if a person has to sign in again.
    async fn renewed(&self, kept: &Kept, challenge: Option<&str>) -> Result<Option<String>, String> {
        let failed = |error: &AuthError| self.failed("cannot renew its token", error);
        let Some(credentials) = &kept.credentials else { return Ok(None) };
        let (mut manager, found) = self.manager(challenge).await.map_err(|error| failed(&error))?;
        if credentials.issuer.is_some() && credentials.issuer != found.issuer {
            return Ok(None);
        }
        let client = OAuthClientConfig::new(credentials.client_id.clone(), NO_REDIRECT);
        let secret = self.sign_in.client_secret.expose().or(kept.client_secret.as_deref());
        let client = match secret {
            Some(secret) => client.with_client_secret(secret),
            None => client,
        };
        manager.configure_client(client).map_err(|error| failed(&error))?;
        match manager.refresh_token().await {
            Ok(_kept) => Ok(self.store.known().and_then(|kept| kept.access())),
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Gets a token for the client itself.
    async fn credentials(&self, challenge: Option<&str>) -> Result<String, String> {
        let failed = |error: &AuthError| self.failed("gives its client no token", error);
        let (Some(client_id), Some(client_secret)) = (&self.sign_in.client_id, self.sign_in.client_secret.expose())
        else {
            return Err("needs a `client_id` and a `client_secret` to sign in".to_owned());
        };
        let (mut manager, _) = self.manager(challenge).await.map_err(|error| failed(&error))?;
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: client_id.clone(),
            client_secret: client_secret.to_owned(),
            scopes: self.scopes(&manager, Vec::new()).await,
            resource: Some(self.url.clone()),
        };
        manager.validate_client_credentials_metadata(&config).map_err(|error| failed(&error))?;
        manager.configure_client_credentials(&config).map_err(|error| failed(&error))?;
        manager.exchange_client_credentials(&config).await.map_err(|error| failed(&error))?;
        self.store.known().and_then(|kept| kept.access()).ok_or_else(|| "gave its client no token".to_owned())
    }

    /// Has a person sign in.
    async fn authorize(
        &self,
        port: &dyn SignInPort,
        challenge: Option<&str>,
        wanted: Vec<String>,
    ) -> Result<String, String> {
        let failed = |error: &AuthError| self.failed("cannot be signed in to", error);
        let listener = Listener::open().await?;
        let (mut manager, found) = self.manager(challenge).await.map_err(|error| failed(&error))?;
        let scopes = self.scopes(&manager, wanted).await;
        let client = self.client(&mut manager, &found, &listener.redirect, &scopes).await;
        let client = client.map_err(|error| failed(&error))?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let page = manager.get_authorization_url(&scopes).await.map_err(|error| failed(&error))?;
        let state = Url::parse(&page)
            .ok()
            .and_then(|page| page.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned()));
        let state = state.ok_or("cannot be signed in to: the page has no state")?;
        let shown = async {
            port.open(&self.server, &page).await;
            pending().await
        };
        let callback = tokio::select! { biased;
            answer = listener.answer(&state) => answer.map_err(|why| format!("cannot be signed in to: {why}"))?,
            never = shown => never,
        };
        let _nor_elsewhere = self.store.lock().await?;
        self.store.change(|kept| kept.client_secret = client.client_secret)?;
        let issuer = callback.issuer.as_deref();
        let exchanged = manager.exchange_code_for_token_with_issuer(&callback.code, &callback.csrf_token, issuer).await;
        exchanged.map_err(|error| failed(&error))?;
        self.store.known().and_then(|kept| kept.access()).ok_or_else(|| "gave no token".to_owned())
    }

    /// What performs the steps, and what was found of the authorization server.
    async fn manager(&self, challenge: Option<&str>) -> Result<(AuthorizationManager, Found), AuthError> {
        // Fails if a provider is installed already, which is fine.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let mut manager = AuthorizationManager::new(self.url.as_str()).await?;
        manager.set_credential_store(self.store.clone());
        let metadata = manager.resolve_metadata_from_challenge(challenge).await?.metadata;
        let takes_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        let takes_documents = takes_documents.and_then(Value::as_bool) == Some(true);
        let found = Found { issuer: metadata.issuer.clone(), takes_documents };
        manager.set_metadata(metadata);
        Ok((manager, found))
    }

    /// The permissions to ask for: the wanted ones, else the configured ones, else those that the server names.
    async fn scopes(&self, manager: &AuthorizationManager, wanted: Vec<String>) -> Vec<String> {
        let missed = self.store.known().map(|kept| kept.missed).unwrap_or_default();
        match [wanted, missed].into_iter().find(|scopes| !scopes.is_empty()) {
            Some(scopes) => {
                self.sign_in.scopes.iter().cloned().chain(scopes).collect::<BTreeSet<_>>().into_iter().collect()
            }
            None if self.sign_in.scopes.is_empty() => manager.select_initial_scopes(&[]).await,
            None => self.sign_in.scopes.clone(),
        }
    }

    /// The client: a configured one, one that is named by its document, or one that registers itself.
    async fn client(
        &self,
        manager: &mut AuthorizationManager,
        found: &Found,
        redirect: &str,
        scopes: &[String],
    ) -> Result<OAuthClientConfig, AuthError> {
        let named = match (&self.sign_in.client_id, &self.sign_in.client_metadata_url) {
            (Some(id), _) => Some(id),
            (None, Some(document)) if found.takes_documents => Some(document),
            (None, _) => None,
        };
        let Some(id) = named else {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            return manager.register_client(CLIENT_NAME, redirect, &scopes).await;
        };
        let client = OAuthClientConfig::new(id.clone(), redirect).with_scopes(scopes.to_vec());
        let client = match self.sign_in.client_secret.expose() {
            Some(secret) => client.with_client_secret(secret),
            None => client,
        };
        manager.configure_client(client)?;
        // The secret of a configured client is in the configuration, and nowhere else.
        Ok(OAuthClientConfig::new(id.clone(), redirect))
    }

    fn failed(&self, what: &str, error: &AuthError) -> String {
        let kept = self.store.known().map(|kept| kept.secrets()).unwrap_or_default();
        let secrets = kept.iter().map(String::as_str).chain(self.sign_in.client_secret.expose());
        format!("{what}: {}", clip(&Secrets::of(secrets).hidden_in(&error.to_string())))
    }

    /// The keys that a server's text may repeat.
    pub(super) fn secrets(&self) -> Vec<String> {
        self.store.known().map(|kept| kept.secrets()).unwrap_or_default()
    }
}

/// Signs in to a server, whether or not there are tokens.
///
/// # Errors
/// Why that is not possible; the text follows the server's name.
pub(in crate::mcp) async fn log_in(spec: &ServerSpec, sign_ins: &SignIns) -> Result<(), String> {
    let tokens = Tokens::of(spec, sign_ins).ok_or("has no `auth` in its configuration")?;
    let _one_at_a_time = tokens.steps.lock().await;
    // The permissions that a process has missed are in the file.
    tokens.store.read()?;
    match (&sign_ins.port, tokens.sign_in.grant) {
        (_, SignInGrant::ClientCredentials) => tokens.credentials(None).await.map(drop),
        (Some(port), SignInGrant::AuthorizationCode) => tokens.authorize(&**port, None, Vec::new()).await.map(drop),
        (None, SignInGrant::AuthorizationCode) => Err(tokens.advice(401)),
    }
}

/// Removes the tokens of a server; returns whether there were any.
///
/// # Errors
/// When they cannot be removed.
pub(in crate::mcp) fn log_out(spec: &ServerSpec, folder: &Path) -> Result<bool, String> {
    match &spec.transport {
        ServerTransport::Http(http) => kept::forget(folder, &spec.id, &http.url),
        ServerTransport::Stdio(_) => Ok(false),
    }
}

#[cfg(test)]
#[path = "oauth_tests.rs"]
mod tests;
