//! Agents as values, for requests and as sub-agents.

pub use bob_messages::agent::Agent;
