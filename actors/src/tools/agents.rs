//! Sub-agents as tools: a call of one is a session of its own.
//!
//! A call becomes a submission to the sessions supervisor, which runs the child as any other session. What the child may
//! use was decided by the turn that calls ([`ChildTerms`](bob_messages::tools::ChildTerms)); nothing is decided here. The
//! call ends with the child's turn, and the supervisor ends the child with the turn of its parent.

use super::port::{Invocation, ToolError, ToolPort};
use crate::address::{Address, Again, RETURNS_WITHIN};
use crate::clock;
use bob_messages::agent::{Agent, Delegation};
use bob_messages::chat::{Delegated, FinishReason, ToolCall};
use bob_messages::error::AgentError;
use bob_messages::ids::ResumeToken;
use bob_messages::outcome::TurnOutcome;
use bob_messages::permission::PermissionMode;
use bob_messages::reply::Reply;
use bob_messages::submission::SessionsMessage;
use bob_messages::tools::{Risk, ToolDescriptor, ToolKind, ToolOutput, ToolSource};
use bob_messages::turn_config::{OnRestart, TurnConfig};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// How often a submission is made again: the supervisor may end with it, and may be away before.
const AGAIN: Again = Again { times: 2, within: RETURNS_WITHIN };

/// A call ends with its child, whose limits end it: a day, in milliseconds.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1000;

/// The sub-agents of a runtime.
#[derive(Debug, Clone)]
pub struct Agents {
    agents: Arc<[Agent]>,
    /// The mode of sessions that name none.
    unsaid: PermissionMode,
    sessions: Address<SessionsMessage>,
    /// How turns are run; set before the first one.
    turn_config: Arc<OnceLock<Arc<TurnConfig>>>,
}

impl Agents {
    /// These agents, whose sessions this supervisor runs; `unsaid` is the mode of sessions that name none.
    pub fn new(agents: Arc<[Agent]>, unsaid: PermissionMode, sessions: Address<SessionsMessage>) -> Self {
        Self { agents, unsaid, sessions, turn_config: Arc::default() }
    }

    /// Sets how their turns are run. The first one stays.
    pub fn run_by(&self, turn_config: &TurnConfig) {
        // A call is made again to go on with a turn that it began.
        let turn_config = TurnConfig { on_restart: OnRestart::Resume, ..turn_config.clone() };
        let _the_first_stays = self.turn_config.set(Arc::new(turn_config));
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolError> {
        let Invocation { call, context, .. } = &invocation;
        let agent = self.agents.iter().find(|agent| agent.tool() == call.name);
        let agent = agent.ok_or_else(|| ToolError::new(format!("there is no agent called {}", call.name)))?;
        let turn_config = self.turn_config.get().ok_or_else(|| ToolError::unavailable("the runtime starts"))?;
        let by_hand = (clock::now(), secret());
        let child = Delegation::of(agent, call, context, self.unsaid, by_hand).map_err(ToolError::new)?;
        let (reply, outcome) = Reply::channel();
        let (session, input, turn_config) = (child.session.clone(), Arc::new(child.input), Arc::clone(turn_config));
        self.sessions.ask(AGAIN, reply, move |reply, _asked| SessionsMessage::Submit {
            session,
            input,
            turn_config,
            reply,
        });
        match outcome.await {
            Some(Ok(outcome)) => Ok(told(agent, &outcome)),
            Some(Err(error)) => Err(refused(agent, &error)),
            None => Err(ToolError::outcome_unknown("the supervisor of the sessions went away during the call")),
        }
    }
}

impl ToolPort for Agents {
    fn list_tools(&self) -> Vec<ToolDescriptor> {
        let schema = json!({
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "What the agent is to do, complete in itself."},
                "context": {"type": "string", "description": "What it needs to know for that."},
            },
            "required": ["task"],
            "additionalProperties": false,
        });
        let one = |agent: &Agent| {
            let tool = ToolDescriptor::new(agent.tool(), agent.purpose(), schema.clone());
            // It may do less than its caller, and asks for itself.
            let tool = tool.with_source(ToolSource::Agent).with_kind(ToolKind::Other).with_risk(Risk::Low);
            // Its session is named after the call.
            tool.with_idempotent(true)
        };
        self.agents.iter().map(one).collect()
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.call(invocation).boxed()
    }

    fn limit_ms(&self, _call: &ToolCall, _ruled_ms: Option<u64>) -> Option<u64> {
        Some(LONGEST_MS)
    }
}

/// The secret of a child's turn: nothing suspends it, so it opens nothing.
fn secret() -> ResumeToken {
    ResumeToken::new(uuid::Uuid::now_v7().simple().to_string())
}

/// The result of a call: the answer of its child, or why there is none with what there is.
fn told(agent: &Agent, outcome: &TurnOutcome) -> ToolOutput {
    let name = agent.name();
    let without = |why: String| {
        let so_far = outcome.content.trim();
        ToolOutput::error(if so_far.is_empty() { why } else { format!("{why}; what it has so far:\n{so_far}") })
    };
    let output = match outcome.finish_reason {
        FinishReason::Final => ToolOutput::text(outcome.content.clone()),
        FinishReason::GuardExceeded => without(format!("the agent {name} reached a limit before it had an answer")),
        FinishReason::Cancelled => without(format!("the agent {name} was cancelled")),
        FinishReason::Suspended => without(format!("the agent {name} waits for something, which it cannot here")),
        FinishReason::Error => {
            let error = outcome.error.as_ref().map_or_else(|| "an error".to_owned(), ToString::to_string);
            without(format!("the agent {name} failed: {error}"))
        }
    };
    let structured = json!({"session": outcome.session_id, "turn": outcome.turn_id});
    ToolOutput { structured: Some(structured), delegated: Some(Box::new(used(outcome))), ..output }
}

/// What the child used, with what others used for it.
fn used(outcome: &TurnOutcome) -> Delegated {
    let tool_calls = u32::try_from(outcome.tool_transcript.len()).unwrap_or(u32::MAX);
    let mut used =
        Delegated { sessions: 1, steps: outcome.steps, tool_calls, usage: outcome.usage, cost: outcome.cost };
    if let Some(below) = &outcome.delegated {
        used.add(below);
    }
    used
}

fn refused(agent: &Agent, error: &AgentError) -> ToolError {
    ToolError::new(format!("the agent {} was not started: {error}", agent.name()))
}
