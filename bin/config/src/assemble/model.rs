//! The model side of a configuration: which providers there are, and where their keys come from.

use std::sync::Arc;

use bob::AgentError;
use bob::model::catalogue::ModelFacts;
use bob::model::server::ModelServers;
use bob::model::{LlmPort, ProviderLimits, Router, ScriptedLlm};

use crate::{Config, Provider, ProviderKind};

/// Looks up an environment variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Creates one port for all providers, configured and built in. Nothing is sent, and a key is only read when a model
/// of its provider is used.
///
/// # Errors
/// `Invalid` for an unusable script, `Llm` for a provider that is neither built in nor has an address.
pub fn model(config: &Config, environment: Lookup<'_>, servers: ModelServers) -> Result<Arc<dyn LlmPort>, AgentError> {
    knowing(config, environment, servers, None)
}

/// Fails as a runtime would whose turns cannot begin: a script that cannot be read, a default model of a provider that is
/// not known, a rule of a hook that cannot be read. Nothing is sent, and no key is needed.
///
/// # Errors
/// As [`model`]; `Invalid` for a default model that is no name of one.
pub fn check(config: &Config, environment: Lookup<'_>) -> Result<(), AgentError> {
    let default = super::model_name(&config.runtime.default_model)?;
    let model = model(config, environment, super::servers::addresses(config))?;
    super::hooks(config, &bob::config::Watcher::new())?;
    // What a selector selects is not known before its first turn.
    if !default.is_selector() {
        model.capabilities(&default)?;
    }
    Ok(())
}

/// As [`model`], with what the catalogue knows of models where the configuration says nothing.
pub(super) fn knowing(
    config: &Config,
    environment: Lookup<'_>,
    servers: ModelServers,
    facts: Option<Arc<ModelFacts>>,
) -> Result<Arc<dyn LlmPort>, AgentError> {
    let mut router = Router::new();
    for (name, provider) in &config.providers {
        if provider.kind == Some(ProviderKind::Scripted) {
            router = router.with(name, Arc::new(scripted(config, name, provider)?));
        }
    }
    over_http(config, environment, (servers, facts), router)
}

fn scripted(config: &Config, name: &str, provider: &Provider) -> Result<ScriptedLlm, AgentError> {
    let refuse = |why: String| AgentError::Invalid(format!("provider {name}: {why}"));
    let script = provider.script.as_deref().ok_or_else(|| refuse("kind \"scripted\" needs a script".to_owned()))?;
    let path = config.resolve(script);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| refuse(format!("cannot read the script {}: {error}", path.display())))?;
    let scripted = ScriptedLlm::from_json(&text).map_err(|error| refuse(format!("{}: {error}", path.display())))?;
    let known = ProviderLimits::default();
    let limits = ProviderLimits {
        timeout_ms: provider.timeout_ms.unwrap_or(config.llm.timeout_ms),
        max_concurrent: provider.max_concurrent.unwrap_or(known.max_concurrent),
    };
    // Those of a script are the same for each name.
    let any = super::model_name(&format!("{name}:any"))?;
    let capabilities = provider.capabilities.over(scripted.capabilities(&any)?);
    Ok(scripted.with_capabilities(capabilities).with_limits(limits))
}

#[cfg(not(feature = "genai"))]
fn over_http(
    config: &Config,
    _environment: Lookup<'_>,
    _given: (ModelServers, Option<Arc<ModelFacts>>),
    router: Router,
) -> Result<Arc<dyn LlmPort>, AgentError> {
    let scripted = |provider: &Provider| provider.kind == Some(ProviderKind::Scripted);
    match config.providers.iter().find(|(_, provider)| !scripted(provider)) {
        Some((name, _)) => Err(AgentError::Invalid(format!(
            "provider {name}: this program was built without providers over HTTP; build it with the feature \"genai\""
        ))),
        None => Ok(Arc::new(router)),
    }
}

#[cfg(feature = "genai")]
fn over_http(
    config: &Config,
    environment: Lookup<'_>,
    (servers, facts): (ModelServers, Option<Arc<ModelFacts>>),
    router: Router,
) -> Result<Arc<dyn LlmPort>, AgentError> {
    use bob::model::GenaiLlm;
    use bob::model::providers::{KNOWN, ProviderConfig};

    let written = config.providers.iter().filter(|(_, provider)| provider.kind != Some(ProviderKind::Scripted));
    let mut providers: Vec<ProviderConfig> =
        written.map(|(name, provider)| translate(config, name, provider)).collect();
    for known in KNOWN.iter().filter(|known| !config.providers.contains_key(known.name)) {
        // Built in, and still under this configuration's patience.
        let timeout_ms = Some(config.llm.timeout_ms);
        providers.push(ProviderConfig { name: known.name.to_owned(), timeout_ms, ..ProviderConfig::default() });
    }
    let genai = GenaiLlm::new(&providers, environment)?.with_readiness(Arc::new(servers));
    let genai = match facts {
        Some(facts) => genai.with_models(facts),
        None => genai,
    };
    Ok(Arc::new(router.otherwise(Arc::new(genai))))
}

#[cfg(feature = "genai")]
fn translate(config: &Config, name: &str, provider: &Provider) -> bob::model::providers::ProviderConfig {
    use bob::model::providers::{KeySource, ProviderConfig, ProviderKind as Kind};

    ProviderConfig {
        name: name.to_owned(),
        kind: provider.kind.and_then(|kind| match kind {
            ProviderKind::Openai => Some(Kind::OpenAi),
            ProviderKind::Anthropic => Some(Kind::Anthropic),
            ProviderKind::Gemini => Some(Kind::Gemini),
            ProviderKind::Ollama => Some(Kind::Ollama),
            ProviderKind::Scripted => None,
        }),
        base_url: provider.base_url.clone(),
        key: provider.api_key.as_ref().map(|key| KeySource::Value(key.wrapped().clone())),
        timeout_ms: Some(provider.timeout_ms.unwrap_or(config.llm.timeout_ms)),
        max_concurrent: provider.max_concurrent,
        temperature: provider.temperature,
        max_tokens: provider.max_tokens,
        capabilities: provider.capabilities,
    }
}
