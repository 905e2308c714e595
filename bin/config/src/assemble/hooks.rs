use std::path::PathBuf;
use std::time::Duration;

use bob::AgentError;
use bob::config::{ChildSpec, Watcher};
use bob::tools::hooks::{HookPoint, HookProgram, HookPrograms, OnFailure};

use super::servers::{folder, program};
use crate::{Config, Hook, HookFailure, HookOn};

/// The hooks, in the order of their names; `None` without any. Nothing is started.
///
/// # Errors
/// `Invalid` for a rule that cannot be read.
pub fn hooks(config: &Config, watcher: &Watcher) -> Result<Option<HookPrograms>, AgentError> {
    if config.hooks.is_empty() {
        return Ok(None);
    }
    let programs = config.hooks.iter().map(|(name, hook)| one(config, name, hook)).collect();
    let programs = HookPrograms::new(programs, watcher.clone());
    programs.map(Some).map_err(|error| AgentError::Invalid(error.to_string()))
}

/// The program of a hook, as it will be started: a path is absolute.
pub fn program_of_hook(config: &Config, name: &str, hook: &Hook) -> PathBuf {
    program(&folder(config.folder_of_hook(name)), &hook.command).into()
}

fn one(config: &Config, name: &str, hook: &Hook) -> HookProgram {
    let folder = folder(config.folder_of_hook(name));
    let env = hook.env.iter().map(|(name, value)| (name.into(), value.expose().into())).collect();
    let command = ChildSpec::new(program(&folder, &hook.command), hook.args.iter().cloned());
    let on = match hook.on {
        HookOn::BeforeCall => HookPoint::BeforeCall,
        HookOn::AfterCall => HookPoint::AfterCall,
        HookOn::Question => HookPoint::Question,
        HookOn::TurnEnd => HookPoint::TurnEnd,
    };
    HookProgram {
        calls: hook.calls.clone(),
        time_limit: Duration::from_millis(hook.timeout_ms),
        on_failure: match hook.on_failure {
            HookFailure::Deny => OnFailure::Deny,
            HookFailure::Ask => OnFailure::Ask,
            HookFailure::Allow => OnFailure::Allow,
        },
        ..HookProgram::new(name, on, ChildSpec { folder: Some(folder), env, ..command })
    }
}
