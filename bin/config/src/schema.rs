//! The keys that do not belong to a process or an address: runtime, model use, policy, prompt, store, log, telemetry.
//!
//! Each key is declared once: documentation, type, default, and after `=>` the rule for its value. All fields are
//! public plain data, so values are only valid after [`super::load`], which checks the rules and the relations
//! between keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bob::approvals::PermissionMode;
use bob::config::{Limits, OnRestart};
use bob::context::TenantLimits;
use bob::model::ToolModeChoice;
use bob::model::catalogue::Cost;
use bob::tools::{Policy as ToolPolicy, Risk, SECRET_FILES, SandboxMode, ToolOverride};
use tracing::level_filters::LevelFilter;

use super::endpoints::{Mcp, Provider, Skills};
use super::hooks::Hook;
use super::interpolate::Filled;
use super::keys::Rule::{Address, CallPattern, Command, Decimal, Model, ModelOrEmpty, Pattern, Pool, Text, Whole};
use super::keys::{COUNT, RATIO, TIME};
use super::models::{ModelsCatalog, Selector};
use super::prices::Price;
use super::secret::Secret;
use super::source::Source;
use super::subagents::SubAgent;
use super::table::{keys, section};
use super::words::{LimitsProfile, LogFormat, StoreKind, TelemetryProtocol};

/// The whole configuration, validated.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The configuration file as it was named.
    pub file: PathBuf,
    /// The folder of that file; relative paths start here, see [`Config::resolve`].
    pub folder: PathBuf,
    /// A hash of the file's text, in hex.
    pub(super) digest: String,
    /// Where it comes from.
    pub(super) source: Source,
    /// The values of substituted variables, by name.
    pub(super) filled: BTreeMap<String, Secret>,
    pub(super) filled_at: Vec<Filled>,
    /// Guards and limits of turns.
    pub runtime: Runtime,
    /// How models are used.
    pub llm: Llm,
    /// Model providers by name; well-known ones need no entry.
    pub providers: BTreeMap<String, Provider>,
    /// Prices by `provider:model`.
    pub prices: BTreeMap<String, Price>,
    /// Selectors of models by name.
    pub models: BTreeMap<String, Selector>,
    /// Where the catalogue of models comes from.
    pub models_catalog: ModelsCatalog,
    /// The tool policy.
    pub policy: Policy,
    /// `[tools."<name or pattern>"]`: settings of one tool, or of all that match a pattern. Each setting is taken
    /// from the most specific entry that has it; unset ones follow the tool and the runtime.
    pub tools: BTreeMap<String, ToolOverride>,
    /// Tool servers.
    pub mcp: Mcp,
    /// Programs that are run at points of a turn, by name.
    pub hooks: BTreeMap<String, Hook>,
    /// The prompt.
    pub prompt: Prompt,
    /// Skills and where they are found.
    pub skills: Skills,
    /// Sub-agents.
    pub subagents: Vec<SubAgent>,
    /// Limits by tenant; `*` for those that have none of their own.
    pub tenants: BTreeMap<String, TenantLimits>,
    /// Where sessions are kept.
    pub store: Store,
    /// Logging.
    pub log: Log,
    /// Where spans and metrics are sent.
    pub telemetry: Telemetry,
}

keys! {
    default Config {
        runtime: Runtime,
        llm: Llm,
        providers: BTreeMap<String, Provider>,
        prices: BTreeMap<String, Price>,
        models: BTreeMap<String, Selector>,
        models_catalog: ModelsCatalog,
        policy: Policy,
        tools: BTreeMap<String, ToolOverride>,
        mcp: Mcp,
        hooks: BTreeMap<String, Hook>,
        prompt: Prompt,
        skills: Skills,
        subagents: Vec<SubAgent>,
        tenants: BTreeMap<String, TenantLimits>,
        store: Store,
        log: Log,
        telemetry: Telemetry,
        ..Self::default()
    }
}

section! {
    /// `[runtime]`: guards and limits of turns.
    pub struct Runtime {
        /// `provider:model`; the one key without a default. The command line's `--model` lands here.
        pub default_model: String = String::new() => Model,
        /// Where the bounds of a turn come from that are not set.
        pub profile: LimitsProfile = LimitsProfile::Terminal,
        /// The bounds of a turn.
        pub limits as "": Limits = Limits::default(),
        /// Messages of history that a prompt takes along at most.
        pub max_history_messages: usize = 50 => COUNT,
        /// The pools of machines in which this process is: it has the sessions that are bound to one of them, beside those that are not bound.
        pub pools: Vec<String> = Vec::new() => Pool,
        /// Maximum of concurrent turns in this process.
        pub max_concurrent_turns: u32 = 1024 => COUNT,
        /// Maximum of sub-agents that work for one turn at a time.
        pub max_parallel_subagents: usize = 4 => Whole(1, 1_000),
        /// Idle time after which a session leaves memory, milliseconds.
        pub passivate_after_ms: u64 = 60_000 => TIME,
        /// Time running turns get at shutdown, milliseconds.
        pub shutdown_grace_ms: u64 = 2_000 => Whole(0, 600_000),
        /// How a turn that a crash interrupted is handled.
        pub on_restart: OnRestart = OnRestart::Report,
    }
}

keys! {
    default Limits {
        max_steps: u32 => COUNT,
        max_tool_calls: u32 => Whole(0, 1_000_000),
        max_consecutive_errors: u32 => COUNT,
        max_identical_calls: u32 => COUNT,
        max_total_tokens: u64 => Whole(0, 1_000_000_000_000),
        max_cost: Cost => Decimal(0.0, 1_000_000.0),
        turn_timeout_ms: u64 => TIME,
        progress_timeout_ms: u64 => Whole(0, 7 * 24 * 3_600_000),
        tool_timeout_ms: u64 => TIME,
        approval_timeout_ms: u64 => TIME,
        suspend_timeout_ms: u64 => Whole(0, 10 * 365 * 24 * 3_600_000),
    }
}

keys! {
    default TenantLimits {
        max_concurrent_turns: usize => Whole(0, 1_000_000),
        max_tokens_per_day: u64 => Whole(0, 1_000_000_000_000),
        max_cost_per_day: Cost => Decimal(0.0, 1_000_000.0),
    }
}

section! {
    /// `[llm]`: how models are used.
    pub struct Llm {
        /// How tools are offered to a model.
        pub tool_mode: ToolModeChoice = ToolModeChoice::Auto,
        /// Further attempts after a failed model call.
        pub retry_max: u32 = 2 => Whole(0, 10),
        /// Time to the response headers, and of silence in a stream, milliseconds.
        pub timeout_ms: u64 = 30_000 => TIME,
        /// Whether the chat shows answers while they grow.
        pub stream_default: bool = true,
        /// Further `provider:model`s, tried in this order during outages only.
        pub fallback: Vec<String> = Vec::new() => Model,
    }
}

section! {
    /// `[policy]`: the tool policy.
    pub struct Policy {
        /// The folder local file tools stay inside, relative to the configuration.
        pub workspace: String = ".".to_owned() => Text,
        /// Rules for all tools. Those of single tools are in [`Config::tools`].
        pub rules as "": ToolPolicy = ToolPolicy::default(),
        /// Patterns of files with secrets: local tools do not search them and ask for approval before reading them.
        pub secret_files: Vec<String> = SECRET_FILES.map(str::to_owned).to_vec() => Text,
        /// Whether the tool `local/web_fetch` is offered, which gets pages of the web.
        pub web_fetch: bool = false,
        /// Whether commands of the shell are confined: they write only below the workspace and the temporary folder.
        pub sandbox: SandboxMode = SandboxMode::Off,
        /// Whether confined commands may use the network.
        pub sandbox_network: bool = false,
        /// Further folders that confined commands may write to, relative to the configuration.
        pub sandbox_folders: Vec<String> = Vec::new() => Text,
        /// Names of environment variables that commands of the shell are given besides, `*` at the end for any characters.
        pub shell_env: Vec<String> = Vec::new() => Text,
    }
}

keys! {
    default ToolPolicy {
        allow_tools: Vec<String> => Pattern,
        deny_tools: Vec<String> => Pattern,
        mode: Option<PermissionMode>,
        allow: Vec<String> => CallPattern,
        ask: Vec<String> => CallPattern,
        deny: Vec<String> => CallPattern,
        deny_commands: Vec<String> => Command,
        ask_commands: Vec<String> => Command,
        max_payload_bytes: usize => Whole(1, 67_108_864),
        require_high_risk_approval: bool,
        offer_always: bool,
        ..ToolPolicy::default()
    }
}

keys! {
    default ToolOverride {
        risk: Option<Risk>,
        timeout_ms: Option<u64> => TIME,
        idempotent: Option<bool>,
    }
}

section! {
    /// `[prompt]`: the prompt before the conversation.
    pub struct Prompt {
        /// The system text.
        pub instructions: String = DEFAULT_INSTRUCTIONS.to_owned(),
        /// Files appended to the instructions, relative to the configuration. Without a list, in the profile `terminal`:
        /// the project's own instructions.
        pub files: Option<Vec<String>> = None => Text,
        /// Text every session begins with.
        pub bootstrap: String = String::new(),
        /// Long-term memory, a file used when it exists; empty: none.
        pub memory: String = "MEMORY.md".to_owned(),
        /// Notes about the tools, a file used when it exists; empty: none.
        pub tool_notes: String = "TOOLS.md".to_owned(),
        /// Part of the model's context above which history is condensed.
        pub condense_trigger_ratio: f64 = 0.75 => RATIO,
        /// Part of the context it is condensed to.
        pub condense_target_ratio: f64 = 0.40 => RATIO,
        /// The `provider:model` that condenses; empty: the turn's own.
        pub condense_model: String = String::new() => ModelOrEmpty,
    }
}

const DEFAULT_INSTRUCTIONS: &str = "You are a helpful assistant. Use the tools you are offered when they help, \
    say what you found, and say so when you do not know.";

section! {
    /// `[store]`: where sessions are kept.
    pub struct Store {
        /// The kind of store: `sqlite`, or `json` where this program was built without it.
        pub kind: StoreKind = DEFAULT_STORE,
        /// A file for `sqlite`, a folder for `json`, relative to the configuration; not read for `memory`. See
        /// [`Config::store_path`].
        pub path: Option<String> = None => Text,
        /// The address of the database for `postgres`, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`; not read for others.
        pub url: Option<Secret> = None => Text,
    }
}

const DEFAULT_STORE: StoreKind = if cfg!(feature = "sqlite") { StoreKind::Sqlite } else { StoreKind::Json };

section! {
    /// `[log]`: logging to stderr.
    pub struct Log {
        /// The least severe level that is logged.
        pub level: LevelFilter = LevelFilter::WARN,
        /// How a record looks.
        pub format: LogFormat = LogFormat::Text,
    }
}

section! {
    /// `[telemetry]`: where spans and metrics are sent. The standard `OTEL_*` variables have precedence.
    pub struct Telemetry {
        /// The address of a receiver of OTLP over HTTP, without `/v1/traces`; nothing is sent if not set.
        pub otlp_endpoint: Option<String> = None => Address,
        /// The encoding.
        pub protocol: TelemetryProtocol = TelemetryProtocol::HttpProtobuf,
        /// Headers of each request, such as a key of the receiver.
        pub headers: BTreeMap<String, Secret> = BTreeMap::new(),
        /// Whether texts of messages, arguments and results are sent as well.
        pub capture_content: bool = false,
    }
}
