//! The providers: what is built in, what the configuration adds or overrides, and what their models can do.
//!
//! Pure data: nothing here opens a connection, and the environment is a function that is passed in.

mod known;
mod profiles;

use super::port::ProviderLimits;
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmError, LlmErrorKind};
pub use known::{KNOWN, KnownProvider};
use secrecy::{ExposeSecret, SecretString};

/// The wire format of a provider. Providers that speak OpenAI's with deviations of their own have a kind of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI chat completions, which most local servers speak, too.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// A local Ollama, by its OpenAI-compatible side.
    Ollama,
    /// DeepSeek.
    DeepSeek,
    /// Groq.
    Groq,
    /// xAI.
    Xai,
    /// Mistral.
    Mistral,
    /// OpenRouter.
    OpenRouter,
    /// Together.
    Together,
    /// Fireworks.
    Fireworks,
    /// Moonshot.
    Moonshot,
}

#[cfg(feature = "genai")]
impl ProviderKind {
    /// Whether its requests and answers are OpenAI's chat completions. Such providers are reached without genai.
    pub(crate) fn has_openais_format(self) -> bool {
        match self {
            Self::Anthropic | Self::Gemini => false,
            Self::OpenAi
            | Self::Ollama
            | Self::DeepSeek
            | Self::Groq
            | Self::Xai
            | Self::Mistral
            | Self::OpenRouter
            | Self::Together
            | Self::Fireworks
            | Self::Moonshot => true,
        }
    }
}

/// Where a provider's key comes from.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// From the configuration itself.
    Value(SecretString),
    /// From this environment variable.
    Env(String),
    /// It needs none.
    None,
}

impl KeySource {
    /// This key. Texts of errors and events never show it.
    pub fn value(key: impl Into<String>) -> Self {
        Self::Value(SecretString::from(key.into()))
    }

    /// Whether it is a key without a character.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Value(key) if key.expose_secret().trim().is_empty())
    }
}

/// What the configuration says of one provider; what it leaves open comes from the
/// built-in provider of the same name, else from the defaults.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfig {
    /// Its name: the part of a model name before the colon.
    pub name: String,
    /// Its wire format; OpenAI's by default.
    pub kind: Option<ProviderKind>,
    /// Its base URL, with or without the slash at the end.
    pub base_url: Option<String>,
    /// Its key; none by default.
    pub key: Option<KeySource>,
    /// How long it may take to its headers and be silent in a stream, in milliseconds; 30 000 by default.
    pub timeout_ms: Option<u64>,
    /// How many calls it may have at once; any number by default.
    pub max_concurrent: Option<usize>,
    /// The temperature of every request; the provider's own by default.
    pub temperature: Option<f64>,
    /// The most tokens of an answer; the provider's own by default.
    pub max_tokens: Option<u32>,
    /// What is known better than the built-in profiles know.
    pub capabilities: CapabilityOverrides,
}

/// What is known of single models beside the built-in profiles: the catalogue.
pub trait KnownModels: Send + Sync + 'static {
    /// What is known of this model; what is `None` is not known.
    fn abilities(&self, model: &ModelName) -> Option<CapabilityOverrides>;
}

/// Abilities as the configuration states them; what is `None` comes from the profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CapabilityOverrides {
    /// Takes tools and answers with calls.
    pub native_tools: Option<bool>,
    /// Takes a JSON schema for its answer.
    pub json_schema: Option<bool>,
    /// Takes a system message.
    pub system_role: Option<bool>,
    /// The size of its context in tokens.
    pub context_tokens: Option<u32>,
    /// Takes pictures.
    pub images: Option<bool>,
    /// Takes sound.
    pub audio: Option<bool>,
}

impl CapabilityOverrides {
    /// What is said here, and the rest of what was known before.
    #[must_use]
    pub fn over(self, known: Capabilities) -> Capabilities {
        let Capabilities { native_tools, json_schema, system_role, context_tokens, images, audio } = known;
        Capabilities {
            native_tools: self.native_tools.unwrap_or(native_tools),
            json_schema: self.json_schema.unwrap_or(json_schema),
            system_role: self.system_role.unwrap_or(system_role),
            context_tokens: self.context_tokens.unwrap_or(context_tokens),
            images: self.images.unwrap_or(images),
            audio: self.audio.unwrap_or(audio),
        }
    }
}

/// A provider as it is used: every question answered.
#[derive(Debug, Clone)]
pub struct Provider {
    /// Its name.
    pub name: String,
    /// Its wire format.
    pub kind: ProviderKind,
    /// Its base URL, ending in `/`.
    pub base_url: String,
    /// Its key, when it needs one and has one.
    pub key: Option<SecretString>,
    /// The environment variable its key is looked for in.
    pub key_variable: Option<String>,
    /// What it is allowed.
    pub limits: ProviderLimits,
    /// The temperature of every request.
    pub temperature: Option<f64>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Whether the built-in profiles speak of its models.
    profiled: bool,
    overrides: CapabilityOverrides,
}

impl Provider {
    /// Resolves what the configuration says; `environment` looks a variable up.
    ///
    /// # Errors
    /// `UnknownProvider` when the provider is not built in and has no base URL.
    pub fn resolve(config: &ProviderConfig, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, LlmError> {
        let known = known::known(&config.name);
        let Some(base_url) = config.base_url.as_deref().or(known.map(|known| known.base_url)) else {
            let name = &config.name;
            return Err(unknown(format!("provider {name:?} is not built in: give [providers.{name}] a base_url")));
        };
        let key = config.key.clone().or_else(|| Some(KeySource::Env(known?.key_variable?.to_owned())));
        let (key, key_variable) = match key {
            Some(KeySource::Value(key)) => (Some(key), None),
            Some(KeySource::Env(name)) => {
                let value = environment(&name).filter(|value| !value.trim().is_empty());
                (value.map(|value| SecretString::from(value.trim())), Some(name))
            }
            Some(KeySource::None) | None => (None, None),
        };
        let defaults = ProviderLimits::default();
        Ok(Self {
            name: config.name.clone(),
            kind: config.kind.or(known.map(|known| known.kind)).unwrap_or(ProviderKind::OpenAi),
            base_url: format!("{}/", base_url.trim_end_matches('/')),
            key,
            key_variable,
            limits: ProviderLimits {
                timeout_ms: config.timeout_ms.unwrap_or(defaults.timeout_ms),
                max_concurrent: config.max_concurrent.unwrap_or(defaults.max_concurrent),
            },
            temperature: config.temperature,
            max_tokens: config.max_tokens,
            profiled: known.is_some() || config.kind.is_some_and(|kind| kind != ProviderKind::OpenAi),
            overrides: config.capabilities,
        })
    }

    /// A built-in provider without any configuration.
    pub fn known(name: &str, environment: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        known::known(name)?;
        Self::resolve(&ProviderConfig { name: name.to_owned(), ..ProviderConfig::default() }, environment).ok()
    }

    /// What a model of this provider can do: its profile under the overrides. Of an
    /// unknown server, only the least is assumed.
    ///
    /// # Errors
    /// `MissingKey`, naming the variable, when the key is not set.
    pub fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        self.capabilities_given(model, CapabilityOverrides::default())
    }

    /// As [`capabilities`](Self::capabilities), with what the catalogue knows of the model: more than the built-in
    /// profiles, and less than the configuration.
    ///
    /// # Errors
    /// As there.
    pub fn capabilities_given(&self, model: &ModelName, known: CapabilityOverrides) -> Result<Capabilities, LlmError> {
        if let (None, Some(variable)) = (&self.key, &self.key_variable) {
            let text = format!("no key for provider {}: set the environment variable {variable}", self.name);
            return Err(LlmError::new(LlmErrorKind::MissingKey, text));
        }
        let profile = match self.profiled {
            true => profiles::profile(self.kind, model.model()),
            false => Capabilities::default(),
        };
        let known = CapabilityOverrides {
            // A local server keeps a smaller context than its model could.
            context_tokens: known.context_tokens.filter(|_| self.kind != ProviderKind::Ollama),
            // A schema is only sent in formats that have a place for it.
            json_schema: known.json_schema.filter(|_| profiles::takes_schemas(self.kind)),
            ..known
        };
        Ok(self.overrides.over(known.over(profile)))
    }
}

#[cfg(feature = "genai")]
pub(super) fn unknown_provider(name: &str, configured: &[&str]) -> LlmError {
    let mut names: Vec<&str> = KNOWN.iter().map(|known| known.name).chain(configured.iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    unknown(format!("provider {name:?} is not known: use one of {}, or add [providers.{name}]", names.join(", ")))
}

fn unknown(text: String) -> LlmError {
    LlmError::new(LlmErrorKind::UnknownProvider, text)
}

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
