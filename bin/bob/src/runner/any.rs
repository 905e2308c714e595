//! A runner in any of its states, for programs that park turns.

use super::{AgentRunner, AwaitingApproval, AwaitingToolCall, Finished, Ready};
use serde::{Deserialize, Serialize};

/// One turn between two steps, in whichever state it is: the type of a column or a file in which turns are parked.
///
/// ```
/// use bob::runner::{AgentRunner, AgentStepResult, AnyRunner, RunnerRequest};
/// # use bob::{ModelName, SessionId};
/// # use bob::model::{ScriptedLlm, ScriptedReply};
/// # use bob::tools::{ToolOutput, ToolPort, tool};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Pay { sum: u32 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pay = tool("bank/pay", "Pays.", |pay: Pay, _| async move { Ok(pay.sum) });
/// # let model = ScriptedLlm::replies(vec![
/// #     ScriptedReply::call("bank/pay", serde_json::json!({"sum": 3})),
/// #     ScriptedReply::text("It is paid."),
/// # ]);
/// # let model_name = ModelName::parse("scripted:demo")?;
/// let request = RunnerRequest::text(SessionId::parse("demo")?, model_name, "Pay 3.");
/// let request = request.tools(pay.list_tools().await);
/// let mut parked = serde_json::to_string(&AnyRunner::from(AgentRunner::new(request, &model)?))?;
/// let done = loop {
///     // Perhaps days later, in another process.
///     let next: AnyRunner = match serde_json::from_str(&parked)? {
///         AnyRunner::Ready(runner) => match runner.infer(&model).await {
///             AgentStepResult::Finished(done) => break done,
///             AgentStepResult::RequiresTool(runner) => runner.require_approval("it costs money").into(),
///         },
///         AnyRunner::AwaitingApproval(runner) => runner.approve().into(),
///         AnyRunner::AwaitingToolCall(runner) => {
///             let results = runner.pending_calls().iter().map(|call| (call.id.clone(), ToolOutput::text("paid")));
///             let results = results.collect();
///             runner.provide_tool_results(results)?.into()
///         }
///     };
///     parked = serde_json::to_string(&next)?;
/// };
/// assert_eq!(done.response.content, "It is paid.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", content = "runner", rename_all = "snake_case")]
pub enum AnyRunner {
    /// The model may be called.
    Ready(AgentRunner<Ready>),
    /// The results of calls are to be given.
    AwaitingToolCall(AgentRunner<AwaitingToolCall>),
    /// A person is to say whether calls may run.
    AwaitingApproval(AgentRunner<AwaitingApproval>),
}

impl AnyRunner {
    /// Ends the turn here, as [`AgentRunner::cancel`].
    pub fn cancel(self, reason: impl Into<String>) -> Finished {
        match self {
            Self::Ready(runner) => runner.cancel(reason),
            Self::AwaitingToolCall(runner) => runner.cancel(reason),
            Self::AwaitingApproval(runner) => runner.cancel(reason),
        }
    }
}

impl From<AgentRunner<Ready>> for AnyRunner {
    fn from(runner: AgentRunner<Ready>) -> Self {
        Self::Ready(runner)
    }
}

impl From<AgentRunner<AwaitingToolCall>> for AnyRunner {
    fn from(runner: AgentRunner<AwaitingToolCall>) -> Self {
        Self::AwaitingToolCall(runner)
    }
}

impl From<AgentRunner<AwaitingApproval>> for AnyRunner {
    fn from(runner: AgentRunner<AwaitingApproval>) -> Self {
        Self::AwaitingApproval(runner)
    }
}
