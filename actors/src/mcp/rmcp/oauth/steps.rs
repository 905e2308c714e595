//! What an attempt to get a token does.

use super::answer::Listener;
use super::attempt::{Outcome, Purpose};
use super::kept::Kept;
use super::metadata::{self, Found};
use super::{Client, clip};
use bob_messages::options::SignInGrant;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, ClientCredentialsConfig, OAuthClientConfig, WWWAuthenticateParams,
};
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// The name under which a client registers itself.
const CLIENT_NAME: &str = "Bob";

/// The redirect of a client that renews a token and is redirected nowhere.
const NO_REDIRECT: &str = "http://127.0.0.1/callback";

/// How often one process asks for more permissions of a server.
const MAX_STEPS: u32 = 3;

/// How long the servers may take for one step, all together.
const STEP_WITHIN: Duration = Duration::from_secs(60);

/// What is done, for errors.
const RENEWING: &str = "cannot renew its token";
const FOR_CLIENT: &str = "gives its client no token";
const SIGNING_IN: &str = "cannot be signed in to";

/// Whether signing in was asked for, which accepts the authorization server that the tool server names now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Yes,
    No,
}

async fn in_time<T>(what: &str, step: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = |_| Err(format!("{what}: it took longer than {} s", STEP_WITHIN.as_secs()));
    timeout(STEP_WITHIN, Box::pin(step)).await.unwrap_or_else(late)
}

impl Client {
    pub(super) async fn perform(&self, purpose: Purpose) -> Outcome {
        match purpose {
            Purpose::Renew => self.renew().await,
            Purpose::Replace { used, status, header } => self.replace(used.as_deref(), status, &header).await.map(Some),
            Purpose::LogIn => self.log_in().await.map(Some),
        }
    }

    async fn renew(&self) -> Outcome {
        let _nor_elsewhere = self.store.lock().await?;
        match self.store.read()? {
            Some(kept) if kept.is_fresh() => Ok(kept.access()),
            Some(kept) if kept.can_renew() => self.renewed(&kept, None).await,
            Some(_) | None => Ok(None),
        }
    }

    async fn replace(&self, used: Option<&str>, status: u16, header: &str) -> Result<String, String> {
        let challenge = Some(header).filter(|header| !header.is_empty());
        let wanted = {
            let _nor_elsewhere = self.store.lock().await?;
            let kept = self.store.read()?;
            let other = kept.as_ref().filter(|kept| kept.is_fresh() && kept.access().as_deref() != used);
            if let Some(token) = other.and_then(Kept::access) {
                return Ok(token);
            }
            if self.sign_in.grant == SignInGrant::ClientCredentials {
                return match status {
                    401 => self.credentials(challenge, Asked::No).await,
                    status => Err(format!("denies its client access (HTTP {status})")),
                };
            }
            if let (401, Some(kept)) = (status, kept.filter(Kept::can_renew))
                && let Some(token) = self.renewed(&kept, challenge).await?
            {
                return Ok(token);
            }
            let wanted = self.wanted(status, header)?;
            if self.port.is_none() {
                if !wanted.is_empty() {
                    // What cannot be written is written later.
                    let _now_or_later = self.store.change(|kept| kept.missed = wanted);
                }
                return Err(self.advice(status));
            }
            wanted
        };
        if status == 403 && self.steps.fetch_add(1, Ordering::Relaxed) >= MAX_STEPS {
            return Err("asks for more permissions again and again".to_owned());
        }
        self.authorize(challenge, wanted, Asked::No).await
    }

    async fn log_in(&self) -> Result<String, String> {
        let nor_elsewhere = self.store.lock().await?;
        // The permissions that a process has missed are in the file.
        self.store.read()?;
        match self.sign_in.grant {
            SignInGrant::ClientCredentials => self.credentials(None, Asked::Yes).await,
            SignInGrant::AuthorizationCode => {
                drop(nor_elsewhere);
                self.authorize(None, Vec::new(), Asked::Yes).await
            }
        }
    }

    /// The permissions to ask for beyond those at hand, which a refusal for lack of them names.
    fn wanted(&self, status: u16, header: &str) -> Result<Vec<String>, String> {
        if status != 403 {
            return Ok(Vec::new());
        }
        let url = Url::parse(&self.address).map_err(|error| error.to_string())?;
        let named = WWWAuthenticateParams::parse(header, &url).scope.unwrap_or_default();
        let named: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
        if named.is_empty() {
            return Err("denies access (HTTP 403) and does not say which permission is missing".to_owned());
        }
        let had = self.store.known().and_then(|kept| kept.credentials).map(|kept| kept.granted_scopes);
        let had: BTreeSet<String> = had.unwrap_or_default().into_iter().collect();
        if named.iter().all(|scope| had.contains(scope)) {
            return Err("denies access (HTTP 403), although its permissions were granted".to_owned());
        }
        Ok(named.into_iter().chain(had).collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// Renews a token, under the lock; `None` if a person has to sign in again.
    async fn renewed(&self, kept: &Kept, challenge: Option<&str>) -> Outcome {
        let failed = |error: &AuthError| self.failed(RENEWING, error);
        let Some(credentials) = &kept.credentials else { return Ok(None) };
        let renewing = async {
            let (mut manager, found) = self.manager(challenge, RENEWING, Asked::No).await?;
            if self.is_elsewhere(&found) {
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
                Ok(_kept) => Ok(self.access()),
                Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
                Err(error) => Err(failed(&error)),
            }
        };
        in_time(RENEWING, renewing).await
    }

    /// Gets a token for the client itself, under the lock.
    async fn credentials(&self, challenge: Option<&str>, asked: Asked) -> Result<String, String> {
        let failed = |error: &AuthError| self.failed(FOR_CLIENT, error);
        let (Some(client_id), Some(client_secret)) = (&self.sign_in.client_id, self.sign_in.client_secret.expose())
        else {
            return Err("needs a `client_id` and a `client_secret` to sign in".to_owned());
        };
        let getting = async {
            let mut manager = self.manager(challenge, FOR_CLIENT, asked).await?.0;
            let config = ClientCredentialsConfig::ClientSecret {
                client_id: client_id.clone(),
                client_secret: client_secret.to_owned(),
                scopes: self.scopes(&manager, Vec::new()).await,
                resource: Some(self.address.clone()),
            };
            manager.validate_client_credentials_metadata(&config).map_err(|error| failed(&error))?;
            manager.configure_client_credentials(&config).map_err(|error| failed(&error))?;
            manager.exchange_client_credentials(&config).await.map_err(|error| failed(&error))
        };
        in_time(FOR_CLIENT, getting).await?;
        self.access().ok_or_else(|| FOR_CLIENT.to_owned())
    }

    /// Has a person sign in.
    async fn authorize(&self, challenge: Option<&str>, wanted: Vec<String>, asked: Asked) -> Result<String, String> {
        let failed = |error: &AuthError| self.failed(SIGNING_IN, error);
        let Some(port) = &self.port else { return Err(self.advice(401)) };
        self.pages.fetch_add(1, Ordering::Relaxed);
        let listener = Listener::open().await?;
        let preparing = async {
            let (mut manager, found) = self.manager(challenge, SIGNING_IN, asked).await?;
            if !found.has_pkce {
                return Err(format!("{SIGNING_IN}: its authorization server does not offer PKCE with S256"));
            }
            let scopes = self.scopes(&manager, wanted).await;
            let secret = self.client(&mut manager, &found, &listener.redirect, &scopes).await?;
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let page = manager.get_authorization_url(&scopes).await.map_err(|error| failed(&error))?;
            Ok((manager, secret, page))
        };
        let (mut manager, secret, page) = in_time(SIGNING_IN, preparing).await?;
        let state = Url::parse(&page)
            .ok()
            .and_then(|page| page.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned()));
        let state = state.ok_or_else(|| format!("{SIGNING_IN}: the page has no state"))?;
        let shown = async {
            match self.panics.catch_in("open", || port.open(&self.server, &page)).await {
                Some(()) => pending().await,
                None => format!("{SIGNING_IN}: the port that shows the page panicked"),
            }
        };
        let callback = tokio::select! { biased;
            answer = listener.answer(&state) => answer.map_err(|why| format!("{SIGNING_IN}: {why}"))?,
            () = self.unwanted.cancelled() => return Err("is not used any longer".to_owned()),
            failed = shown => return Err(failed),
        };
        let _nor_elsewhere = self.store.lock().await?;
        manager.set_credential_store(self.store.saving_with(secret));
        let issuer = callback.issuer.as_deref();
        let exchanged = manager.exchange_code_for_token_with_issuer(&callback.code, &callback.csrf_token, issuer);
        in_time(SIGNING_IN, async { exchanged.await.map_err(|error| failed(&error)) }).await?;
        self.access().ok_or_else(|| "gave no token".to_owned())
    }

    /// Whether it is another authorization server than the one that was signed in to.
    fn is_elsewhere(&self, found: &Found) -> bool {
        self.store.known().and_then(|kept| kept.issuer()).is_some_and(|known| known != found.issuer)
    }

    /// What performs the steps, and what was found of the authorization server. A secret of the configuration does not go to
    /// another one than before, unless signing in was asked for.
    async fn manager(
        &self,
        challenge: Option<&str>,
        what: &str,
        asked: Asked,
    ) -> Result<(AuthorizationManager, Found), String> {
        let failed = |error: &AuthError| self.failed(what, error);
        let address = Url::parse(&self.address).map_err(|error| format!("{what}: {error}"))?;
        // Fails if a provider is installed already, which is fine.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let mut manager = AuthorizationManager::new(address.clone()).await.map_err(|error| failed(&error))?;
        manager.set_credential_store(self.store.saving());
        let resolved = manager.resolve_metadata_from_challenge(challenge).await.map_err(|error| failed(&error))?;
        let found = metadata::found(&resolved, &address)?;
        if asked == Asked::No && self.sign_in.client_secret.expose().is_some() && self.is_elsewhere(&found) {
            let (other, server) = (clip(&found.issuer), &self.server);
            return Err(format!(
                "names another authorization server than before, {other:?}: if that is right, run `cli-agent mcp login {server}`"
            ));
        }
        manager.set_metadata(resolved.metadata);
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

    /// Has the client of a configured name, of the name of its document, or one that registers itself. Returns the secret of
    /// the last.
    async fn client(
        &self,
        manager: &mut AuthorizationManager,
        found: &Found,
        redirect: &str,
        scopes: &[String],
    ) -> Result<Option<String>, String> {
        let failed = |error: &AuthError| self.failed(SIGNING_IN, error);
        let named = match (&self.sign_in.client_id, &self.sign_in.client_metadata_url) {
            (Some(id), _) => Some(id),
            (None, Some(document)) if !Url::parse(document).is_ok_and(|url| url.scheme() == "https") => {
                return Err(format!("{SIGNING_IN}: `client_metadata_url` must begin with https://"));
            }
            (None, Some(document)) if found.takes_documents => Some(document),
            (None, _) => None,
        };
        let Some(id) = named else {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let registered = manager.register_client(CLIENT_NAME, redirect, &scopes).await;
            return Ok(registered.map_err(|error| failed(&error))?.client_secret);
        };
        let client = OAuthClientConfig::new(id.clone(), redirect).with_scopes(scopes.to_vec());
        let client = match self.sign_in.client_secret.expose() {
            Some(secret) => client.with_client_secret(secret),
            None => client,
        };
        manager.configure_client(client).map_err(|error| failed(&error))?;
        // The secret of a configured client is in the configuration, and nowhere else.
        Ok(None)
    }
}
