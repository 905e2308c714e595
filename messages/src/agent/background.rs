//! Sub-agents that work in the background: a call of one is a task, which is followed by its id.

use super::Agent;
use crate::Millis;
use crate::chat::{Asking, CallStatus, ContentPart, Delegated, FinishReason, ToolCall, ToolOutput, ToolResult};
use crate::ids::{CallId, RequestId, ResumeToken, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::options::OnParentEnd;
use crate::outcome::{SuspendReason, TurnOutcome};
use crate::tools::ToolReturn;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

use super::Delegation;

/// The tool that tells the state of a task.
pub const STATUS: &str = "agent/status";

/// The tool that waits for the result of a task.
pub const RESULT: &str = "agent/result";

/// The label of an input that brings the result of a task.
const LABEL: &str = "task";

/// The end of the name of such a turn.
const RESULT_OF: &str = "-result";

/// A call of a sub-agent that was answered before the sub-agent had ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The call; its id is that of the task.
    pub call: Arc<ToolCall>,
    /// The input of the turn that made it, without what it says.
    pub caller: Arc<TurnInput>,
    /// The session that works for it.
    pub child: Arc<Delegation>,
    /// Its result, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<ToolResult>>,
    /// What was used for it, once it has ended, as long as no turn has counted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Box<Delegated>>,
    /// The limits of the turn that its result begins, once the turn that made the call has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Box<Limits>>,
    /// Whether the model has read the result.
    #[serde(default)]
    pub is_read: bool,
}

impl Task {
    /// The name of its agent.
    pub fn agent(&self) -> &str {
        self.call.name.as_str().strip_prefix(super::NAMESPACE).unwrap_or_default()
    }

    /// What happens to it at the end of its turn.
    pub fn on_parent_end(&self) -> OnParentEnd {
        let parent = self.child.input.options.as_ref().and_then(|options| options.parent.as_ref());
        parent.and_then(|parent| parent.on_parent_end).unwrap_or_default()
    }

    /// Whether it goes on when its turn ends like this.
    pub fn outlives(&self, how: FinishReason) -> bool {
        self.on_parent_end() == OnParentEnd::Continue && how != FinishReason::Cancelled
    }

    /// Whether it still works, and ends with this turn if that ends like this.
    pub fn ends_with(&self, turn: &TurnId, how: FinishReason) -> bool {
        self.result.is_none() && self.caller.turn == *turn && !self.outlives(how)
    }

    /// Its state as the model reads it.
    pub fn state(&self) -> &'static str {
        match self.result.as_ref().map(|result| result.status) {
            None => "running",
            Some(CallStatus::Ok) => "finished",
            Some(_) => "failed",
        }
    }

    /// Its id and state, as the result of a call.
    pub fn told(&self) -> ToolReturn {
        told(&self.call, self.state(), &self.child)
    }

    /// Its result, as that of a call that asks for it; what was used is counted with the task. Its state, if it has none.
    pub fn answer(&self) -> ToolReturn {
        let Some(result) = &self.result else { return self.told() };
        let output = ToolOutput { delegated: None, ..result.output.clone() };
        ToolReturn { status: result.status, output, duration_ms: 0 }
    }

    /// The turn that its result begins, if it begins one.
    pub fn result_turn(&self) -> TurnId {
        TurnId::new(format!("{}{RESULT_OF}", self.child.input.turn))
    }
}

/// The answer of a call of a sub-agent that begins to work in the background.
pub(crate) fn begun(call: &ToolCall, child: &Delegation) -> ToolReturn {
    told(call, "running", child)
}

fn told(call: &ToolCall, state: &str, child: &Delegation) -> ToolReturn {
    let told = json!({"task": call.id, "state": state});
    let structured = json!({"task": call.id, "state": state, "session": child.session});
    let output = ToolOutput { structured: Some(structured), ..ToolOutput::text(told.to_string()) };
    ToolReturn { status: CallStatus::Ok, output, duration_ms: 0 }
}

/// The arguments of the tools [`STATUS`] and [`RESULT`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TaskQuestion {
    /// The task.
    pub task: CallId,
    /// How long to wait for its result, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
}

impl TaskQuestion {
    /// The longest wait, in milliseconds.
    pub const LONGEST_MS: u64 = 10 * 60 * 1000;

    /// What a call asks, if it is of one of these tools and its arguments fit.
    pub fn of(call: &ToolCall) -> Option<Self> {
        match call.name.as_str() {
            STATUS => Self::deserialize(&*call.arguments).ok().map(|question| Self { wait_ms: 0, ..question }),
            RESULT => Self::deserialize(&*call.arguments).ok(),
            _of_something_else => None,
        }
    }
}

pub(crate) fn is_result(input: &TurnInput) -> bool {
    input.turn.as_str().ends_with(RESULT_OF) && input.labels.contains_key(LABEL)
}

/// The input that brings the result of a task into the session of its caller. Its limits are what the turn that made the
/// call has left for it and for the task, and one model call at least, so that the result is read.
pub fn result_input(task: &Task, at: Millis) -> TurnInput {
    let turn = task.result_turn();
    let (name, call) = (task.agent(), &task.call.id);
    let result = task.answer().output.plain();
    let how = if task.state() == "failed" { "has failed" } else { "has finished" };
    let text = format!("The agent {name} {how} (task {call}). Its result:\n\n{result}");
    let caller = &task.caller;
    let token = ResumeToken::new(format!("{}-{call}", caller.token));
    let limits = task.left.as_deref().unwrap_or(&caller.limits);
    let to_answer = task.used.as_ref().map_or(0, |used| used.steps).saturating_add(1);
    TurnInput {
        request_id: Some(RequestId::new(turn.as_str())),
        at,
        labels: [(LABEL.to_owned(), call.to_string())].into(),
        context: caller.context.clone(),
        model: caller.model.clone(),
        allow_tools: caller.allow_tools.clone(),
        mode: caller.mode,
        approvals: caller.approvals,
        limits: Limits { max_steps: limits.max_steps.max(to_answer), ..*limits },
        traceparent: task.child.input.traceparent.clone(),
        tracestate: caller.tracestate.clone(),
        ..TurnInput::bare(turn, token, vec![ContentPart::text(text)])
    }
}

/// The result of a call: the answer of its child, or why there is none with what there is.
pub fn outcome_of(name: &str, outcome: &TurnOutcome) -> ToolOutput {
    let without = |why: String| {
        let so_far = outcome.content.trim();
        ToolOutput::error(if so_far.is_empty() { why } else { format!("{why}; what it has so far:\n{so_far}") })
    };
    let output = match outcome.finish_reason {
        FinishReason::Final => ToolOutput::text(outcome.content.clone()),
        FinishReason::GuardExceeded => without(format!("the agent {name} reached a limit before it had an answer")),
        FinishReason::Cancelled => without(format!("the agent {name} was cancelled")),
        FinishReason::Suspended => match asks(outcome) {
            Some(asks) => return asks,
            None if !outcome.saved => {
                without(format!("the agent {name} was suspended, and the store did not accept that"))
            }
            None => without(format!("the agent {name} waits for something, which it cannot here")),
        },
        FinishReason::Error => {
            let error = outcome.error.as_ref().map_or_else(|| "an error".to_owned(), ToString::to_string);
            without(format!("the agent {name} failed: {error}"))
        }
    };
    let structured = json!({"session": outcome.session_id, "turn": outcome.turn_id});
    ToolOutput { structured: Some(structured), delegated: Some(Box::new(used(outcome))), ..output }
}

/// No result yet: the child is suspended until a person decides. A suspension that the store did not accept is none: the
/// next owner of the child does not know its token.
fn asks(outcome: &TurnOutcome) -> Option<ToolOutput> {
    if outcome.suspend_reason != Some(SuspendReason::ApprovalRequired) || !outcome.saved {
        return None;
    }
    let (session, turn, token) = (outcome.session_id.clone(), outcome.turn_id.clone(), outcome.token.clone()?);
    let asking = Asking { session, turn, token, used: used(outcome) };
    Some(asking.output(outcome.question.as_deref().unwrap_or_default()))
}

/// What the child used, with what others used for it.
fn used(outcome: &TurnOutcome) -> Delegated {
    // What a limit refused was no call: it was not run, and counts for no limit.
    let calls =
        outcome.tool_transcript.iter().filter(|call| call.status != CallStatus::Cancelled || call.duration_ms > 0);
    let tool_calls = u32::try_from(calls.count()).unwrap_or(u32::MAX);
    let TurnOutcome { steps, usage, cost, .. } = *outcome;
    let mut used = Delegated { sessions: 1, steps, tool_calls, usage, cost };
    if let Some(below) = &outcome.delegated {
        used.add(below);
    }
    used
}

impl Agent {
    /// Has each call of it wait for its answer as a sub-agent, which is the default; undoes
    /// [`in_background`](Self::in_background).
    #[must_use]
    pub fn inline(mut self) -> Self {
        if let Some(bounds) = &mut self.bounds {
            bounds.on_parent_end = None;
        }
        self
    }

    /// Whether a tool of this name is one of those that follow tasks.
    pub fn is_taken(name: &str) -> bool {
        [STATUS, RESULT].iter().any(|tool| tool.strip_prefix(super::NAMESPACE) == Some(name))
    }
}
