//! The providers this configuration starts itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bob::AgentError;
use bob::config::{ChildSpec, Watcher};
use bob::model::server::{Endpoint, ModelServerSpec, ModelServers, ProgressListener};

use crate::{Config, Provider, Start};

pub(super) fn addresses(config: &Config) -> ModelServers {
    let started = config.providers.iter().filter(|(_, provider)| provider.start.is_some());
    ModelServers::new(started.map(|(name, _)| name.clone()))
}

/// One server for each provider with a start command. Nothing is started.
pub(super) fn servers(
    config: &Config,
    progress: Option<&ProgressListener>,
    watcher: &Watcher,
) -> Result<Vec<ModelServerSpec>, AgentError> {
    let started =
        config.providers.iter().filter_map(|(name, provider)| Some((name, provider, provider.start.as_ref()?)));
    started.map(|(name, provider, start)| server(config, (name, provider, start), progress, watcher)).collect()
}

fn server(
    config: &Config,
    (name, provider, start): (&str, &Provider, &Start),
    progress: Option<&ProgressListener>,
    watcher: &Watcher,
) -> Result<ModelServerSpec, AgentError> {
    let refuse = |why: String| AgentError::Invalid(format!("provider {name}: {why}"));
    let base_url = provider.base_url.as_deref().ok_or_else(|| refuse("`start` needs a base_url".to_owned()))?;
    let endpoint = Endpoint::parse(base_url).map_err(|error| refuse(error.to_string()))?;
    let folder = folder(config.folder_of_provider(name));
    let named = start.env.iter().map(|(name, value)| (name.into(), value.expose().into()));
    let env = inherited(&start.inherit_env).chain(named).collect();
    let program = program(&folder, &start.command);
    let command = ChildSpec { folder: Some(folder), env, ..ChildSpec::new(program, start.args.iter().cloned()) };
    let ready = Duration::from_millis(start.ready_timeout_ms);
    let spec = ModelServerSpec::new(name, command, endpoint, ready, watcher.clone());
    Ok(progress.cloned().into_iter().fold(spec, ModelServerSpec::with_progress))
}

/// Inherited variables that the configuration passes to the server.
fn inherited(names: &[String]) -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(variable, _)| {
        let variable = variable.to_string_lossy();
        names.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => variable.starts_with(start),
            None => *name == variable,
        })
    })
}

/// The working directory of programs. It is made absolute, because a child would resolve a relative path differently.
pub(super) fn folder(written: &Path) -> PathBuf {
    written.canonicalize().unwrap_or_else(|_gone_or_closed| written.to_owned())
}

/// A bare name is looked up on the PATH; a path starts in the configuration's folder.
pub(super) fn program(folder: &Path, command: &str) -> OsString {
    if command.contains('/') { folder.join(command).into_os_string() } else { command.into() }
}
