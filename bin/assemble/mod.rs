//! From a configuration to a runtime: each part of what was written becomes the part of the house it means.
//!
//! Owns the translation and nothing else. It reads the prompt files and opens the store's folder; it starts nothing. The
//! front ends use it, and so may an embedder who wants the configuration file's way of saying things.
//!
//! - `model`: providers and keys
//! - `servers`: the programs that serve a provider on this machine
//! - `prompt`: texts and files that stand before the history

mod model;
mod prompt;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bob_actors::llm::{LlmPort, RetryPolicy};
use bob_actors::model_server::Progress;
use bob_actors::store::{FileStore, FileStoreOptions, MemoryStore, SessionStore};
use bob_actors::tools::policy::{Policy, ToolOverride};
use bob_messages::error::AgentError;
use bob_messages::ids::{InvalidId, ModelName};
use bob_messages::llm::ToolModeChoice;
use bob_messages::store::StoreError;
use bob_messages::tools::Risk;
use bob_messages::turn::{Brief, Limits, OnRestart};

use crate::config::{self, Config};
use crate::facade::RuntimeBuilder;

pub use model::{Lookup, model};

/// The parts of a runtime, made from a configuration. Nothing runs yet.
pub struct Assembly {
    /// The model side; it answers at once whether a model's provider is known and has its key.
    pub model: Arc<dyn LlmPort>,
    /// The model turns run on unless they name one.
    pub default_model: ModelName,
    /// Where local tools work and stay, absolute.
    pub workspace: PathBuf,
    /// The builder that has all of it.
    pub builder: RuntimeBuilder,
}

/// What is decided beside the configuration.
#[derive(Clone, Default)]
pub struct Choices {
    /// A store instead of the configured one.
    pub store: Option<Arc<dyn SessionStore>>,
    /// The working folder prompt files are looked up in first; the workspace if `None`.
    pub folder: Option<PathBuf>,
    /// Sees what a local model server says until it is ready.
    pub progress: Option<Progress>,
}

/// Translates a whole configuration. Reads the prompt files and, unless a store is brought, opens the configured one,
/// which blocks for as long as the disk takes.
///
/// # Errors
/// `Invalid` for what only this machine can tell is wrong (a folder or a file that is not there), `Llm` for a provider
/// nobody knows, `Store` when the store cannot be opened.
pub fn assemble(config: &Config, environment: Lookup<'_>, choices: Choices) -> Result<Assembly, AgentError> {
    let workspace = workspace(config)?;
    let default_model = model_name(&config.runtime.default_model)?;
    let addresses = servers::addresses(config);
    let model = model(config, environment, addresses.clone())?;
    let store = match choices.store {
        Some(store) => store,
        None => store(config)?,
    };
    let folder = choices.folder.as_deref().unwrap_or(&workspace);
    let brief = brief(config, default_model.clone(), &workspace, folder)?;
    let retry = RetryPolicy { max: config.llm.retry_max, ..RetryPolicy::default() };
    let builder = RuntimeBuilder::new(default_model.clone());
    let specs = servers::servers(config, choices.progress.as_ref(), builder.watcher())?;
    let builder = builder
        .model(Arc::clone(&model))
        .model_servers(addresses, specs)
        .store(store)
        .brief(brief)
        .limits(limits(config))
        .policy(policy(config))
        .retry(retry)
        .max_concurrent_turns(usize::try_from(config.runtime.max_concurrent_turns).unwrap_or(usize::MAX))
        .passivate_after(Duration::from_millis(config.runtime.passivate_after_ms))
        .shutdown_grace(Duration::from_millis(config.runtime.shutdown_grace_ms));
    Ok(Assembly { model, default_model, workspace, builder })
}

/// Opens the configured store. Blocks for as long as the disk takes.
///
/// # Errors
/// `Unavailable` when its folder cannot be made or opened.
pub fn store(config: &Config) -> Result<Arc<dyn SessionStore>, StoreError> {
    Ok(match config.store.kind {
        config::StoreKind::Memory => Arc::new(MemoryStore::default()),
        config::StoreKind::Json => FileStore::open(&config.resolve(&config.store.path), FileStoreOptions::default())?,
        config::StoreKind::Sqlite => {
            let text = "the store kind \"sqlite\" is not built yet: use \"json\" or \"memory\"";
            return Err(StoreError::Unavailable(text.to_owned()));
        }
    })
}

/// The bounds of a turn.
pub fn limits(config: &Config) -> Limits {
    let runtime = &config.runtime;
    Limits {
        max_steps: runtime.max_steps,
        max_tool_calls: runtime.max_tool_calls,
        max_consecutive_errors: runtime.max_consecutive_errors,
        max_identical_calls: runtime.max_identical_calls,
        max_total_tokens: runtime.max_total_tokens,
        turn_timeout_ms: runtime.turn_timeout_ms,
        tool_timeout_ms: runtime.tool_timeout_ms,
        approval_timeout_ms: runtime.approval_timeout_ms,
    }
}

/// The folder local tools stay inside, absolute and without links.
///
/// # Errors
/// `Invalid` when it is not there or no folder.
pub fn workspace(config: &Config) -> Result<PathBuf, AgentError> {
    let written = config.resolve(&config.policy.workspace);
    existing_folder(&written).map_err(|why| AgentError::Invalid(format!("policy.workspace {why}")))
}

/// A folder that is there, absolute and without links.
///
/// # Errors
/// Why it cannot be used, to be read after the name of the option it was given with.
pub fn existing_folder(path: &Path) -> Result<PathBuf, String> {
    let real =
        path.canonicalize().map_err(|error| format!("{}: {error}; name a folder that exists", path.display()))?;
    if real.is_dir() { Ok(real) } else { Err(format!("{} is not a folder", path.display())) }
}

fn brief(config: &Config, default_model: ModelName, workspace: &Path, folder: &Path) -> Result<Brief, AgentError> {
    let fallback = config.llm.fallback.iter().map(|name| model_name(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(Brief {
        layers: prompt::layers(config, folder)?,
        tool_mode: match config.llm.tool_mode {
            config::ToolMode::Auto => ToolModeChoice::Auto,
            config::ToolMode::Json => ToolModeChoice::Json,
            config::ToolMode::Native => ToolModeChoice::Native,
        },
        fallback: fallback.into(),
        max_history_messages: usize::try_from(config.runtime.max_history_messages).unwrap_or(usize::MAX),
        roots: Arc::from([workspace.to_string_lossy().into_owned()]),
        on_restart: match config.runtime.on_restart {
            config::OnRestart::Report => OnRestart::Report,
            config::OnRestart::Resume => OnRestart::Resume,
        },
        ..Brief::new(default_model)
    })
}

fn policy(config: &Config) -> Policy {
    let rule = |rule: &config::ToolRule| ToolOverride {
        risk: rule.risk.map(|risk| match risk {
            config::Risk::Low => Risk::Low,
            config::Risk::Medium => Risk::Medium,
            config::Risk::High => Risk::High,
        }),
        timeout_ms: rule.timeout_ms,
        idempotent: rule.idempotent,
    };
    Policy {
        allow_tools: config.policy.allow_tools.clone(),
        deny_tools: config.policy.deny_tools.clone(),
        deny_commands: config.policy.deny_commands.clone(),
        max_payload_bytes: usize::try_from(config.policy.max_payload_bytes).unwrap_or(usize::MAX),
        require_high_risk_approval: config.policy.require_high_risk_approval,
        tools: config.tools.iter().map(|(name, said)| (name.clone(), rule(said))).collect(),
    }
}

fn model_name(name: &str) -> Result<ModelName, AgentError> {
    ModelName::parse(name).map_err(|InvalidId(text)| AgentError::Invalid(text))
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
