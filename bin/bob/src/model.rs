//! Models: the port that asks one, real providers, scripted models, and what a request and an answer consist of.
//!
//! [`Providers`](crate::Providers) makes the port of real providers; a program implements [`LlmPort`] for any other.

pub mod catalogue;
pub mod providers;
pub mod server;

/// The port that summarises long histories, for [`RuntimeBuilder::compactor`](crate::RuntimeBuilder::compactor).
///
/// ```
/// use bob::model::{CondenseRequest, ContextCompactorPort, Summary};
/// use bob::{AgentError, BoxFuture};
/// use std::sync::Arc;
///
/// /// Says how long the history was.
/// struct Length;
///
/// impl ContextCompactorPort for Length {
///     fn condense(&self, request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>> {
///         let text = format!("{} messages came before.", request.messages.len());
///         Box::pin(async { Ok(Summary { text, usage: None }) })
///     }
/// }
/// ```
pub use bob_actors::compactor::ContextCompactorPort;
#[cfg(feature = "genai")]
pub use bob_actors::llm::GenaiLlm;
/// The port of models, for [`RuntimeBuilder::model`](crate::RuntimeBuilder::model).
///
/// ```
/// use bob::model::{Capabilities, DeltaSink, LlmAnswer, LlmError, LlmPort, LlmRequest, Message};
/// use bob::{AgentRuntime, AgentRuntimeExt, BoxFuture, ModelName, RuntimeBuilder};
/// use std::sync::Arc;
///
/// /// Repeats what it is told, word by word.
/// struct Echo;
///
/// impl LlmPort for Echo {
///     fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
///         Ok(Capabilities { native_tools: true, ..Capabilities::default() })
///     }
///
///     fn complete_stream(
///         &self,
///         request: Arc<LlmRequest>,
///         model: &ModelName,
///         deltas: DeltaSink,
///     ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
///         let text = match request.messages.last().map(AsRef::as_ref) {
///             Some(Message::User { parts }) => parts[0].as_text(),
///             _ => String::new(),
///         };
///         text.split_inclusive(' ').for_each(|word| deltas.text(word));
///         let answer = LlmAnswer::text(model.clone(), text);
///         Box::pin(async { Ok(answer) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = RuntimeBuilder::new(ModelName::parse("echo:1")?).model(Arc::new(Echo)).build().await?;
/// assert_eq!(runtime.ask("Is it raining?").await?, "Is it raining?");
/// # runtime.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub use bob_actors::llm::LlmPort;
/// Whether a provider can be asked now.
///
/// ```
/// use bob::BoxFuture;
/// use bob::model::{LlmError, LlmErrorKind, Readiness};
///
/// /// A provider that sleeps at night.
/// struct Office { is_open: bool }
///
/// impl Readiness for Office {
///     fn ready<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<(), LlmError>> {
///         Box::pin(async move {
///             match self.is_open {
///                 true => Ok(()),
///                 false => Err(LlmError::new(LlmErrorKind::NotStarted, format!("{provider} is closed"))),
///             }
///         })
///     }
/// }
/// ```
pub use bob_actors::llm::Readiness;
pub use bob_actors::llm::{
    DeltaSink, ProviderLimits, RetryPolicy, Router, ScriptError, ScriptedCall, ScriptedLlm, ScriptedReply, ScriptedRule,
};
pub use bob_messages::backoff::Backoff;
pub use bob_messages::breaker::Down;
pub use bob_messages::chat::{ContentPart, Delegated, Message, StopReason, ToolResult, Usage};
pub use bob_messages::condense::{CondenseMethod, CondenseRequest, Condensed, Summary};
pub use bob_messages::llm::{
    Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest, ProviderState, RawCall, ToolMode, ToolModeChoice,
};
pub use bob_messages::store::Reasoning;
