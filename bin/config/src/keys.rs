//! One table of every key with the rule its value obeys.
//!
//! Types are the business of the schema; this table holds bounds and forms. It is also the list of accepted names that
//! a misspelled key is compared with. In a path, `*` stands for a name chosen by the user or for a position.

use Rule::{Address, Any, Decimal, Id, Model, ModelOrEmpty, Pattern, Text, Whole};

/// What a value must obey beyond its type. A list of values obeys it with each of its elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// Nothing more.
    Any,
    /// A whole number between two bounds, both included.
    Whole(u64, u64),
    /// A number between two bounds, both included.
    Decimal(f64, f64),
    /// A text that is not empty.
    Text,
    /// `provider:model`.
    Model,
    /// `provider:model`, or empty.
    ModelOrEmpty,
    /// An `http://` or `https://` address without user and password.
    Address,
    /// A pattern of tool names.
    Pattern,
    /// A short name of letters, digits, `_` and `-`.
    Id,
}

/// A week, the longest time anything may take, milliseconds.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;
/// Times are at least a millisecond: a time of nothing would end everything before it began.
const TIME: Rule = Whole(1, WEEK_MS);
/// More of anything that is counted in a turn or in a process is a slip of the finger.
const COUNT: Rule = Whole(1, 1_000_000);

/// A million tokens for more than this is a slip of the finger, or a currency that wants another unit.
const PRICE: Rule = Decimal(0.0, 10_000_000.0);

/// Every key that is accepted.
pub(super) const KEYS: &[(&str, Rule)] = &[
    ("runtime.default_model", Model),
    ("runtime.max_steps", COUNT),
    ("runtime.max_tool_calls", Whole(0, 1_000_000)),
    ("runtime.max_consecutive_errors", COUNT),
    ("runtime.max_identical_calls", COUNT),
    ("runtime.max_total_tokens", Whole(0, 1_000_000_000_000)),
    ("runtime.turn_timeout_ms", TIME),
    ("runtime.tool_timeout_ms", TIME),
    ("runtime.approval_timeout_ms", TIME),
    ("runtime.suspend_timeout_ms", Whole(0, 10 * 365 * 24 * 3_600_000)),
    ("runtime.max_history_messages", COUNT),
    ("runtime.max_concurrent_turns", COUNT),
    ("runtime.passivate_after_ms", TIME),
    ("runtime.shutdown_grace_ms", Whole(0, 600_000)),
    ("runtime.on_restart", Any),
    ("llm.tool_mode", Any),
    ("llm.retry_max", Whole(0, 10)),
    ("llm.timeout_ms", TIME),
    ("llm.stream_default", Any),
    ("llm.fallback", Model),
    ("providers.*.kind", Any),
    ("providers.*.base_url", Address),
    ("providers.*.api_key", Text),
    ("providers.*.timeout_ms", TIME),
    ("providers.*.max_concurrent", COUNT),
    ("providers.*.start.command", Text),
    ("providers.*.start.args", Any),
    ("providers.*.start.ready_timeout_ms", TIME),
    ("providers.*.start.env", Any),
    ("providers.*.start.inherit_env", Any),
    ("providers.*.capabilities.native_tools", Any),
    ("providers.*.capabilities.json_schema", Any),
    ("providers.*.capabilities.system_role", Any),
    ("providers.*.capabilities.images", Any),
    ("providers.*.capabilities.audio", Any),
    ("providers.*.capabilities.context_tokens", Whole(256, 1_000_000_000)),
    ("providers.*.script", Text),
    ("providers.*.temperature", Decimal(0.0, 2.0)),
    ("providers.*.max_tokens", Whole(1, 10_000_000)),
    ("prices.*.input", PRICE),
    ("prices.*.output", PRICE),
    ("prices.*.cached_input", PRICE),
    ("prices.*.cache_write", PRICE),
    ("prices.*.currency", Text),
    ("policy.workspace", Text),
    ("policy.allow_tools", Pattern),
    ("policy.deny_tools", Pattern),
    ("policy.deny_commands", Text),
    ("policy.max_payload_bytes", Whole(1, 67_108_864)),
    ("policy.require_high_risk_approval", Any),
    ("policy.secret_files", Text),
    ("tools.*.risk", Any),
    ("tools.*.timeout_ms", TIME),
    ("tools.*.idempotent", Any),
    ("mcp.servers.*.id", Id),
    ("mcp.servers.*.transport", Any),
    ("mcp.servers.*.command", Text),
    ("mcp.servers.*.args", Any),
    ("mcp.servers.*.env", Any),
    ("mcp.servers.*.url", Address),
    ("mcp.servers.*.headers", Any),
    ("mcp.servers.*.tools", Text),
    ("mcp.servers.*.start", Any),
    ("mcp.servers.*.required", Any),
    ("mcp.servers.*.tool_timeout_ms", TIME),
    ("mcp.servers.*.startup_timeout_ms", TIME),
    ("prompt.instructions", Any),
    ("prompt.files", Text),
    ("prompt.bootstrap", Any),
    ("prompt.memory", Any),
    ("prompt.tool_notes", Any),
    ("prompt.condense_trigger_ratio", Decimal(0.0, 1.0)),
    ("prompt.condense_target_ratio", Decimal(0.0, 1.0)),
    ("prompt.condense_model", ModelOrEmpty),
    ("skills.sources.*.type", Any),
    ("skills.sources.*.path", Text),
    ("skills.sources.*.recursive", Any),
    ("skills.top_k", Whole(0, 1_000)),
    ("skills.token_budget_ratio", Decimal(0.0, 1.0)),
    ("skills.token_budget_tokens", Whole(1, 1_000_000_000)),
    ("store.kind", Any),
    ("store.path", Text),
    ("log.level", Any),
    ("log.format", Any),
];
