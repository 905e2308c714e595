//! Maps a configuration onto a `RuntimeBuilder`.
//!
//! It opens the store's folder and starts nothing. The front ends use it, and so can embedding programs that want to
//! support the configuration file.
//!
//! - `catalogue`: prices, capabilities and selectors of models
//! - `model`: providers and keys
//! - `servers`: the programs that serve a provider on this machine
//! - `tool_servers`: the tool servers
//! - `taped`: the tape, and the secrets kept off it
//! - `prompt`: texts and files before the history; the files are read for each turn
//! - `hooks`: programs that are run at points of a turn
//! - `protection`: files that local tools do not touch
//! - `skills`: folders of skills

mod catalogue;
mod hooks;
mod model;
mod prompt;
mod protection;
mod servers;
#[cfg(feature = "skills")]
mod skills;
mod taped;
#[cfg(feature = "mcp")]
mod tool_servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bob::config::{CondenseRules, PromptFiles, TurnConfig};
use bob::model::catalogue::Catalogue;
use bob::model::server::ProgressListener;
use bob::model::{LlmPort, RetryPolicy};
use bob::sessions::InvalidId;
use bob::sessions::PoolName;
use bob::store::{FileStore, Made, Marked, MemoryStore, Pools, SessionStore, StoreError, StoreOptions};
use bob::tools::Policy;
#[cfg(feature = "mcp")]
use bob::tools::servers::{ServerSpec, SignIns};
use bob::{AgentError, ModelName};

use crate::{Config, builtin};
use bob::RuntimeBuilder;
use bob::approvals::{ApprovalMemory, ApprovalPort};

pub use catalogue::facts as model_facts;
pub use hooks::{hooks, program_of_hook};
pub use model::{Lookup, check, model};
pub use prompt::files as prompt_files;
pub use protection::{protection, sandbox};
#[cfg(feature = "skills")]
pub use skills::{git_skills, skills, skills_cache};
pub use taped::{Opened, TapeChoice, redactor};
#[cfg(feature = "mcp")]
pub use tool_servers::{sign_ins, tool_servers};

/// The parts of a runtime, made from a configuration. Nothing runs yet.
pub struct Assembly {
    /// The model port; it reports synchronously whether a model's provider is known and has its key.
    pub model: Arc<dyn LlmPort>,
    /// The catalogue of models.
    pub catalogue: Arc<Catalogue>,
    /// The model turns run on unless they name one.
    pub default_model: ModelName,
    /// Where local tools work and stay, absolute.
    pub workspace: PathBuf,
    /// The builder that has all of it.
    pub builder: RuntimeBuilder,
    /// The tape, if there is one.
    pub tape: Option<Opened>,
}

/// Records a store outside of it when it is made.
#[derive(Clone)]
pub struct Recorder {
    /// Called with the file of a database before it has its name.
    pub made: Made,
    /// Called with the mark of a folder of journals before it gets its identity.
    pub marked: Marked,
}

/// Choices that are not part of the configuration.
#[derive(Clone, Default)]
pub struct Choices {
    /// A store instead of the configured one.
    pub store: Option<Arc<dyn SessionStore>>,
    /// Receives the output of a local model server until it is ready.
    pub progress: Option<ProgressListener>,
    /// Port for questions to a person; `None` declines them.
    pub approvals: Option<Arc<dyn ApprovalPort>>,
    /// Store of lasting decisions about tools; with `None` they are limited to their session.
    pub memory: Option<Arc<dyn ApprovalMemory>>,
    /// Continue if a required tool server does not start, for commands that only inspect servers.
    pub spares_servers: bool,
    /// Whether to take sessions from other living processes, see [`StoreOptions::take_over`].
    pub take_over: bool,
    /// Called when the configured store is made.
    pub recorder: Option<Recorder>,
    /// Files and folders of the agent's own that the configuration does not name, absolute: local tools do not read them.
    pub private: Vec<PathBuf>,
    /// The tape to record or replay.
    pub tape: Option<TapeChoice>,
}

/// Maps a whole configuration. Unless a store is given, opens the configured one, which blocks on the disk.
///
/// # Errors
/// `Invalid` for errors that depend on this machine (a missing folder or file), `Llm` for an unknown provider,
/// `Store` when the store cannot be opened.
pub fn assemble(config: &Config, environment: Lookup<'_>, choices: Choices) -> Result<Assembly, AgentError> {
    let workspace = workspace(config)?;
    let default_model = model_name(&config.runtime.default_model)?;
    if let Some(cache) = config.files().cache.as_deref().filter(|_| config.source.has_scripts) {
        let cannot = |error| AgentError::Invalid(format!("cannot write the scripts of the local model: {error}"));
        builtin::write_scripts(cache).map_err(cannot)?;
    }
    let addresses = servers::addresses(config);
    let open = |choice: &TapeChoice| taped::open(choice, config, environment);
    let is_replay = |choice: &&TapeChoice| matches!(choice, TapeChoice::Replay(_));
    let replayed = choices.tape.as_ref().filter(is_replay).map(open).transpose()?;
    let (facts, model) = match &replayed {
        Some(Opened::Replaying(tape)) => (catalogue::kept(config), tape.model()),
        Some(Opened::Recording(_)) | None => {
            let facts = catalogue::facts(config);
            let model = model::knowing(config, environment, addresses.clone(), Some(Arc::clone(&facts)))?;
            (facts, model)
        }
    };
    let catalogue = Catalogue::new(facts, Arc::clone(&model));
    let store = match choices.store {
        Some(store) => store,
        None => store_telling(config, choices.take_over, choices.recorder)?,
    };
    let turn_config = turn_config(config, default_model.clone(), &workspace)?;
    let retry = RetryPolicy { max: config.llm.retry_max, ..RetryPolicy::default() };
    let builder = RuntimeBuilder::new(default_model.clone());
    let specs = servers::servers(config, choices.progress.as_ref(), builder.watcher())?;
    let hooks = hooks(config, builder.watcher())?;
    let builder = builder
        .model(Arc::clone(&model))
        .models(catalogue.clone())
        .model_servers(addresses, specs)
        .store(store)
        .turn_config(turn_config)
        .prompt_files(match choices.tape {
            // A recording would not be found again on another day.
            Some(_) => PromptFiles { tells_facts: false, ..prompt::files(config, &workspace) },
            None => prompt::files(config, &workspace),
        })
        .limits(config.runtime.limits)
        .policy(Policy { tools: config.tools.clone(), ..config.policy.rules.clone() })
        .protection(protection(config, choices.private))
        .retry(retry)
        .max_concurrent_turns(usize::try_from(config.runtime.max_concurrent_turns).unwrap_or(usize::MAX))
        .max_parallel_subagents(config.runtime.max_parallel_subagents)
        .passivate_after(Duration::from_millis(config.runtime.passivate_after_ms))
        .shutdown_grace(Duration::from_millis(config.runtime.shutdown_grace_ms));
    let builder = choices.approvals.into_iter().fold(builder, RuntimeBuilder::approvals);
    let builder = choices.memory.into_iter().fold(builder, RuntimeBuilder::approval_memory);
    let builder = hooks.into_iter().fold(builder, RuntimeBuilder::hook_programs);
    let builder = with_skills(builder, config)?;
    let agents = config.subagents.iter().map(crate::SubAgent::agent).collect::<Result<Vec<_>, _>>()?;
    let builder = agents.into_iter().fold(builder, RuntimeBuilder::subagent);
    let builder = with_tenants(builder, config);
    let builder = with_tool_servers(builder, config, choices.spares_servers)?;
    // A recording brings its tools.
    let offers_web = config.policy.web_fetch && replayed.is_none();
    let builder = if offers_web { with_web(builder)? } else { builder };
    let tape = match (replayed, &choices.tape) {
        (None, Some(choice)) => {
            // Fails before anything is written if the model cannot be called; what a selector selects is not known yet.
            if !default_model.is_selector() {
                catalogue.around(Arc::clone(&model)).capabilities(&default_model)?;
            }
            Some(open(choice)?)
        }
        (replayed, _) => replayed,
    };
    let builder = match &tape {
        Some(Opened::Recording(recorder)) => builder.record(recorder),
        Some(Opened::Replaying(tape)) => builder.replay(tape),
        None => builder,
    };
    Ok(Assembly { model: catalogue.around(model), catalogue, default_model, workspace, builder, tape })
}

/// The limits of tenants; `*` is every other one.
fn with_tenants(builder: RuntimeBuilder, config: &Config) -> RuntimeBuilder {
    config.tenants.iter().fold(builder, |builder, (tenant, limits)| match tenant.as_str() {
        "*" => builder.tenant_limits(*limits),
        name => builder.limits_of_tenant(name, *limits),
    })
}

#[cfg(feature = "web")]
#[expect(clippy::unnecessary_wraps, reason = "a program without the tool refuses it")]
fn with_web(builder: RuntimeBuilder) -> Result<RuntimeBuilder, AgentError> {
    Ok(builder.tools(bob::tools::web_fetch()))
}

#[cfg(not(feature = "web"))]
fn with_web(_builder: RuntimeBuilder) -> Result<RuntimeBuilder, AgentError> {
    let text = "[policy] web_fetch needs the cargo feature `web`, which this program was built without";
    Err(AgentError::Invalid(text.to_owned()))
}

#[cfg(feature = "mcp")]
fn with_tool_servers(builder: RuntimeBuilder, config: &Config, are_spared: bool) -> Result<RuntimeBuilder, AgentError> {
    let specs = tool_servers(config)?.into_iter();
    let specs = specs.map(|spec| ServerSpec { required: spec.required && !are_spared, ..spec });
    let crate::McpPool { idle_ttl_ms, max_processes } = config.mcp.pool;
    let unused = Duration::from_millis(idle_ttl_ms);
    let builder = builder.server_pool(unused, max_processes).brought_servers_end_after(unused);
    let builder = builder.sign_ins(SignIns { folder: sign_ins(config), port: None });
    Ok(specs.fold(builder, RuntimeBuilder::tool_server))
}

#[cfg(not(feature = "mcp"))]
fn with_tool_servers(builder: RuntimeBuilder, config: &Config, _none: bool) -> Result<RuntimeBuilder, AgentError> {
    match config.mcp.servers.first() {
        Some(server) => {
            let text = "needs the cargo feature `mcp`, which this program was built without";
            Err(AgentError::Invalid(format!("the tool server {} {text}", server.id)))
        }
        None => Ok(builder),
    }
}

#[cfg(feature = "skills")]
#[expect(clippy::unnecessary_wraps, reason = "a program without skills refuses them")]
fn with_skills(builder: RuntimeBuilder, config: &Config) -> Result<RuntimeBuilder, AgentError> {
    let with = |builder: RuntimeBuilder, folders| builder.skills(Arc::new(folders), config.skills.rules.clone());
    Ok(skills(config).into_iter().fold(builder, with))
}

#[cfg(not(feature = "skills"))]
fn with_skills(builder: RuntimeBuilder, config: &Config) -> Result<RuntimeBuilder, AgentError> {
    match config.skills.sources.first() {
        Some(source) => {
            let text = "needs the cargo feature `skills`, which this program was built without";
            let named = source.url.as_ref().or(source.path.as_ref()).map_or("", String::as_str);
            Err(AgentError::Invalid(format!("the source of skills {named} {text}")))
        }
        None => Ok(builder),
    }
}

/// Opens the configured store for a command that runs no turns, and changes sessions of all pools; `take_over` as in
/// [`StoreOptions::take_over`]. Blocks on the disk. The recorder is called when a change makes the store.
///
/// # Errors
/// `Unavailable` when it cannot be created or opened, or when `store.path` does not match `store.kind`; `TooNew` and
/// `Corrupt` as reported by the store.
pub fn store(
    config: &Config,
    take_over: bool,
    recorder: Option<Recorder>,
) -> Result<Arc<dyn SessionStore>, StoreError> {
    open_store(config, take_over, recorder, Pools::All, false)
}

/// Opens the store for a process of the configured pools. The recorder is called when the store is made, a folder of journals
/// at once.
///
/// # Errors
/// As [`store`].
pub fn store_telling(
    config: &Config,
    take_over: bool,
    recorder: Option<Recorder>,
) -> Result<Arc<dyn SessionStore>, StoreError> {
    let pools = config.runtime.pools.iter().map(|name| PoolName::parse(name)).collect::<Result<Pools, _>>();
    open_store(config, take_over, recorder, pools.map_err(|error| StoreError::Unavailable(error.to_string()))?, true)
}

fn open_store(
    config: &Config,
    take_over: bool,
    recorder: Option<Recorder>,
    pools: Pools,
    identifies: bool,
) -> Result<Arc<dyn SessionStore>, StoreError> {
    // What another terminal tells its user.
    let owner_name = format!("cli-agent (process {})", std::process::id());
    // A folder of journals is never taken over, and with this the error says so: no one is told to try.
    let take_over = take_over || config.store.kind == crate::StoreKind::Json;
    let options = StoreOptions { take_over, owner_name, pools };
    if config.store.kind == crate::StoreKind::Postgres {
        return database(config, options);
    }
    let in_memory = |options: StoreOptions| MemoryStore::in_pools(options.pools);
    let Some(path) = config.store_path() else { return Ok(in_memory(options)) };
    match config.store.kind {
        crate::StoreKind::Memory | crate::StoreKind::Postgres => Ok(in_memory(options)),
        crate::StoreKind::Json if path.is_file() => Err(StoreError::Unavailable(format!(
            "store.path {} is a file, and store.kind = \"json\" keeps its journals in a folder; name a folder, or set \
             store.kind = \"sqlite\"",
            path.display()
        ))),
        crate::StoreKind::Json => {
            let mut entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            let is_new = !entries.any(|entry| entry.file_name().to_string_lossy().contains(".jsonl"));
            let identifies = identifies && is_new && recorder.is_some();
            let store = FileStore::open_telling(&path, options, recorder.map(|recorder| recorder.marked))?;
            if identifies {
                let _made_by_the_first_claim = store.identify();
            }
            Ok(store)
        }
        crate::StoreKind::Sqlite if path.is_dir() => Err(StoreError::Unavailable(format!(
            "store.path {} is a folder, and store.kind = \"sqlite\" is one file; name a file, for example {}, or set \
             store.kind = \"json\"",
            path.display(),
            path.join("sessions.db").display()
        ))),
        #[cfg(feature = "sqlite")]
        crate::StoreKind::Sqlite => {
            Ok(bob::store::SqliteStore::open_telling(&path, options, recorder.map(|recorder| recorder.made))?)
        }
        // The check of the configuration refuses it first.
        #[cfg(not(feature = "sqlite"))]
        crate::StoreKind::Sqlite => {
            Err(StoreError::Unavailable("this program was built without sqlite; use store.kind = \"json\"".to_owned()))
        }
    }
}

#[cfg(feature = "postgres")]
fn database(config: &Config, options: StoreOptions) -> Result<Arc<dyn SessionStore>, StoreError> {
    let url = config.store.url.as_ref().map_or("", crate::Secret::expose);
    Ok(bob::store::PostgresStore::open(url, options)?)
}

/// The check of the configuration refuses it first.
#[cfg(not(feature = "postgres"))]
fn database(_config: &Config, _options: StoreOptions) -> Result<Arc<dyn SessionStore>, StoreError> {
    Err(StoreError::Unavailable("this program was built without postgres; use another store.kind".to_owned()))
}

/// The folder local tools stay inside, absolute and without links.
///
/// # Errors
/// `Invalid` when it is not there or no folder.
pub fn workspace(config: &Config) -> Result<PathBuf, AgentError> {
    let written = config.resolve(&config.policy.workspace);
    existing_folder(&written).map_err(|why| AgentError::Invalid(format!("policy.workspace {why}")))
}

/// An existing folder, absolute and without links.
pub fn existing_folder(path: &Path) -> Result<PathBuf, String> {
    let real =
        path.canonicalize().map_err(|error| format!("{}: {error}; name a folder that exists", path.display()))?;
    if real.is_dir() { Ok(real) } else { Err(format!("{} is not a folder", path.display())) }
}

fn turn_config(config: &Config, default_model: ModelName, workspace: &Path) -> Result<TurnConfig, AgentError> {
    let fallback = config.llm.fallback.iter().map(|name| model_name(name)).collect::<Result<Vec<_>, _>>()?;
    let condense_model = Some(config.prompt.condense_model.as_str()).filter(|name| !name.is_empty());
    let condense_model = condense_model.map(model_name).transpose()?;
    Ok(TurnConfig {
        tool_mode: config.llm.tool_mode,
        fallback: fallback.into(),
        context_percent: percent(config.prompt.condense_trigger_ratio),
        condense: Some(CondenseRules {
            target_percent: percent(config.prompt.condense_target_ratio),
            model: condense_model,
        }),
        max_history_messages: config.runtime.max_history_messages,
        roots: Arc::from([workspace.to_string_lossy().into_owned()]),
        on_restart: config.runtime.on_restart,
        ..TurnConfig::new(default_model)
    })
}

/// A ratio in whole percent; the configuration allows values between 0 and 1.
fn percent(ratio: f64) -> u32 {
    (0..=100)
        .min_by(|a, b| (f64::from(*a) / 100.0 - ratio).abs().total_cmp(&(f64::from(*b) / 100.0 - ratio).abs()))
        .unwrap_or(0)
}

fn model_name(name: &str) -> Result<ModelName, AgentError> {
    ModelName::parse(name).map_err(|InvalidId(text)| AgentError::Invalid(text))
}

#[cfg(test)]
mod assemble_tests;
