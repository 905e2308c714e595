//! The keys about processes and addresses: providers, tool servers, skill sources.

use std::collections::BTreeMap;

use super::read::{section, table};
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

table! {
    /// `[[mcp.servers]]`: one tool server.
    pub struct McpServer {
        /// Its name in tool names, unique.
        pub id: String,
        /// How it is reached.
        pub transport: Transport = Transport::Stdio,
        /// The program of a stdio server; no shell reads it.
        pub command: Option<String> = None,
        /// The program's arguments, as they are.
        pub args: Vec<String> = Vec::new(),
        /// Environment variables set for the program, beyond the small list it inherits.
        pub env: BTreeMap<String, Secret> = BTreeMap::new(),
        /// The address of an http server.
        pub url: Option<String> = None,
        /// Headers sent to an http server.
        pub headers: BTreeMap<String, Secret> = BTreeMap::new(),
        /// The tools that are offered; all if not set.
        pub tools: Option<Vec<String>> = None,
        /// When it is started.
        pub start: StartMode = StartMode::Eager,
        /// Whether the runtime refuses to start without it.
        pub required: bool = false,
        /// Time for a call, milliseconds; `runtime.tool_timeout_ms` if not set.
        pub tool_timeout_ms: Option<u64> = None,
        /// Time until it must be ready, milliseconds.
        pub startup_timeout_ms: u64 = 20_000,
    }
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

table! {
    /// `[[skills.sources]]`: one place skills are read from.
    pub struct SkillSource {
        /// What kind of place it is.
        pub kind as "type": SourceKind = SourceKind::Directory,
        /// A folder relative to the configuration.
        pub path: String,
        /// Whether folders below it are searched as well.
        pub recursive: bool = true,
    }
}
