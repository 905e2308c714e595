//! Summaries of histories that are too long: the port, and its default implementation by a model.
//!
//! A turn calls the port in a task, which is aborted when the result is no longer needed. The state machine decides
//! what is condensed and whether a summary is acceptable ([`bob_messages::condense`]).

#[cfg(any(test, feature = "testing"))]
pub mod contract;

use crate::address::Address;
use crate::panics::Panics;
use bob_messages::chat::StopReason;
use bob_messages::condense::{CondenseRequest, Summary};
use bob_messages::error::AgentError;
use bob_messages::llm::{LlmAnswer, LlmError, LlmMessage};
use bob_messages::reply::Reply;
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A port that summarises the beginning of a history.
pub trait ContextCompactorPort: Send + Sync + 'static {
    /// Returns a summary of at most `max_bytes` bytes. An empty or larger one counts as an error: the port is called
    /// once more with the next `attempt`, and then the turn continues without a summary. Its cost is counted in the
    /// turn. The future is dropped when the turn is cancelled and after `within_ms`. A panic counts as an error.
    ///
    /// # Errors
    /// Any error; the turn continues without a summary.
    fn condense(&self, request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>>;
}

/// The summariser of a runtime; by default its models.
#[derive(Clone, Default)]
pub struct Compactor(Option<Arc<Custom>>);

struct Custom {
    port: Arc<dyn ContextCompactorPort>,
    panics: Panics,
}

impl Compactor {
    /// Uses this port instead of the runtime's models.
    pub fn new(port: Arc<dyn ContextCompactorPort>) -> Self {
        Self(Some(Arc::new(Custom { port, panics: Panics::of("compactor") })))
    }

    /// Asks for a summary in a task. The reply answers also when the port panics.
    pub fn ask(
        &self,
        llm: &Address<LlmMessage>,
        request: Arc<CondenseRequest>,
        mut reply: Reply<Result<Arc<Summary>, AgentError>>,
    ) {
        let custom = self.0.clone().unwrap_or_else(|| {
            let port = Arc::new(ModelCompactor { llm: llm.clone() });
            Arc::new(Custom { port, panics: Panics::of("compactor") })
        });
        let within = Duration::from_millis(request.within_ms);
        let within_ms = request.within_ms;
        tokio::spawn(async move {
            let Custom { port, panics } = &*custom;
            tokio::select! {
                biased;
                () = reply.abandoned() => {}
                summary = tokio::time::timeout(within, panics.catch_in("condense", || port.condense(request))) => {
                    let late = || AgentError::timeout("the summary was not written in time", "summary", within_ms);
                    let panicked = || AgentError::Internal("the compactor panicked: it has a fault of its own".to_owned());
                    let summary = summary.unwrap_or_else(|_elapsed| Some(Err(late())));
                    reply.send(summary.unwrap_or_else(|| Err(panicked())).map(Arc::new));
                }
            }
        });
    }
}

impl fmt::Debug for Compactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Compactor(custom)" } else { "Compactor(model)" })
    }
}

/// Asks the model side like a turn does, with its places, retries and breakers.
struct ModelCompactor {
    llm: Address<LlmMessage>,
}

impl ContextCompactorPort for ModelCompactor {
    fn condense(&self, request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>> {
        Box::pin(async move {
            let (reply, answer) = Reply::channel();
            let (remaining_ms, question) = (request.within_ms, Arc::new(request.question()));
            self.llm.tell(LlmMessage::Infer { request: question, remaining_ms, reply });
            let answered = answer.await.unwrap_or_else(|| Err(crate::llm::gone()));
            written(answered).map_err(AgentError::Llm)
        })
    }
}

/// Converts a model's answer to a summary. One truncated at the token limit is marked, and used.
pub fn written(answer: Result<Arc<LlmAnswer>, LlmError>) -> Result<Summary, LlmError> {
    let answer = answer?;
    let text = match answer.stop_reason {
        StopReason::Stop | StopReason::Other => answer.text.clone(),
        StopReason::MaxTokens if !answer.text.trim().is_empty() => format!("{} […]", answer.text.trim_end()),
        StopReason::MaxTokens | StopReason::Refusal | StopReason::ContentFilter | StopReason::ToolCalls => {
            String::new()
        }
    };
    Ok(Summary { text, usage: answer.usage })
}

#[cfg(test)]
#[path = "compactor_tests.rs"]
mod tests;
