//! The keys about processes and addresses: providers, tool servers, skill sources.

use std::collections::BTreeMap;

use bob::model::providers::CapabilityOverrides;
use bob::tools::servers::Isolation;
use bob::tools::skills::SkillRules;

use super::keys::Rule::{Address, Decimal, Id, Text, Whole};
use super::keys::{COUNT, RATIO, TIME};
use super::secret::Secret;
use super::table::{keys, section, table};
use super::words::{Auth, ProviderKind, SourceKind, StartMode, Transport};

section! {
    /// `[providers.<name>]`: a model provider, or settings of a well-known one.
    pub struct Provider {
        /// The wire format; optional for a well-known provider.
        pub kind: Option<ProviderKind> = None,
        /// The address of the API; with or without a slash at its end.
        pub base_url: Option<String> = None => Address,
        /// The key sent to it.
        pub api_key: Option<Secret> = None => Text,
        /// Time to the response headers and of silence in a stream, milliseconds; `llm.timeout_ms` if not set.
        pub timeout_ms: Option<u64> = None => TIME,
        /// Maximum of concurrent calls, at least 1.
        pub max_concurrent: Option<usize> = None => COUNT,
        /// The program that serves this provider on this machine, run as a supervised child.
        pub start: Option<Start> = None,
        /// Capabilities of this provider's models; unset ones follow the built-in profile.
        pub capabilities: CapabilityOverrides = CapabilityOverrides::default(),
        /// The script of the kind `scripted`, a file relative to the configuration.
        pub script: Option<String> = None => Text,
        /// Sampling temperature, 0 to 2; the provider's own if not set.
        pub temperature: Option<f64> = None => Decimal(0.0, 2.0),
        /// Tokens of one answer at most; the provider's own bound if not set.
        pub max_tokens: Option<u32> = None => Whole(1, 10_000_000),
    }
}

section! {
    /// A program that is started on first use and stopped with the runtime. It runs in the configuration's folder.
    pub struct Start {
        /// The program; no shell reads it.
        pub command: String = String::new() => Text,
        /// Its arguments, as they are.
        pub args: Vec<String> = Vec::new(),
        /// Time until it must answer, milliseconds.
        pub ready_timeout_ms: u64 = 60_000 => TIME,
        /// Environment variables set for it.
        pub env: BTreeMap<String, Secret> = BTreeMap::new(),
        /// Names of inherited variables to pass as well; a name may end in `*`.
        pub inherit_env: Vec<String> = Vec::new(),
    }
}

keys! {
    default CapabilityOverrides {
        native_tools: Option<bool>,
        json_schema: Option<bool>,
        system_role: Option<bool>,
        images: Option<bool>,
        audio: Option<bool>,
        context_tokens: Option<u32> => Whole(256, 1_000_000_000),
    }
}

section! {
    /// `[mcp]`: the tool servers.
    pub struct Mcp {
        /// One entry for each server.
        pub servers: Vec<McpServer> = Vec::new(),
        /// Processes that not all sessions share.
        pub pool: McpPool = McpPool::default(),
    }
}

section! {
    /// `[mcp.pool]`: the processes of tool servers that not all sessions share.
    pub struct McpPool {
        /// How long one is kept that no session uses, milliseconds; also one that sessions bring.
        pub idle_ttl_ms: u64 = 600_000 => TIME,
        /// The most of them at a time, without those that sessions bring.
        pub max_processes: usize = 64 => Whole(1, 10_000),
    }
}

table! {
    /// `[[mcp.servers]]`: one tool server.
    pub struct McpServer {
        /// Its name in tool names, unique.
        pub id: String => Id,
        /// How it is reached.
        pub transport: Transport = Transport::Stdio,
        /// The program of a stdio server; no shell reads it.
        pub command: Option<String> = None => Text,
        /// The program's arguments, as they are.
        pub args: Vec<String> = Vec::new(),
        /// Environment variables set for the program, beyond the small list it inherits.
        pub env: BTreeMap<String, Secret> = BTreeMap::new(),
        /// The address of an http server.
        pub url: Option<String> = None => Address,
        /// Headers sent to an http server.
        pub headers: BTreeMap<String, Secret> = BTreeMap::new(),
        /// How an http server is signed in to; not at all if not set.
        pub auth: Option<Auth> = None,
        /// The client's name at the authorization server; the client registers itself if not set.
        pub client_id: Option<String> = None => Text,
        /// The secret of that client.
        pub client_secret: Option<Secret> = None => Text,
        /// The address of a document about the client, its name where the authorization server takes one.
        pub client_metadata_url: Option<String> = None => Address,
        /// The permissions to ask for; those that the server names if not set.
        pub scopes: Vec<String> = Vec::new(),
        /// The tools that are offered; all if not set.
        pub tools: Option<Vec<String>> = None => Text,
        /// When it is started.
        pub start: StartMode = StartMode::Eager,
        /// Who shares its process.
        pub isolation: Isolation = Isolation::Shared,
        /// Whether the runtime refuses to start without it.
        pub required: bool = false,
        /// Time for a call, milliseconds; `runtime.tool_timeout_ms` if not set.
        pub tool_timeout_ms: Option<u64> = None => TIME,
        /// Time until it must be ready, milliseconds.
        pub startup_timeout_ms: u64 = 20_000 => TIME,
    }
}

section! {
    /// `[skills]`: which skills a turn gets, and where they are found.
    pub struct Skills {
        /// Places skills are read from.
        pub sources: Vec<SkillSource> = Vec::new(),
        /// How many a turn gets, and how much room they may take.
        pub rules as "": SkillRules = SkillRules::default(),
    }
}

keys! {
    default SkillRules {
        top_k: usize => Whole(0, 1_000),
        token_budget_ratio: f64 => RATIO,
        token_budget_tokens: Option<u64> => Whole(1, 1_000_000_000),
        role: Option<String> => Text,
    }
}

table! {
    /// `[[skills.sources]]`: one place skills are read from.
    pub struct SkillSource {
        /// The kind of source.
        pub kind as "type": SourceKind = SourceKind::Directory,
        /// A folder relative to the configuration, or inside the repository.
        pub path: Option<String> = None => Text,
        /// The repository.
        pub url: Option<String> = None => Text,
        /// The commit, by its full hash.
        pub rev: Option<String> = None => Text,
        /// Whether folders below it are searched as well.
        pub recursive: bool = true,
        /// Whether changes have an effect without a restart.
        pub watch: bool = true,
    }
}
