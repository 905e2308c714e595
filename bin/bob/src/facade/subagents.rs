//! The sub-agents of a runtime.

use super::agent::Agent;
use super::build::BuildError;
use super::builder::RuntimeBuilder;
use bob_actors::rooms::Rooms;
use bob_actors::tools::agents::Agents;
use std::collections::BTreeSet;
use std::sync::Arc;

impl RuntimeBuilder {
    /// Adds a sub-agent: the tool `agent/NAME` of all sessions whose agents may call it. May be called repeatedly.
    ///
    /// A call is a session of its own, with its own journal, which works for the call. It has no more than its caller: the
    /// tools that both have, the narrower mode, its caller's folders, and a share of what its caller's turn has left of
    /// its limits. What it used counts as used by its caller. The guide `docs/subagents.md` has all of it.
    #[doc(alias = "SubAgentToolAdapter")]
    #[must_use]
    pub fn subagent(mut self, agent: Agent) -> Self {
        self.subagents.push(agent);
        self
    }

    /// Maximum of sub-agents that work for one turn at a time, at least 1; default 4. Further calls of a step wait.
    #[must_use]
    pub fn max_parallel_subagents(mut self, agents: usize) -> Self {
        self.max_parallel_subagents = agents.max(1);
        self
    }

    /// Adds the sub-agents as tools. A tape has the results of their calls.
    pub(super) fn add_subagents(&mut self, rooms: &Rooms) -> Result<Option<Agents>, BuildError> {
        if self.subagents.is_empty() {
            return Ok(None);
        }
        if let Some(why) = refusal(&self.subagents) {
            return Err(BuildError::SubAgents(why));
        }
        let agents: Arc<[Agent]> = std::mem::take(&mut self.subagents).into();
        self.turn_config.mode = self.policy.default_mode();
        self.turn_config.subagents = Arc::clone(&agents);
        self.turn_config.max_parallel_subagents = self.max_parallel_subagents;
        let agents = Agents::new(agents, self.policy.default_mode(), rooms.sessions.clone());
        self.tools.push(Arc::new(agents.clone()));
        Ok(Some(agents))
    }
}

/// Why agents cannot be called beside each other, if they cannot.
pub(crate) fn refusal(agents: &[Agent]) -> Option<String> {
    if let Some(agent) = agents.iter().find(|agent| !is_name(agent.name())) {
        let name = agent.name();
        return Some(format!("the sub-agent {name:?} has no usable name; use 1 to 64 letters, digits, `_` or `-`"));
    }
    if let Some(agent) = agents.iter().find(|agent| Agent::is_taken(agent.name())) {
        let name = agent.name();
        return Some(format!("a sub-agent cannot be called {name:?}: a tool has that name; choose another"));
    }
    let names: BTreeSet<_> = agents.iter().map(Agent::name).collect();
    (names.len() < agents.len()).then(|| "two sub-agents have one name; give one of them another".to_owned())
}

/// Whether an agent can have this name, which is part of a tool's.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}
