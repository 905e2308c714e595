//! Agents as values, for requests and as sub-agents.

/// It holds nothing that runs, so it can be cloned, compared and stored. A request takes it by
/// [`AgentRequest::agent`](super::AgentRequest::agent), a runtime as a sub-agent by
/// [`RuntimeBuilder::subagent`](super::RuntimeBuilder::subagent).
///
/// ```
/// use bob::{Agent, AgentRequest, AgentRuntime, ModelName, RuntimeBuilder};
/// use bob::model::{ScriptedLlm, ScriptedReply};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedLlm::replies(vec![ScriptedReply::text("three")]);
/// # let runtime = RuntimeBuilder::new(ModelName::parse("scripted:a")?).model(std::sync::Arc::new(model)).build().await?;
/// let researcher = Agent::new("researcher")
///     .instructions("You answer from the files of the workspace. Name the file of each answer.")
///     .tools(["local/read_file", "local/search_files"]);
/// let critic = Agent::new("critic").instructions("You look for mistakes.").model(ModelName::parse("scripted:b")?).tools([""; 0]);
///
/// let found = runtime.run(AgentRequest::once("How many tests are there?").agent(&researcher)).await?;
/// let judged = runtime.run(AgentRequest::once(&found.response().content).agent(&critic)).await?;
/// # assert_eq!(judged.response().content, "three");
/// # runtime.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub use bob_messages::agent::Agent;
pub use bob_messages::agent::{MAX_DEPTH, TaskContext};

/// An agent as another one calls it, by its name in the design.
pub type SubAgentProfile = Agent;
