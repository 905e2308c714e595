//! Questions whose answer is a value: a text, or a type of the program.

use super::agent_runtime::AgentRuntime;
use super::request::{AgentRequest, AgentResponse, AgentRunResult};
use super::tenant::TenantRuntime;
use bob_actors::tools::schema_of;
use bob_messages::chat::FinishReason;
use bob_messages::error::AgentError;
use bob_messages::ids::ResumeToken;
use bob_messages::outcome::SuspendReason;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::type_name;
use std::future::Future;
use std::sync::Arc;

/// Operations made of those of an [`AgentRuntime`], for every implementation of it.
pub trait AgentRuntimeExt: AgentRuntime {
    /// Asks in a new session, as [`AgentRequest::once`], and returns the text of the final answer. Dropping the future
    /// leaves the turn running.
    ///
    /// # Errors
    /// When the request was refused, and when the turn ended in any other way than with an answer.
    fn ask(&self, text: impl Into<String> + Send) -> impl Future<Output = Result<String, AskError>> + Send {
        async move { Ok(self.run(AgentRequest::once(text)).await?.answered()?.content) }
    }

    /// Runs one turn whose final answer is a `T`: its schema is the request's
    /// [`output_schema`](AgentRequest::output_schema), by which the answer is checked, and asked for again within the
    /// guards. Dropping the future leaves the turn running.
    ///
    /// ```
    /// # use bob::{AgentRequest, AgentRuntime, AgentRuntimeExt, ModelName, RuntimeBuilder};
    /// # use bob::model::{ScriptedLlm, ScriptedReply};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Person { name: String, age: u32 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let replies = [r#"{"name": "Ann"}"#, r#"{"name": "Ann", "age": 41}"#].map(ScriptedReply::text);
    /// # let model = std::sync::Arc::new(ScriptedLlm::replies(replies.into()));
    /// # let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(model).build().await?;
    /// let ann = runtime.run_as::<Person>(AgentRequest::once("Who is the author?")).await?;
    /// assert_eq!((ann.output.name.as_str(), ann.output.age), ("Ann", 41));
    /// assert_eq!(ann.response.steps, 2, "the first answer had no age, and was asked for again");
    /// # runtime.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the request was refused, when the turn ended in any other way than with an answer, and when the answer is
    /// no `T` although it fits its schema.
    fn run_as<T>(&self, request: AgentRequest) -> impl Future<Output = Result<Typed<T>, AskError>> + Send
    where
        T: DeserializeOwned + JsonSchema,
    {
        let request = AgentRequest { output_schema: Some(Arc::new(schema_of::<T>())), ..request };
        async move {
            let response = self.run(request).await?.answered()?;
            match serde_json::from_str(&response.content) {
                Ok(output) => Ok(Typed { output, response }),
                Err(source) => Err(AskError::Misfit { wanted: type_name::<T>(), source, response }),
            }
        }
    }
}

impl<R: AgentRuntime + ?Sized> AgentRuntimeExt for R {}

impl TenantRuntime {
    /// Asks in a new session of the tenant, as [`AgentRuntimeExt::ask`].
    ///
    /// # Errors
    /// Those of [`AgentRuntimeExt::ask`].
    pub async fn ask(&self, text: impl Into<String> + Send) -> Result<String, AskError> {
        Ok(self.run(AgentRequest::once(text)).await?.answered()?.content)
    }

    /// Runs one turn whose final answer is a `T`, as [`AgentRuntimeExt::run_as`].
    ///
    /// # Errors
    /// Those of [`AgentRuntimeExt::run_as`] and of [`run`](Self::run).
    pub async fn run_as<T>(&self, request: AgentRequest) -> Result<Typed<T>, AskError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        self.runtime().run_as(self.owned(request)?).await
    }
}

impl AgentRunResult {
    /// The outcome of a turn that ended with an answer. A turn that failed, reached a limit or was cancelled has an outcome as
    /// well, of which [`response`](Self::response) tells nothing as an error.
    ///
    /// ```
    /// # use bob::model::{ScriptedLlm, ScriptedReply};
    /// # use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let model = std::sync::Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("hello")]));
    /// # let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(model).build().await?;
    /// let response = runtime.run(AgentRequest::once("Say hello.")).await?.answered()?;
    /// assert_eq!(response.content, "hello");
    /// # runtime.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the turn ended in any other way, with the outcome.
    pub fn answered(self) -> Result<Box<AgentResponse>, AskError> {
        match self {
            Self::Finished(response) => match (response.finish_reason, &response.error) {
                (FinishReason::Final, None) => Ok(response),
                (_, Some(error)) => Err(AskError::Failed { error: error.clone(), response }),
                (_, None) => Err(AskError::Ended(response)),
            },
            Self::Suspended { reason, token, question, response } => {
                Err(AskError::Suspended { reason, token, question, response })
            }
        }
    }
}

/// A final answer as a value, and the outcome of its turn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Typed<T> {
    /// The answer.
    pub output: T,
    /// The outcome, with usage and the calls that were made.
    pub response: Box<AgentResponse>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The request was not accepted.
    #[error(transparent)]
    Refused(#[from] AgentError),
    /// The turn failed.
    #[error("the turn failed: {error}")]
    Failed {
        /// The error of the turn.
        #[source]
        error: AgentError,
        /// The outcome.
        response: Box<AgentResponse>,
    },
    /// A bound was reached, or the turn was cancelled.
    #[error("{}", ended(.0))]
    Ended(Box<AgentResponse>),
    /// The turn is suspended.
    #[error("the turn is suspended, and continues with a reply to its token: {question}")]
    Suspended {
        /// The reason.
        reason: SuspendReason,
        /// Resumes the turn, also from another process.
        token: ResumeToken,
        /// The question as text.
        question: String,
        /// The outcome so far.
        response: Box<AgentResponse>,
    },
    /// The answer fits the schema of the type, and not the type.
    #[error("the answer is no {wanted}: {source}")]
    Misfit {
        /// The name of the type.
        wanted: &'static str,
        /// Where it does not fit.
        source: serde_json::Error,
        /// The outcome, with the answer as its content.
        response: Box<AgentResponse>,
    },
}

impl AskError {
    /// The outcome of the turn; `None` when the request was refused.
    pub fn response(&self) -> Option<&AgentResponse> {
        match self {
            Self::Refused(_) => None,
            Self::Failed { response, .. }
            | Self::Ended(response)
            | Self::Suspended { response, .. }
            | Self::Misfit { response, .. } => Some(response),
        }
    }
}

fn ended(response: &AgentResponse) -> String {
    // The names of guards are those of the limits, as JSON has them.
    match serde_json::to_value(response.guard_reason) {
        Ok(Value::String(guard)) => format!("the turn reached the limit {guard} before it had an answer"),
        _ => "the turn was cancelled before it had an answer".to_owned(),
    }
}
