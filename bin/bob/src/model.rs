//! Models: the port that asks one, real providers, scripted models, and what a request and an answer consist of.
//!
//! [`Providers`](crate::Providers) makes the port of real providers; a program implements [`LlmPort`] for any other.

pub mod server;

pub use bob_actors::compactor::ContextCompactorPort;
#[cfg(feature = "genai")]
pub use bob_actors::llm::GenaiLlm;
pub use bob_actors::llm::{
    DeltaSink, LlmPort, ProviderLimits, Readiness, RetryPolicy, Router, ScriptError, ScriptedCall, ScriptedLlm,
    ScriptedReply, ScriptedRule, providers,
};
pub use bob_messages::backoff::Backoff;
pub use bob_messages::breaker::Down;
pub use bob_messages::chat::{ContentPart, Message, StopReason, ToolResult, Usage};
pub use bob_messages::condense::{CondenseMethod, CondenseRequest, Condensed, Summary};
pub use bob_messages::llm::{
    Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest, ProviderState, RawCall, ToolMode, ToolModeChoice,
};
pub use bob_messages::store::Reasoning;
