//! The configuration: what a person wrote in `agent.toml`, in the environment and on the command line, checked as a whole.
//!
//! It owns the reading, the order of the layers (defaults < file < environment < command line) and every complaint about
//! them; the front ends ask for it once at their start. A [`Config`] is plain data: reading it starts nothing and opens
//! nothing but the one file. [`mod@assemble`] maps it onto the runtime of the package `bob`.
//!
//! - `assemble`: from a configuration to a `RuntimeBuilder`
//! - `schema`, `endpoints`, `prices`: the structs of all keys, with their defaults and rules; `words`: the words some values
//!   are taken from
//! - `table`: how they are written, each key once; `keys`: the rules a value can be under
//! - `layers`: environment and command line as further documents, and how they are laid over the file
//! - `interpolate`: `${VAR}`
//! - `check`: the rules between several keys
//! - `read`: from the tree to the structs, by their keys, with every fault on the way; `syntax`: what the parser complains about
//! - `problem`, `report`: complaints, collected and shown; `sanitise`: what of foreign text may be shown at all
//! - `secret`, `confided`: what must not be shown, and all of it for whoever keeps it
//! - `deeds`: what a configuration does beyond choosing a model that is built in
//! - `tree`: the parsed text, and finding a value in it by its path
//! - `load`: the order in which all of this happens

pub mod assemble;
mod check;
mod confided;
mod deeds;
mod endpoints;
mod interpolate;
mod keys;
mod layers;
mod load;
mod prices;
mod problem;
mod read;
mod report;
pub mod sanitise;
mod schema;
mod secret;
mod syntax;
mod table;
mod tree;
mod words;

use std::path::{Path, PathBuf};

pub use deeds::{Deed, DeedKind};
pub use endpoints::{Mcp, McpServer, Provider, SkillSource, Skills, Start};
pub use layers::{Environment, Overrides};
pub use load::{MAX_FILE_BYTES, digest, load, parse};
pub use prices::Price;
pub use problem::{Origin, Problem};
pub use report::ConfigError;
pub use schema::{Config, Llm, Log, Policy, Prompt, Runtime, Store};
pub use secret::Secret;
pub use words::{LogFormat, ProviderKind, SourceKind, StartMode, StoreKind, Transport};

impl Config {
    /// The working configuration that ships with the program, every key explained. `init` writes it.
    pub fn example() -> &'static str {
        include_str!("../../../agent.toml")
    }

    /// A text of the configuration as it may be shown: with `${NAME}` where a variable was filled in, since that is where
    /// keys come from. What is shorter than six bytes stays.
    pub fn as_written(&self, text: &str) -> String {
        let mut filled: Vec<_> = self.filled.iter().filter(|(_, value)| value.expose().len() >= 6).collect();
        // One may be the beginning of another.
        filled.sort_by_key(|(_, value)| std::cmp::Reverse(value.expose().len()));
        filled.iter().fold(text.to_owned(), |text, (name, value)| text.replace(value.expose(), &format!("${{{name}}}")))
    }

    /// A hash of the file's text, in hex: the same for the same text only.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// A path of the configuration as it is meant: relative to the folder of the configuration file.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.join(path)
    }

    /// Where the sessions are kept: the file of a `sqlite` store, the folder of a `json` one. `None` for `memory`.
    pub fn store_path(&self) -> Option<PathBuf> {
        let otherwise = match self.store.kind {
            StoreKind::Memory => return None,
            StoreKind::Json => ".bob/sessions",
            StoreKind::Sqlite => ".bob/sessions.db",
        };
        Some(self.resolve(self.store.path.as_deref().unwrap_or(otherwise)))
    }
}

#[cfg(test)]
mod bad_tests;
#[cfg(test)]
mod config_tests;
#[cfg(test)]
mod example_tests;
#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod secret_tests;
