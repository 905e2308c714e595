//! The configuration: `agent.toml`, environment and command line, validated as a whole.
//!
//! It owns the parsing, the order of the layers (defaults < file < environment < command line) and all error
//! messages; the front ends load it once at their start. A [`Config`] is plain data: loading starts nothing and opens
//! only its files. [`mod@assemble`] maps it onto the runtime of the library `bob`.
//!
//! - `assemble`: maps a configuration onto a `RuntimeBuilder`
//! - `schema`, `endpoints`, `hooks`, `prices`: the structs of all keys, with their defaults and rules; `words`: enumerated
//!   values
//! - `models`: the keys about the catalogue and the selection of models
//! - `table`: the macro that declares keys; `keys`: the rules for values
//! - `layers`: environment and command line as further documents, and their merge
//! - `interpolate`: `${VAR}`
//! - `profile`: the limits where none are set
//! - `check`: rules that relate several keys
//! - `read`: reads the structs from the tree and collects errors; `syntax`: errors of the parser
//! - `problem`, `report`: errors, collected and rendered; `sanitise`: removes unsafe characters from foreign text
//! - `secret`, `confided`: hides secrets in messages; collects them for redaction
//! - `privileges`: what a configuration does beyond choosing a built-in model
//! - `tree`: the parsed text, with look-up by path
//! - `edit`: single keys, read and set
//! - `files`: where they are looked for; `builtin`: what holds where they say nothing
//! - `merged`: the order of these steps; `load`: the files; `source`: where a finished one comes from

mod aliases;
pub mod assemble;
mod builtin;
mod check;
mod confided;
pub mod edit;
mod endpoints;
mod files;
mod hooks;
mod interpolate;
mod keys;
mod layers;
mod load;
mod merged;
mod models;
mod prices;
mod privileges;
mod problem;
mod profile;
mod read;
mod report;
pub mod sanitise;
mod schema;
mod secret;
mod source;
mod subagents;
mod syntax;
mod table;
mod tree;
mod words;

use std::path::{Path, PathBuf};

pub use endpoints::{Mcp, McpPool, McpServer, Provider, SkillSource, Skills, Start};
pub use files::{Files, NAME};
pub use hooks::Hook;
pub use layers::{Environment, Overrides};
pub use load::{MAX_FILE_BYTES, load, load_all, parse, text_of};
pub use models::{ModelsCatalog, Selector};
pub use prices::Price;
pub use privileges::{Privilege, PrivilegeKind};
pub use problem::{Origin, Problem};
pub use report::ConfigError;
pub use schema::{Config, Llm, Log, Policy, Prompt, Runtime, Store, Telemetry};
pub use secret::Secret;
pub use source::digest;
pub use subagents::SubAgent;
pub use words::{
    AgentMode, Auth, HookFailure, HookOn, LimitsProfile, LogFormat, ProviderKind, SourceKind, StartMode, StoreKind,
    TelemetryProtocol, Transport,
};

impl Config {
    /// The working configuration that ships with the program, every key explained. `init` writes it.
    pub fn example() -> &'static str {
        include_str!("../files/agent.toml")
    }

    /// Returns a text as it was written, with `${NAME}` in place of substituted values, which may be keys. Values
    /// shorter than six bytes are not replaced.
    pub fn as_written(&self, text: &str) -> String {
        let mut filled: Vec<_> = self.filled.iter().filter(|(_, value)| value.expose().len() >= 6).collect();
        // One may be the beginning of another.
        filled.sort_by_key(|(_, value)| std::cmp::Reverse(value.expose().len()));
        filled.iter().fold(text.to_owned(), |text, (name, value)| text.replace(value.expose(), &format!("${{{name}}}")))
    }

    /// A value as it was written at this place, with variables as `${NAME}` however short their values are.
    pub(crate) fn written_at(&self, place: &[&str], value: &str) -> String {
        let filled = self.filled_at.iter().find(|filled| filled.place == place);
        filled.map_or_else(|| value.to_owned(), |filled| filled.written.expose().to_owned())
    }

    /// A hash of the file's text, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// A path of the configuration as it is meant: relative to the folder of the configuration file, and without a
    /// project's file to the current one.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.join(path)
    }

    /// The files it was read from.
    pub fn files(&self) -> &Files {
        &self.source.files
    }

    /// The folder in which the server of a provider is started: that of the file that says how.
    pub(crate) fn folder_of_provider(&self, name: &str) -> &Path {
        let user = &self.source.user;
        if user.providers.iter().any(|started| started == name) { &user.folder } else { &self.folder }
    }

    /// The folder in which the tool servers are started.
    pub(crate) fn folder_of_servers(&self) -> &Path {
        if self.source.user.servers { &self.source.user.folder } else { &self.folder }
    }

    /// The folder in which a hook is started: that of the file that says how.
    pub(crate) fn folder_of_hook(&self, name: &str) -> &Path {
        let user = &self.source.user;
        if user.hooks.iter().any(|hook| hook == name) { &user.folder } else { &self.folder }
    }

    /// Where the sessions are kept: the file of a `sqlite` store, the folder of a `json` one. `None` for `memory`
    /// and `postgres`. By default that is below `.bob` beside the project's file, and without one in the user's folder for states.
    pub fn store_path(&self) -> Option<PathBuf> {
        let name = match self.store.kind {
            StoreKind::Memory | StoreKind::Postgres => return None,
            StoreKind::Json => "sessions",
            StoreKind::Sqlite => "sessions.db",
        };
        Some(match (&self.store.path, self.state()) {
            (Some(path), _) => self.resolve(path),
            (None, Some(state)) => state.join(name),
            (None, None) => self.resolve(Path::new(".bob").join(name)),
        })
    }

    /// Where sessions are kept, for people and without a password: a path, `memory`, or a database and its host.
    pub fn store_shown(&self) -> String {
        match (self.store.kind, self.store_path()) {
            (StoreKind::Postgres, _) => database_shown(self.store.url.as_ref().map_or("", Secret::expose)),
            (_, Some(path)) => path.display().to_string(),
            (_, None) => "memory".to_owned(),
        }
    }

    /// The folder for what is kept beside the sessions, such as the history of inputs; `None` for `memory`.
    pub fn beside_store(&self) -> Option<PathBuf> {
        match (self.store.kind, self.store_path()) {
            (StoreKind::Memory, _) => None,
            (StoreKind::Json, path) => path,
            (StoreKind::Sqlite, path) => {
                let folder = path?.parent()?.to_owned();
                Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder })
            }
            (StoreKind::Postgres, _) => Some(self.state().map_or_else(|| self.resolve(".bob"), Path::to_owned)),
        }
    }

    /// The user's folder for states, where there is no project.
    pub(crate) fn state(&self) -> Option<&Path> {
        let Files { main, state, .. } = self.files();
        state.as_deref().filter(|_| main.is_none())
    }
}

/// The database of a URL, without user, password and options. All before the last `@` is left out: a password that should
/// have been encoded may have a `@`, `?`, `#` or `/`.
fn database_shown(url: &str) -> String {
    let place = url.split_once("://").map(|(_, rest)| rest.split_once('@').map_or(rest, |(_login, place)| place));
    let place = place.map(|place| place.split(['?', '#']).next().unwrap_or_default());
    match place.map(|place| place.rsplit_once('@').map_or(place, |(_more_of_a_password, place)| place)) {
        Some(place) if !place.is_empty() => format!("postgres://{place}"),
        Some(_) | None => "postgres".to_owned(),
    }
}

#[cfg(test)]
mod aliases_tests;
#[cfg(test)]
mod bad_tests;
#[cfg(test)]
mod config_tests;
#[cfg(all(test, feature = "postgres"))]
mod database_tests;
#[cfg(test)]
mod example_tests;
#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod secret_tests;
