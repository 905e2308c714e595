//! An agent as a value, and what it may use when it works for a call of another one.

mod answered;
mod background;
mod terms;

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;

pub use answered::{ChildTurn, agent_of, may_have_begun, read, resumed, worked};
pub use background::{RESULT, STATUS, Task, TaskQuestion, outcome_of, result_input};
pub(crate) use background::{begun, is_result};
pub(crate) use terms::is_named_after;
pub use terms::{Caller, Delegation, DelegationError, Resumption, child_of, name_below, session_of};

use crate::ids::{ModelName, ToolName};
use crate::options::{OnParentEnd, SessionOptions};
use crate::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most sessions below one that works for no other.
pub const MAX_DEPTH: u32 = 8;

/// The namespace of the tools that are agents.
pub const NAMESPACE: &str = "agent/";

/// An agent as a value: a name, instructions, a model, and the tools it may use.
///
/// It holds nothing that runs, so it can be cloned, compared and stored. A session takes it as its
/// [`options`](Self::options). Given to the builder of a runtime, it is a sub-agent: the tool `agent/NAME` of the other
/// agents. It names tools of the runtime and brings none. Steps, calls, time, depth, budget, context and skills are those of a
/// sub-agent: in a session they have no effect, since the limits of a turn are those of its request.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// As a sub-agent; in a box, since most agents have the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bounds: Option<Box<Bounds>>,
}

/// What bounds an agent that works for a call of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Bounds {
    max_steps: Option<u32>,
    max_tool_calls: Option<u32>,
    timeout_ms: Option<u64>,
    max_depth: u32,
    budget_percent: u32,
    context: TaskContext,
    #[serde(skip_serializing_if = "Option::is_none")]
    skills: Option<Arc<[String]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_parent_end: Option<OnParentEnd>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_steps: None,
            max_tool_calls: None,
            timeout_ms: None,
            max_depth: 0,
            budget_percent: 50,
            context: TaskContext::None,
            skills: None,
            on_parent_end: None,
        }
    }
}

/// What a sub-agent is told of the conversation that gives it a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskContext {
    /// Nothing: it has the task, and the context that the call gives.
    #[default]
    None,
    /// The summary of the conversation, if it was condensed, and the beginnings of its newest messages.
    Summary,
}

impl Agent {
    /// An agent of this name with the instructions, the model and the tools of its runtime.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            instructions: None,
            model: None,
            tools: None,
            mode: None,
            description: None,
            bounds: None,
        }
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

    /// Limits the agent to these tools of the runtime, by name or pattern; an empty list leaves none. A sub-agent has
    /// those of them that its caller has, too.
    #[must_use]
    pub fn tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets what it may do without asking. A sub-agent never may more than its caller.
    #[must_use]
    pub fn mode(mut self, mode: PermissionMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the description by which other agents know what it is for.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets how many model calls it may make for a task as a sub-agent, at most; by default what its budget leaves.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.bounds_mut().max_steps = Some(steps);
        self
    }

    /// Sets how many tool calls it may make for a task as a sub-agent, at most; by default what its budget leaves.
    #[must_use]
    pub fn max_tool_calls(mut self, calls: u32) -> Self {
        self.bounds_mut().max_tool_calls = Some(calls);
        self
    }

    /// Sets how long it may take for a task as a sub-agent, in milliseconds; by default what its budget leaves.
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.bounds_mut().timeout_ms = Some(timeout_ms);
        self
    }

    /// Sets how many levels of agents may work below it as a sub-agent, at most [`MAX_DEPTH`]; by default none.
    #[must_use]
    pub fn max_depth(mut self, levels: u32) -> Self {
        self.bounds_mut().max_depth = levels.min(MAX_DEPTH);
        self
    }

    /// Sets the share of what is left of its caller's steps, calls, tokens, money and time that it may use for a task, between
    /// 0.01 and 1; 0.5 by default.
    #[must_use]
    pub fn budget_ratio(mut self, ratio: f64) -> Self {
        let near = |percent: &u32| (f64::from(*percent) / 100.0 - ratio).abs();
        let percent = (1..=100).min_by(|one, other| near(one).total_cmp(&near(other)));
        self.bounds_mut().budget_percent = percent.unwrap_or(50);
        self
    }

    /// Sets what it is told of its caller's conversation as a sub-agent; by default nothing.
    #[must_use]
    pub fn context(mut self, context: TaskContext) -> Self {
        self.bounds_mut().context = context;
        self
    }

    /// Gives it exactly these skills of the runtime as a sub-agent, by name; by default its task chooses, as any input does.
    #[must_use]
    pub fn skills<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.bounds_mut().skills = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Makes it work in the background as a sub-agent: a call of it returns at once, and its result is asked for with the
    /// tool `agent/result`. By default a call waits for the result.
    #[must_use]
    pub fn in_background(mut self, on_parent_end: OnParentEnd) -> Self {
        self.bounds_mut().on_parent_end = Some(on_parent_end);
        self
    }

    /// What happens to it at the end of the turn that called it, if it works in the background.
    pub fn background(&self) -> Option<OnParentEnd> {
        self.bounds.as_ref()?.on_parent_end
    }

    /// The skills it is given as a sub-agent, if they are named.
    pub fn own_skills(&self) -> Option<&[String]> {
        self.bounds.as_ref()?.skills.as_deref()
    }

    fn bounds_mut(&mut self) -> &mut Bounds {
        self.bounds.get_or_insert_default()
    }

    fn bounds(&self) -> Bounds {
        self.bounds.as_deref().cloned().unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tool that it is as a sub-agent: `agent/NAME`.
    pub fn tool(&self) -> ToolName {
        ToolName::new(format!("{NAMESPACE}{}", self.name))
    }

    /// What it is for, for other agents.
    pub fn purpose(&self) -> String {
        let of_name = || format!("Gives a task to the agent {}, which works on it by itself and answers.", self.name);
        self.description.clone().unwrap_or_else(of_name)
    }

    /// What it may do without asking for a caller that may this much.
    pub fn mode_within(&self, caller: PermissionMode) -> PermissionMode {
        self.mode.map_or(caller, |own| own.min(caller))
    }

    /// The options of a session of this agent; all others have their defaults.
    pub fn options(&self) -> SessionOptions {
        self.applied_to(SessionOptions::default())
    }

    /// These options with name, instructions, model, tools and mode of the agent; what the agent leaves open is the
    /// runtime's.
    #[must_use]
    pub fn applied_to(&self, options: SessionOptions) -> SessionOptions {
        let Self { name, instructions, model, tools, mode, description: _, bounds: _ } = self.clone();
        SessionOptions { agent: Some(name), instructions, model, allow_tools: tools, mode, ..options }
    }
}

impl From<&Agent> for SessionOptions {
    fn from(agent: &Agent) -> Self {
        agent.options()
    }
}
