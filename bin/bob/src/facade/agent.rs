//! Agents as values, for requests and as sub-agents.

pub use bob_messages::agent::{Agent, MAX_DEPTH, TaskContext};

/// An agent as another one calls it, by its name in the design.
pub type SubAgentProfile = Agent;
