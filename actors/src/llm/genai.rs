//! Real providers over HTTP. The only files that know genai are this one and those
//! in its folder.
//!
//! Every call names its provider's endpoint, wire format and key itself: nothing is
//! guessed from a model's name. Every call streams, so that silence is noticed and
//! an answer without its end marker is never taken for one.

mod errors;
mod pace;
mod render;
mod retry_after;
mod said;
mod stream;
mod tap;
mod wire;

use super::deltas::DeltaSink;
use super::port::{LlmPort, ProviderLimits, Readiness};
use super::providers::{Provider, ProviderConfig, ProviderKind, unknown_provider};
use crate::loopback::is_loopback_host;
use ::genai::adapter::AdapterKind;
use ::genai::resolver::{AuthData, Endpoint};
use ::genai::{Client, ModelIden, ServiceTarget};
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest};
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How many idle connections are kept per provider.
const IDLE_CONNECTIONS: usize = 256;

/// How long connecting may take at most; the time to the headers includes it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What servers that take no key are sent as one, since their clients must send something.
const NO_KEY: &str = "none";

/// The providers of a configuration and those that are built in.
pub struct GenaiLlm {
    /// Goes through the proxy the environment names, if it names one.
    abroad: Client,
    /// Never goes through a proxy: for servers on this machine.
    home: Client,
    providers: HashMap<String, Provider>,
    readiness: Option<Arc<dyn Readiness>>,
}

/// What one attempt is about; errors and answers speak of it.
struct Attempt<'a> {
    provider: &'a Provider,
    model: &'a ModelName,
    /// Every key of the configuration, none of which is ever shown.
    keys: Vec<&'a SecretString>,
}

impl GenaiLlm {
    /// The built-in providers and those configured. `environment` looks up a variable;
    /// keys are read once, here.
    ///
    /// # Errors
    /// When a provider is neither built in nor has a base URL, or when the HTTP
    /// client cannot be set up.
    pub fn new(configured: &[ProviderConfig], environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, LlmError> {
        let mut providers: HashMap<String, Provider> = super::providers::KNOWN
            .iter()
            .filter_map(|known| Provider::known(known.name, environment))
            .map(|provider| (provider.name.clone(), provider))
            .collect();
        for config in configured {
            providers.insert(config.name.clone(), Provider::resolve(config, environment)?);
        }
        Ok(Self { abroad: client(true)?, home: client(false)?, providers, readiness: None })
    }

    /// Waits at the beginning of each attempt until the provider is ready.
    #[must_use]
    pub fn with_readiness(self, readiness: Arc<dyn Readiness>) -> Self {
        Self { readiness: Some(readiness), ..self }
    }

    fn provider(&self, name: &str) -> Result<&Provider, LlmError> {
        self.providers.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            unknown_provider(name, &names)
        })
    }

    async fn attempt(
        &self,
        request: &LlmRequest,
        model: &ModelName,
        deltas: &DeltaSink,
    ) -> Result<LlmAnswer, LlmError> {
        let provider = self.provider(model.provider())?;
        let can = provider.capabilities(model)?;
        if let Some(readiness) = &self.readiness {
            readiness.ready(&provider.name).await?;
        }
        let keys = self.providers.values().filter_map(|provider| provider.key.as_ref()).collect();
        let attempt = Attempt { provider, model, keys };
        let tap = Arc::new(tap::Tap::new(provider.kind));
        let options = render::options(provider, request, &can, Arc::clone(&tap));
        let is_near = reqwest::Url::parse(&provider.base_url).is_ok_and(|url| is_loopback_host(&url));
        let client = if is_near { &self.home } else { &self.abroad };
        let chat = render::chat(provider.kind, request, &can);
        let opened = client.exec_chat_stream(target(&attempt), chat, Some(&options)).await;
        let stream = opened.map_err(|error| errors::read(error, &attempt))?.stream;
        stream::read(stream, &tap, &attempt, deltas).await
    }
}

impl std::fmt::Debug for GenaiLlm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GenaiLlm").field("providers", &self.providers.keys()).finish_non_exhaustive()
    }
}

impl LlmPort for GenaiLlm {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        self.provider(model.provider())?.capabilities(model)
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let model = model.clone();
        Box::pin(async move { self.attempt(&request, &model, &deltas).await })
    }

    fn limits(&self, provider: &str) -> ProviderLimits {
        self.provider(provider).map_or_else(|_| ProviderLimits::default(), |provider| provider.limits)
    }
}

fn client(proxies: bool) -> Result<Client, LlmError> {
    // Whoever comes second finds a provider installed, which is as good.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .connect_timeout(CONNECT_TIMEOUT)
        // Unpacked bytes could not be bounded: a few packed ones may become any number.
        .no_gzip()
        .redirect(reqwest::redirect::Policy::none());
    let builder = if proxies { builder } else { builder.no_proxy() };
    let failed = |why: String| LlmError::new(LlmErrorKind::Unavailable, format!("the HTTP client cannot start: {why}"));
    let http = builder.build().map_err(|error| failed(error.to_string()))?;
    Client::builder().with_reqwest(http).build().map_err(|_holds_details| failed("its setup was refused".into()))
}

fn target(attempt: &Attempt<'_>) -> ServiceTarget {
    let Provider { kind, base_url, key, .. } = attempt.provider;
    let key = key.as_ref().map_or(NO_KEY, |key| key.expose_secret());
    ServiceTarget {
        endpoint: Endpoint::from_owned(base_url.as_str()),
        auth: AuthData::from_single(key),
        model: ModelIden::new(adapter(*kind), attempt.model.model()),
    }
}

fn adapter(kind: ProviderKind) -> AdapterKind {
    match kind {
        // Ollama's own format has no end marker that a cut stream would lack.
        ProviderKind::OpenAi | ProviderKind::Ollama => AdapterKind::OpenAI,
        ProviderKind::Anthropic => AdapterKind::Anthropic,
        ProviderKind::Gemini => AdapterKind::Gemini,
        ProviderKind::DeepSeek => AdapterKind::DeepSeek,
        ProviderKind::Groq => AdapterKind::Groq,
        ProviderKind::Xai => AdapterKind::Xai,
        ProviderKind::Mistral => AdapterKind::Mistral,
        ProviderKind::OpenRouter => AdapterKind::OpenRouter,
        ProviderKind::Together => AdapterKind::Together,
        ProviderKind::Fireworks => AdapterKind::Fireworks,
        ProviderKind::Moonshot => AdapterKind::Moonshot,
    }
}
