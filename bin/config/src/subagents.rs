//! The keys of sub-agents.

use bob::tools::agents::{MAX_DEPTH, TaskContext};
use bob::{Agent, AgentError, ModelName};

use bob::sessions::OnParentEnd;

use super::keys::Rule::{Decimal, Id, Model, Pattern, Text, Whole};
use super::keys::{COUNT, TIME};
use super::table::table;
use super::words::AgentMode;

table! {
    /// `[[subagents]]`: an agent that others call as the tool `agent/<id>`.
    pub struct SubAgent {
        /// Its name in the tool's name, unique.
        pub id: String => Id,
        /// What it is for, as other agents read it.
        pub description: String => Text,
        /// Its instructions; those of the prompt if not set.
        pub instructions: Option<String> = None => Text,
        /// Its `provider:model`, or a selector; its caller's if not set.
        pub model: Option<String> = None => Model,
        /// The tools it may use, of those that its caller may; all of those if not set.
        pub allow_tools: Option<Vec<String>> = None => Pattern,
        /// The skills it is given; its task chooses if not set.
        pub skills: Option<Vec<String>> = None => Text,
        /// Model calls for one task at most; what its budget leaves if not set.
        pub max_steps: Option<u32> = None => COUNT,
        /// Tool calls for one task at most; what its budget leaves if not set.
        pub max_tool_calls: Option<u32> = None => Whole(0, 1_000_000),
        /// Time for one task, milliseconds; what its budget leaves if not set.
        pub timeout_ms: Option<u64> = None => TIME,
        /// Levels of agents that may work below it.
        pub max_depth: u32 = 0 => Whole(0, MAX_DEPTH as u64),
        /// Part of what its caller's turn has left that it may use for one task.
        pub budget_ratio: f64 = 0.5 => Decimal(0.01, 1.0),
        /// How its caller waits for it.
        pub mode: AgentMode = AgentMode::Inline,
        /// What happens to it when the turn that called it ends, in the mode `async`.
        pub on_parent_end: OnParentEnd = OnParentEnd::Cancel,
        /// What it is told of its caller's conversation.
        pub context: TaskContext = TaskContext::None,
    }
}

impl SubAgent {
    /// The agent for a runtime.
    ///
    /// # Errors
    /// `Invalid` for a model that is none.
    pub fn agent(&self) -> Result<Agent, AgentError> {
        let Self {
            id,
            description,
            instructions,
            model,
            allow_tools,
            skills,
            max_steps,
            max_tool_calls,
            timeout_ms,
            max_depth,
            budget_ratio,
            mode,
            on_parent_end,
            context,
        } = self;
        let model = model.as_deref().map(ModelName::parse).transpose();
        let model = model.map_err(|error| AgentError::Invalid(error.to_string()))?;
        let agent = Agent::new(id).description(description).max_depth(*max_depth).budget_ratio(*budget_ratio);
        let agent = agent.context(*context);
        let agent = match mode {
            AgentMode::Inline => agent,
            AgentMode::Async => agent.in_background(*on_parent_end),
        };
        let agent = instructions.iter().fold(agent, Agent::instructions);
        let agent = model.into_iter().fold(agent, Agent::model);
        let agent = allow_tools.iter().fold(agent, Agent::tools);
        let agent = skills.iter().fold(agent, Agent::skills);
        let agent = max_steps.iter().copied().fold(agent, Agent::max_steps);
        let agent = max_tool_calls.iter().copied().fold(agent, Agent::max_tool_calls);
        Ok(timeout_ms.iter().copied().fold(agent, Agent::timeout_ms))
    }
}
