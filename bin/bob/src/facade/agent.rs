//! An agent as a value.

use bob_messages::ids::ModelName;
use bob_messages::options::SessionOptions;
use bob_messages::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An agent as a value: a name, instructions, a model, and the tools it may use.
///
/// It holds nothing that runs, so it can be cloned, compared and stored. A request takes it by
/// [`AgentRequest::agent`](super::AgentRequest::agent), a session as its [`options`](Self::options). It names tools of
/// the runtime and brings none.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<ModelName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<[String]>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<PermissionMode>,
}

impl Agent {
    /// An agent of this name with the instructions, the model and the tools of its runtime.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), instructions: None, model: None, tools: None, mode: None }
    }

    /// Sets the instructions, which replace those of the runtime.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets the model; a request may still name another.
    #[must_use]
    pub fn model(mut self, model: ModelName) -> Self {
        self.model = Some(model);
        self
    }

    /// Limits the agent to these tools of the runtime, by name or pattern; an empty list leaves none.
    #[must_use]
    pub fn tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets what it may do without asking.
    #[must_use]
    pub fn mode(mut self, mode: PermissionMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The options of a session of this agent; all others have their defaults.
    pub fn options(&self) -> SessionOptions {
        self.applied_to(SessionOptions::default())
    }

    /// These options with name, instructions, model, tools and mode of the agent; what the agent leaves open is the
    /// runtime's.
    pub(super) fn applied_to(&self, options: SessionOptions) -> SessionOptions {
        let Self { name, instructions, model, tools, mode } = self.clone();
        SessionOptions { agent: Some(name), instructions, model, allow_tools: tools, mode, ..options }
    }
}

impl From<&Agent> for SessionOptions {
    fn from(agent: &Agent) -> Self {
        agent.options()
    }
}
