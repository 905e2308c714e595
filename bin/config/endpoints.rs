//! The keys about processes and addresses: providers, tool servers, skill sources.

use std::collections::BTreeMap;

use toml_spanner::Toml;

use super::schema::section;
use super::secret::Secret;
use super::words::{ProviderKind, SourceKind, StartMode, Transport};

section! {
    /// `[providers.<name>]`: a model provider, or what is different about a well-known one.
    pub struct Provider {
        /// The wire format; a well-known provider knows its own.
        pub kind: Option<ProviderKind> = None,
        /// The address of the API; with or without a slash at its end.
        pub base_url: Option<String> = None,
        /// The key sent to it.
        pub api_key: Option<Secret> = None,
        /// Time to the response headers and of silence in a stream, milliseconds; `llm.timeout_ms` if not set.
        pub timeout_ms: Option<u64> = None,
        /// Calls at the same time, at least 1.
        pub max_concurrent: Option<u32> = None,
        /// The program that serves this provider on this machine, run as a supervised child.
        pub start: Option<Start> = None,
        /// What the models of this provider can do.
        pub capabilities: Option<Capabilities> = None,
        /// The script of the kind `scripted`, a file relative to the configuration.
        pub script: Option<String> = None,
        /// Sampling temperature, 0 to 2; the provider's own if not set.
        pub temperature: Option<f64> = None,
        /// Tokens of one answer at most; the provider's own bound if not set.
        pub max_tokens: Option<u32> = None,
    }
}

section! {
    /// A program that is started on first use and stopped with the runtime. It runs in the configuration's folder.
    pub struct Start {
        /// The program; no shell reads it.
        pub command: String = String::new(),
        /// Its arguments, as they are.
        pub args: Vec<String> = Vec::new(),
        /// Time until it must answer, milliseconds.
        pub ready_timeout_ms: u64 = 60_000,
        /// Environment variables set for it.
        pub env: BTreeMap<String, Secret> = BTreeMap::new(),
        /// Names of variables of ours that it gets as well; one may end in `*`.
        pub inherit_env: Vec<String> = Vec::new(),
    }
}

section! {
    /// What the models of a provider can do. What is not set follows the built-in profile.
    pub struct Capabilities {
        /// Whether the model takes the provider's own tool calls.
        pub native_tools: Option<bool> = None,
        /// Whether an answer can be bound to a JSON schema.
        pub json_schema: Option<bool> = None,
        /// Whether there is a role for instructions.
        pub system_role: Option<bool> = None,
        /// The context of the model, tokens.
        pub context_tokens: Option<u64> = None,
        /// Whether it takes images.
        pub images: Option<bool> = None,
        /// Whether it takes sound.
        pub audio: Option<bool> = None,
    }
}

section! {
    /// `[mcp]`: the tool servers.
    pub struct Mcp {
        /// One entry for each server.
        pub servers: Vec<McpServer> = Vec::new(),
    }
}

/// `[[mcp.servers]]`: one tool server.
#[derive(Clone, Debug, Toml)]
#[toml(FromToml, recoverable)]
pub struct McpServer {
    /// Its name in tool names, unique.
    pub id: String,
    /// How it is reached.
    #[toml(default = Transport::Stdio)]
    pub transport: Transport,
    /// The program of a stdio server; no shell reads it.
    pub command: Option<String>,
    /// The program's arguments, as they are.
    #[toml(default)]
    pub args: Vec<String>,
    /// Environment variables set for the program, beyond the small list it inherits.
    #[toml(default)]
    pub env: BTreeMap<String, Secret>,
    /// The address of an http server.
    pub url: Option<String>,
    /// Headers sent to an http server.
    #[toml(default)]
    pub headers: BTreeMap<String, Secret>,
    /// The tools that are offered; all if not set.
    pub tools: Option<Vec<String>>,
    /// When it is started.
    #[toml(default = StartMode::Eager)]
    pub start: StartMode,
    /// Whether the runtime refuses to start without it.
    #[toml(default)]
    pub required: bool,
    /// Time for a call, milliseconds; `runtime.tool_timeout_ms` if not set.
    pub tool_timeout_ms: Option<u64>,
    /// Time until it must be ready, milliseconds.
    #[toml(default = 20_000)]
    pub startup_timeout_ms: u64,
}

section! {
    /// `[skills]`: which skills a turn gets, and where they are found.
    pub struct Skills {
        /// Places skills are read from.
        pub sources: Vec<SkillSource> = Vec::new(),
        /// Skills in one turn at most.
        pub top_k: u32 = 3,
        /// Part of the model's context that skills may take.
        pub token_budget_ratio: f64 = 0.10,
        /// The same as a number of tokens; only one of the two may be set.
        pub token_budget_tokens: Option<u64> = None,
    }
}

/// `[[skills.sources]]`: one place skills are read from.
#[derive(Clone, Debug, Toml)]
#[toml(FromToml, recoverable)]
pub struct SkillSource {
    /// What kind of place it is.
    #[toml(rename = "type", default = SourceKind::Directory)]
    pub kind: SourceKind,
    /// A folder relative to the configuration.
    pub path: String,
    /// Whether folders below it are searched as well.
    #[toml(default = true)]
    pub recursive: bool,
}
