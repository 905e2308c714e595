//! Agents that others call as tools: the tool `agent/NAME` of an [`Agent`](crate::Agent) that a runtime was given by
//! [`RuntimeBuilder::subagent`](crate::RuntimeBuilder::subagent).

pub use bob_messages::agent::{MAX_DEPTH, TaskContext};

/// An agent as another one calls it, by its name in the design.
pub type SubAgentProfile = crate::Agent;
