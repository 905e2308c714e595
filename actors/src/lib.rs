//! Who does the work: one kind of I/O per actor, and the ports beside the actor
//! that uses them.
//!
//! | module | owns | answers |
//! |---|---|---|
//! | [`turn`] | one session's machine and what it has in flight | `TurnMessage` |
//! | [`llm`] | admission to the model providers; one task per call | `LlmMessage` |
//! | [`tools`] | the tools in this process and the policy over them | `ToolsMessage` |
//! | `mcp` | one tool server: its process or its HTTP session, its tools | `McpMessage` |
//! | [`skills`] | where skills come from (no actor: a task a question) | – |
//! | [`store`] | the one way to a session store | `StoreMessage` |
//! | [`feed`] | who watches which session (no actor: it is told, never asked) | – |
//! | [`metrics`] | what is counted in a runtime (no actor either) | – |
//! | [`people`] | who is asked about calls (no actor: a port) | – |
//! | [`address`] | how an actor is reached over its restarts (no actor) | – |
//! | [`at_work`] | which actors of sessions can still act (no actor) | – |
//! | [`compactor`] | who writes summaries of histories (no actor: a port) | – |
//! | [`child`] | child processes: group, stderr, exit, stop ladder | – |
//! | [`model_server`] | the process of one local model server | `ModelServerMessage` |
//! | [`telemetry`] | events as `tracing` spans | – |
//! | [`prompt_files`] | the files that stand before a conversation (no actor: read by tasks) | – |
//! | `secrets` | finding secrets in text from outside (no actor) | – |
//! | [`watchdog`] | warns of actors whose handlers block | – |
//! | [`tape`] | what models and tools said, written down and said again (no actor) | – |
//!
//! No handler here waits for a model, a tool, a disk or another actor.

pub mod address;
pub mod at_work;
pub mod child;
pub mod clock;
pub mod compactor;
pub mod feed;
pub mod llm;
#[cfg(any(feature = "genai", feature = "mcp"))]
mod loopback;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod metrics;
pub mod model_server;
mod patience;
pub mod people;
pub mod prompt_files;
pub mod rooms;
mod secrets;
pub mod skills;
pub mod store;
pub mod tape;
pub mod telemetry;
pub mod tools;
pub mod turn;
pub mod watchdog;
