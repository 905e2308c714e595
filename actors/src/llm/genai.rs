//! Real providers over HTTP. The only files that know genai are this one and those
//! in its folder. Servers of OpenAI's format are reached without it: see `direct`.
//!
//! Every call names its provider's endpoint, wire format and key itself: nothing is guessed from a model's name. Every
//! call streams, so that silence is noticed and an answer without its end marker is never taken for one.

mod clients;
mod direct;
mod errors;
mod pace;
mod render;
mod retry_after;
mod said;
mod silence;
mod stream;
mod tap;
mod wire;

use super::deltas::DeltaSink;
use super::port::{LlmPort, ProviderLimits, Readiness};
use super::providers::{KnownModels, Provider, ProviderConfig, ProviderKind, unknown_provider};
use ::genai::adapter::AdapterKind;
use ::genai::resolver::{AuthData, Endpoint};
use ::genai::{ModelIden, ServiceTarget};
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmRequest};
use clients::{Clients, Way};
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashMap;
use std::sync::Arc;

/// What servers that take no key are sent as one, since their clients must send something.
const NO_KEY: &str = "none";

/// The providers of a configuration and those that are built in.
#[doc(alias = "GenAiLlmAdapter")]
pub struct GenaiLlm {
    clients: Clients,
    tools: direct::Tools,
    providers: HashMap<String, Reached>,
    /// Every key of the configuration; none is ever shown.
    keys: Vec<SecretString>,
    readiness: Option<Arc<dyn Readiness>>,
    models: Option<Arc<dyn KnownModels>>,
}

struct Reached {
    provider: Provider,
    endpoint: Endpoint,
    way: Way,
    /// Where requests go that need no genai.
    direct: Option<reqwest::Url>,
}

/// What one attempt is about; errors and answers speak of it.
struct Attempt<'a> {
    provider: &'a Provider,
    model: &'a ModelName,
    keys: &'a [SecretString],
}

impl GenaiLlm {
    /// The built-in providers and those configured. `environment` looks up a variable; keys are read once, here.
    ///
    /// # Errors
    /// When a provider is neither built in nor has a base URL.
    pub fn new(configured: &[ProviderConfig], environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, LlmError> {
        let named = |provider: Provider| (provider.name.clone(), Reached::new(provider));
        let known = super::providers::KNOWN.iter().filter_map(|known| Provider::known(known.name, environment));
        let mut providers: HashMap<String, Reached> = known.map(named).collect();
        for config in configured {
            providers.extend([named(Provider::resolve(config, environment)?)]);
        }
        let keys = providers.values().filter_map(|reached| reached.provider.key.clone()).collect();
        let (clients, tools) = (Clients::default(), direct::Tools::default());
        Ok(Self { clients, tools, providers, keys, readiness: None, models: None })
    }

    /// Waits at the beginning of each attempt until the provider is ready.
    #[must_use]
    pub fn with_readiness(self, readiness: Arc<dyn Readiness>) -> Self {
        Self { readiness: Some(readiness), ..self }
    }

    /// Takes from there what the configuration does not say of a model.
    #[must_use]
    pub fn with_models(self, models: Arc<dyn KnownModels>) -> Self {
        Self { models: Some(models), ..self }
    }

    fn can(&self, provider: &Provider, model: &ModelName) -> Result<Capabilities, LlmError> {
        let known = self.models.as_ref().and_then(|models| models.abilities(model));
        provider.capabilities_given(model, known.unwrap_or_default())
    }

    fn reached(&self, name: &str) -> Result<&Reached, LlmError> {
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
        let reached = self.reached(model.provider())?;
        let Reached { provider, endpoint, way, direct } = reached;
        let can = self.can(provider, model)?;
        if let Some(readiness) = &self.readiness {
            readiness.ready(&provider.name).await?;
        }
        let moved = self.readiness.as_ref().and_then(|readiness| reached.at_port(readiness.port(&provider.name)?));
        let (endpoint, direct) = moved.as_ref().map_or((endpoint, direct), |(endpoint, direct)| (endpoint, direct));
        let client = self.clients.by(*way)?;
        let attempt = Attempt { provider, model, keys: &self.keys };
        if let Some(address) = direct {
            return direct::ask(&client.http, address, (request, &can, &self.tools), &attempt, deltas).await;
        }
        let tap = Arc::new(tap::Tap::new(provider.kind));
        let options = render::options(provider, request, &can, Arc::clone(&tap));
        let chat = render::chat(provider.kind, request, &can);
        let opened = client.genai.exec_chat_stream(target(endpoint, &attempt), chat, Some(&options)).await;
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
        self.can(&self.reached(model.provider())?.provider, model)
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

    fn key_variable(&self, provider: &str) -> Option<String> {
        let provider = &self.reached(provider).ok()?.provider;
        provider.key_variable.clone().filter(|_| provider.key.is_none())
    }

    fn limits(&self, provider: &str) -> ProviderLimits {
        self.reached(provider).map_or_else(|_| ProviderLimits::default(), |reached| reached.provider.limits)
    }
}

impl Reached {
    fn new(provider: Provider) -> Self {
        let (endpoint, way) = (Endpoint::from_owned(provider.base_url.as_str()), Way::to(&provider.base_url));
        let direct = direct::address(&provider.base_url).filter(|_| provider.kind.has_openais_format());
        Self { provider, endpoint, way, direct }
    }

    /// Where it is reached at another port of the same machine.
    fn at_port(&self, port: u16) -> Option<(Endpoint, Option<reqwest::Url>)> {
        let mut base = reqwest::Url::parse(&self.provider.base_url).ok()?;
        base.set_port(Some(port)).ok()?;
        let direct = direct::address(base.as_str()).filter(|_| self.provider.kind.has_openais_format());
        Some((Endpoint::from_owned(base.as_str()), direct))
    }
}

fn target(endpoint: &Endpoint, attempt: &Attempt<'_>) -> ServiceTarget {
    let Provider { kind, key, .. } = attempt.provider;
    let key = key.as_ref().map_or(NO_KEY, |key| key.expose_secret());
    ServiceTarget {
        endpoint: endpoint.clone(),
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
