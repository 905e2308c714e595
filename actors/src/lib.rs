//! The actors: one kind of I/O per actor, with the ports that each one uses.
//!
//! | module | owns | mailbox |
//! |---|---|---|
//! | [`turn`] | one session's state machine and its pending operations | `TurnMessage` |
//! | [`llm`] | admission to the model providers; one task per call | `LlmMessage` |
//! | [`tools`] | the tools in this process and the policy over them | `ToolsMessage` |
//! | `mcp` | one tool server: its process or its HTTP session, its tools | `McpMessage` |
//! | [`models`] | the catalogue of models, its source and its cache | `ModelsMessage` |
//! | [`store`] | access to the session store | `StoreMessage` |
//! | [`model_server`] | the process of one local model server | `ModelServerMessage` |
//! | [`feed`] | subscribers of events | – |
//! | [`hooks`] | programs that are run at points of a turn | – |
//! | [`metrics`] | counts and latencies of a runtime | – |
//! | [`approvals`] | ports for approvals of calls | – |
//! | [`rooms`] | the addresses of a runtime's actors and its shared state | – |
//! | [`address`] | addresses of actors across restarts | – |
//! | [`at_work`] | the live actors of sessions | – |
//! | [`tenants`] | what tenants spent today, against their limits | – |
//! | [`compactor`] | port for summaries of histories | – |
//! | [`skills`] | sources of skills | – |
//! | [`child`] | child processes: group, stderr, exit, stopping | – |
//! | [`telemetry`] | events as `tracing` spans | – |
//! | [`clock`] | the wall clock of records and events | – |
//! | `time_budget` | timeouts of child processes, without the time this process is suspended | – |
//! | `loopback` | addresses of this machine | – |
//! | [`prompt_files`] | the files before a conversation | – |
//! | `panics` | panics of ports, caught | – |
//! | `secrets` | redaction of secrets | – |
//! | `contract` | what the contract suites of the ports share | – |
//! | [`watchdog`] | warnings about actors whose handlers block | – |
//! | [`tape`] | recording and replay of models and tools | – |
//!
//! Modules without a mailbox are shared state or run in tasks. No handler waits for a model, a tool, a disk or
//! another actor.

pub mod address;
pub mod approvals;
pub mod at_work;
#[cfg(any(feature = "genai", feature = "mcp", feature = "web"))]
mod cause;
pub mod child;
pub mod clock;
pub mod compactor;
#[cfg(any(test, feature = "testing"))]
pub mod contract;
pub mod feed;
pub mod hooks;
pub mod llm;
#[cfg(any(feature = "genai", feature = "mcp", feature = "web"))]
mod loopback;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod metrics;
pub mod model_server;
pub mod models;
mod panics;
#[cfg(any(test, feature = "local-tools"))]
pub mod prompt_files;
pub mod rooms;
mod secrets;
pub mod skills;
#[cfg(test)]
#[path = "../../tests/support/stopwatch.rs"]
mod stopwatch;
pub mod store;
pub mod tape;
pub mod telemetry;
pub mod tenants;
mod time_budget;
pub mod tools;
pub mod turn;
pub mod watchdog;
