//! What a configuration would start.

use std::path::PathBuf;

use bob::config::{Config, Transport};

/// One program.
#[derive(Debug, PartialEq)]
pub(super) struct Start {
    /// What it is for.
    pub(super) what: String,
    /// As it is written in the configuration: a variable by its name, not by what it holds.
    program: String,
    arguments: Vec<String>,
    /// The names of the variables that are set for it or that it gets from ours; never their values.
    pub(super) environment: Vec<String>,
    /// Where it runs.
    pub(super) folder: PathBuf,
}

impl Start {
    /// Program and arguments, each as it is, quoted where one could be mistaken for two.
    pub(super) fn argv(&self) -> String {
        let shown = |word: &String| {
            let is_plain = !word.is_empty()
                && word.chars().all(|c| {
                    c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '@' | ':' | '=' | ',' | '$' | '{' | '}')
                });
            if is_plain { word.clone() } else { format!("{word:?}") }
        };
        let words = std::iter::once(&self.program).chain(&self.arguments);
        words.map(shown).collect::<Vec<_>>().join(" ")
    }
}

/// Every program, model servers first.
pub(super) fn of(config: &Config) -> Vec<Start> {
    let folder = config.folder.canonicalize().unwrap_or_else(|_shown_as_written| config.folder.clone());
    let written = |words: &[String]| words.iter().map(|word| config.as_written(word)).collect();
    let models = config.providers.iter().filter_map(|(name, provider)| {
        let start = provider.start.as_ref()?;
        Some(Start {
            what: format!("the model server of {name}"),
            program: config.as_written(&start.command),
            arguments: written(&start.args),
            environment: start.env.keys().chain(&start.inherit_env).cloned().collect(),
            folder: folder.clone(),
        })
    });
    let tools = config.mcp.servers.iter().filter(|server| server.transport == Transport::Stdio).map(|server| Start {
        what: format!("the tool server {}", server.id),
        program: config.as_written(server.command.as_deref().unwrap_or_default()),
        arguments: written(&server.args),
        environment: server.env.keys().cloned().collect(),
        folder: folder.clone(),
    });
    models.chain(tools).collect()
}

/// All of them in a few words.
pub(super) fn named(starts: &[Start]) -> String {
    let most = 3;
    let names: Vec<&str> = starts.iter().take(most).map(|start| start.what.as_str()).collect();
    match starts.len().saturating_sub(most) {
        0 => names.join(" and "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
