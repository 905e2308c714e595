//! Children: the turns that work for calls of sub-agents.

use super::super::{Finished, RunnerRequest};
use super::{Held, Pending, Run};
use crate::facade::refusal;
use bob_actors::clock;
use bob_actors::tools::agents::descriptors;
use bob_messages::agent::{Agent, Delegation, agent_of, outcome_of};
use bob_messages::approvals::Decision;
use bob_messages::chat::{CallStatus, ToolCall, ToolOutput};
use bob_messages::error::AgentError;
use bob_messages::ids::{CallId, ResumeToken, Ticket};
use bob_messages::tools::{CallContext, ToolDescriptor, ToolReturn};
use bob_messages::turn::TurnMessage;
use std::sync::Arc;
use std::time::Duration;

/// The agents of a turn, all of which are waited for, and its tools with them.
pub(super) fn offered(
    agents: Vec<Agent>,
    mut tools: Vec<ToolDescriptor>,
) -> Result<(Arc<[Agent]>, Vec<ToolDescriptor>), AgentError> {
    let agents: Arc<[Agent]> = agents.into_iter().map(Agent::inline).collect();
    if let Some(why) = refusal(&agents) {
        return Err(AgentError::Invalid(why));
    }
    // A child has the tools of its caller, with the agents among them.
    let is_new = |tool: &ToolDescriptor| tools.iter().all(|other| other.id != tool.id);
    let new: Vec<_> = descriptors(&agents).into_iter().filter(is_new).collect();
    tools.extend(new);
    Ok((agents, tools))
}

/// The secret of a turn.
pub(super) fn secret() -> ResumeToken {
    ResumeToken::new(uuid::Uuid::new_v4().simple().to_string())
}

/// The result of a call whose child is a session of a runtime, which the journal of this one names. The end of the turn says it
/// in its own words.
pub(super) fn elsewhere() -> ToolReturn {
    ToolReturn::note(CallStatus::Unknown, "outcome unknown: the agent works elsewhere")
}

impl Run {
    /// A call runs now: it is handed out; one of an agent with the child that works for it.
    pub(super) fn hand_out(
        &mut self,
        ticket: Ticket,
        call: Arc<ToolCall>,
        context: Arc<CallContext>,
    ) -> Option<TurnMessage> {
        let child = self.turn.agent_of(&call).zip(self.turn.turn_config()).map(|(agent, turn_config)| {
            Delegation::of(agent, &call, &context, turn_config.mode, (clock::now(), secret())).map(Box::new)
        });
        match child.transpose() {
            Ok(child) => {
                self.pending.push(Pending { ticket, call, context, held: Held::Called(child) });
                None
            }
            Err(error) => {
                let returned = Box::new(ToolReturn::note(CallStatus::Error, format!("not run: {error}")));
                Some(TurnMessage::ToolReturned { ticket, returned })
            }
        }
    }

    /// A person allows the calls that wait for that. In a step that calls agents the machine says when each of them runs, and
    /// what a child may use then: a result before that would be of a call that the journal does not know to have begun.
    pub(in super::super) fn allow(&mut self) {
        if !self.calls_agents() {
            return;
        }
        for Pending { ticket, call, context, held } in std::mem::take(&mut self.pending) {
            match held {
                Held::Approval(_, Some(approval)) => {
                    self.say(TurnMessage::Decided { approval, decision: Box::new(Decision::AllowOnce), asker: None });
                }
                held => self.pending.push(Pending { ticket, call, context, held }),
            }
        }
    }

    /// Whether the step that runs calls agents.
    pub(super) fn calls_agents(&self) -> bool {
        self.turn.calls().any(|call| self.turn.agent_of(call).is_some())
    }

    /// The turn that works for a pending call, if it is one of an agent.
    pub(in super::super) fn child(&self, call: &CallId) -> Option<RunnerRequest> {
        let held = self.pending.iter().find(|held| held.call.id == *call)?;
        let child = held.child()?;
        Some(RunnerRequest::of(child, self.turn.turn_config()?, &self.tools, &self.policy))
    }

    /// The result of the pending call that a turn worked for.
    pub(in super::super) fn result_of(&self, done: &Finished) -> Option<(CallId, ToolOutput)> {
        let outcome = &done.response;
        let is_it = |child: &Delegation| child.session == outcome.session_id && child.input.turn == outcome.turn_id;
        let held = self.pending.iter().find(|held| held.child().is_some_and(is_it))?;
        Some((held.call.id.clone(), outcome_of(agent_of(&held.call), outcome)))
    }

    /// How long the model may take. A child has a share of its caller's time for all its steps together.
    pub(super) fn time_left(&self) -> Duration {
        let used_ms = if self.turn.is_sub_agent() { self.inferred_ms } else { 0 };
        Duration::from_millis(self.turn_timeout_ms.saturating_sub(used_ms))
    }
}

impl Pending {
    fn child(&self) -> Option<&Delegation> {
        match &self.held {
            Held::Called(child) => child.as_deref(),
            Held::Verdict(_) | Held::Approval(..) => None,
        }
    }
}
