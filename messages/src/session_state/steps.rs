//! The fold, step by step: the model answers, its calls are decided about and answered, and the step becomes history.

use super::media::emptied;
use super::{OpenCall, OpenStep, Session};
use crate::approvals::{Scope, Standing};
use crate::chat::{CallStatus, ContentPart, Message, ToolCall, ToolResult};
use crate::context::Identity;
use crate::ids::{ApprovalId, CallId, RequestId, ToolName};
use crate::skills::Reselecting;
use crate::store::{Answered, StepCost};
use serde_json::Value;
use std::sync::Arc;

/// The most request ids of steer messages a session keeps.
const MOST_STEERS_KNOWN: usize = 256;

impl Session {
    pub(super) fn answer(&mut self, answered: &Answered) {
        self.spend(&answered.cost);
        self.calls += answered.calls.len() as u64;
        let Some(turn) = &mut self.open else { return };
        turn.malformed_in_a_row = 0;
        turn.text.clone_from(&answered.text);
        if answered.calls.is_empty() {
            // Steer messages that came while the model answered are part of the next prompt; if no step is left, the
            // answer is final.
            let goes_on = turn.spent.forbids_step(turn.limits()).is_none();
            if goes_on {
                self.history.push(said(&answered.text));
            }
            self.history.append(&mut turn.steered);
            if !goes_on {
                self.history.push(said(&answered.text));
            }
            return;
        }
        let mut refused = None;
        let mut calls = Vec::with_capacity(answered.calls.len());
        let tools = answered.tools.iter().cloned().map(Some).chain(std::iter::repeat(None));
        for (call, tool) in answered.calls.iter().zip(tools) {
            if refused.is_none() && !call.name.is_ask_user() {
                refused = turn.take_call(call);
            }
            let (call, tool) = (Arc::clone(call), tool.unwrap_or_default());
            calls.push(OpenCall {
                call,
                tool,
                intent: None,
                task: None,
                refused,
                approval: None,
                outside: None,
                below: None,
                result: None,
            });
        }
        turn.step = Some(OpenStep { text: answered.text.clone(), calls });
    }

    pub(super) fn malformed(&mut self, text: &str, complaint: &str, cost: &StepCost) {
        self.spend(cost);
        let Some(turn) = &mut self.open else { return };
        turn.malformed_in_a_row += 1;
        self.history.push(said(text));
        self.history.push(Arc::new(Message::user(complaint)));
        self.history.append(&mut turn.steered);
    }

    pub(super) fn steer(&mut self, parts: &[ContentPart], request: Option<&RequestId>, behind: bool) {
        if let Some(request) = request {
            if self.steers.len() >= MOST_STEERS_KNOWN {
                self.steers.pop_front();
            }
            self.steers.push_back(request.clone());
        }
        let message = Arc::new(Message::User { parts: parts.to_vec() });
        if let Some(turn) = &mut self.open {
            turn.unread += 1;
        }
        match &mut self.open {
            Some(turn) if behind || turn.step.is_some() => turn.steered.push(message),
            _ => self.history.push(message),
        }
    }

    fn spend(&mut self, cost: &StepCost) {
        let Some(turn) = &mut self.open else { return };
        turn.spent.steps += 1;
        // Those that came since the model was asked are in the next prompt.
        turn.unread = turn.steered.len();
        turn.stop_reason = Some(cost.stop_reason);
        turn.answered_by = Some(cost.model.clone());
        turn.spent.cost = turn.spent.cost.plus(cost.cost.unwrap_or_default());
        if let Some(usage) = &cost.usage {
            turn.usage.add(usage);
            turn.spent.tokens = turn.usage.total_tokens;
            if usage.input_tokens > 0 && cost.prompt_bytes > 0 {
                let (least, most) = crate::llm::TOKENS_PER_KB_BOUNDS;
                let counted = (usage.input_tokens.saturating_mul(1_000) / cost.prompt_bytes).clamp(least, most);
                // The default means that nothing was counted, so that very count is kept as the one beside it.
                self.tokens_per_kb = counted + u64::from(counted == crate::llm::TOKENS_PER_KB);
            }
        }
    }

    pub(super) fn open_call(&mut self, call: &CallId) -> Option<&mut OpenCall> {
        self.open.as_mut()?.step.as_mut()?.call_mut(call)
    }

    /// What stands from now on, when this question is decided beyond its call.
    pub(super) fn stands(&self, approval: &ApprovalId, scope: Scope, allowed: bool, reason: &str) -> Option<Standing> {
        let mut calls = self.open.as_ref()?.step.as_ref()?.calls.iter();
        let asked = calls.find(|open| open.approval.as_ref().is_some_and(|asked| asked.id == *approval))?;
        let tool = asked.approval.as_ref()?.tool.as_ref()?;
        let identity = Identity::of(self.open.as_ref()?.input.context.as_deref());
        Some(Standing::of(&asked.call, tool, scope, (allowed, reason), identity))
    }

    pub(super) fn decide(&mut self, approval: &ApprovalId, allowed: bool, arguments: Option<&Value>, reason: &str) {
        let Some(step) = self.open.as_mut().and_then(|turn| turn.step.as_mut()) else { return };
        for open in &mut step.calls {
            let Some(asked) = open.approval.as_mut().filter(|asked| asked.id == *approval) else { continue };
            asked.allowed = Some(allowed);
            reason.clone_into(&mut asked.reason);
            if let Some(arguments) = arguments {
                let argument_bytes = arguments.to_string().len();
                open.call = Arc::new(ToolCall {
                    arguments: Arc::new(arguments.clone()),
                    argument_bytes,
                    ..(*open.call).clone()
                });
            }
        }
    }

    pub(super) fn result(&mut self, result: &Arc<ToolResult>) {
        let (result, used) = (self.kept(result), result.output.delegated.clone());
        if self.open_call(&result.call).is_none_or(|open| open.result.is_some()) {
            return self.task_ended(&result, used);
        }
        let Some(turn) = &mut self.open else { return };
        let Some(open) = turn.step.as_mut().and_then(|step| step.call_mut(&result.call)) else { return };
        open.result = Some(Arc::clone(&result));
        let given_up = (open.below.is_some() || open.task.is_some() || open.has_child())
            .then(|| (turn.input.turn.clone(), open.clone()));
        let used = match (&open.task, used) {
            // The outcome of its child.
            (_, Some(used)) => Some(used),
            (Some(child), None) if result.status == CallStatus::Ok => {
                self.tasks.begin(&open.call, &turn.input, child);
                None
            }
            (_, None) => self.tasks.read(&open.call, result.status),
        };
        turn.count(used.as_deref());
        let is_complete = turn.step.as_ref().is_some_and(OpenStep::is_complete);
        if let Some((turn, call)) = given_up {
            self.gives_up(&turn, &call, &result);
        }
        if is_complete {
            self.close_step();
        }
    }

    /// Moves a step whose calls are all answered into the history, in call order.
    fn close_step(&mut self) {
        let Some(turn) = &mut self.open else { return };
        let Some(step) = turn.step.take() else { return };
        turn.tripped = step.calls.iter().find_map(|open| open.refused);
        let limits = *turn.limits();
        let calls: Vec<_> = step.calls.iter().map(|open| Arc::clone(&open.call)).collect();
        self.history.push(Arc::new(Message::Assistant { text: step.text, calls }));
        for open in step.calls {
            // A person's no is the end of one call, and no failure of the model.
            let is_refused = open.is_refused();
            let Some(result) = open.result else { continue };
            if !is_refused {
                turn.spent.count_result(result.status, &limits);
            }
            turn.reselects(|reselecting| note(reselecting, &open.call, result.status, is_refused));
            turn.closed.push((open.call, emptied(&result)));
            self.history.push(Arc::new(Message::Tool { result }));
        }
        self.history.append(&mut turn.steered);
    }
}

/// What the end of a call means for the skills of its turn.
fn note(reselecting: &mut Reselecting, call: &ToolCall, status: CallStatus, is_refused: bool) {
    match (status, used_skill(call)) {
        (CallStatus::Ok, Some(skill)) => {
            reselecting.note_result(false);
            reselecting.name(skill);
        }
        (CallStatus::Ok, None) => reselecting.note_result(false),
        // A wrong name of a skill is no failure of the work.
        (CallStatus::Error | CallStatus::Denied | CallStatus::Unknown, _)
            if !is_refused && call.name.as_str() != ToolName::USE_SKILL =>
        {
            reselecting.note_result(true);
        }
        (CallStatus::Error | CallStatus::Denied | CallStatus::Unknown | CallStatus::Cancelled, _) => {}
    }
}

pub(crate) fn used_skill(call: &ToolCall) -> Option<&str> {
    let is_it = call.name.as_str() == ToolName::USE_SKILL;
    call.arguments.get("name").filter(|_| is_it)?.as_str()
}

/// Words of the assistant; providers refuse an assistant message without any.
pub(super) fn said(text: &str) -> Arc<Message> {
    let text = if text.trim().is_empty() { "(no answer)" } else { text };
    Arc::new(Message::assistant(text))
}
