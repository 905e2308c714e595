//! Real providers, configured in code.

use bob_actors::llm::GenaiLlm;
use bob_actors::llm::providers::{KeySource, ProviderConfig};
use bob_messages::llm::{LlmError, LlmErrorKind};

/// Providers of models over HTTP: those that are built in, with their keys, and others by address.
///
/// Nothing is sent before a model is used; a provider without a key is an error of the request that names its model.
///
/// ```
/// use bob::{ModelName, Providers};
/// use bob::model::LlmPort;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Providers::new()
///     .provider("openai", "sk-not-a-key")
///     .endpoint("lab", "http://127.0.0.1:8000/v1", None)
///     .build()?;
/// assert!(model.capabilities(&ModelName::parse("openai:gpt-4o-mini")?).is_ok());
/// assert!(model.capabilities(&ModelName::parse("lab:some-model")?).is_ok());
/// let error = model.capabilities(&ModelName::parse("anthropic:claude-sonnet-4-5")?).unwrap_err();
/// assert_eq!(error.to_string(), "no key for provider anthropic: set the environment variable ANTHROPIC_API_KEY");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Providers {
    configured: Vec<ProviderConfig>,
    reads_environment: bool,
}

impl Providers {
    /// The built-in providers, without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// The built-in providers with the keys in the environment: `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` and so on, as
    /// [`KNOWN`](crate::model::providers::KNOWN) lists them. They are read by [`build`](Self::build).
    pub fn from_env() -> Self {
        Self { reads_environment: true, ..Self::default() }
    }

    /// Sets the key of a built-in provider.
    #[must_use]
    pub fn provider(self, name: impl Into<String>, key: impl Into<String>) -> Self {
        let key = Some(KeySource::value(key));
        self.configured(ProviderConfig { name: name.into(), key, ..ProviderConfig::default() })
    }

    /// Adds a server that speaks the chat completions of OpenAI, for models named `name:model`. Its models are not
    /// taken to call tools natively; [`configured`](Self::configured) can say that they do.
    #[must_use]
    pub fn endpoint(self, name: impl Into<String>, base_url: impl Into<String>, key: Option<String>) -> Self {
        let key = Some(key.map_or(KeySource::None, KeySource::value));
        let (name, base_url) = (name.into(), Some(base_url.into()));
        self.configured(ProviderConfig { name, base_url, key, ..ProviderConfig::default() })
    }

    /// Adds a provider, or replaces the one of this name.
    #[must_use]
    pub fn configured(mut self, provider: ProviderConfig) -> Self {
        self.configured.retain(|other| other.name != provider.name);
        self.configured.push(provider);
        self
    }

    /// Makes the model port. Keys are read now, once.
    ///
    /// # Errors
    /// `UnknownProvider` for a provider that is neither built in nor has an address; `MissingKey` for a key that is
    /// empty.
    pub fn build(self) -> Result<GenaiLlm, LlmError> {
        if let Some(provider) = self.configured.iter().find(|provider| has_empty_key(provider)) {
            let text = format!("the key of provider {} is empty", provider.name);
            return Err(LlmError::new(LlmErrorKind::MissingKey, text));
        }
        let reads = self.reads_environment;
        GenaiLlm::new(&self.configured, &|name| std::env::var(name).ok().filter(|_| reads))
    }
}

fn has_empty_key(provider: &ProviderConfig) -> bool {
    provider.key.as_ref().is_some_and(KeySource::is_empty)
}
