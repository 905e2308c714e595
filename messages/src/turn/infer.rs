//! BuildPrompt, LlmInfer, ParseAction: from the history to what the model decided.

use super::action::{self, Asked, Understood};
use super::state::State;
use super::{Effect, Turn, TurnMessage};
use crate::chat::{ToolCall, complain, complaint};
use crate::error::AgentError;
use crate::event::{self, AgentEvent, StepEvent};
use crate::ids::{CallId, Ticket};
use crate::llm::{LlmAnswer, LlmError, LlmErrorKind, LlmRequest};
use crate::session_state::Session;
use crate::store::{Answered, Fact, Reasoning, StepCost};
use crate::submission::TurnNews;
use crate::tools::{ToolSet, ToolTitle};
use std::sync::Arc;

impl Turn {
    /// Guards, then the next prompt.
    pub(super) fn build_prompt(&mut self, effects: &mut Vec<Effect>) {
        if self.frame.is_none() {
            return;
        }
        let Some(open) = self.open_turn() else { return };
        if let Some(guard) = open.spent.forbids_step(open.limits()) {
            if !self.ask_at_limit(guard, effects) {
                self.trip(guard, effects);
            }
            return;
        }
        if self.start_reselection(effects) {
            return;
        }
        let (Some(session), Some(turn_config), Some(frame)) = (&self.session, &self.turn_config, &mut self.frame)
        else {
            return;
        };
        let Some(open) = session.running() else { return };
        frame.offer_reader(session);
        if let Some(plan) = frame.plan(turn_config, session, open) {
            return self.condense(plan, effects);
        }
        let (request, prompt_bytes, built) = frame.request(turn_config, session, open);
        self.emit(effects, || built);
        self.write_snapshot();
        // A model call takes long: the records so far are stored now and not after it.
        self.flush(effects);
        let ticket = self.ticket();
        self.state = State::LlmInfer { awaiting: ticket, asked: false, prompt_bytes, seen: None };
        effects.push(Effect::Tell(TurnMessage::LlmInfer { ticket, request: Arc::new(request) }));
    }

    /// The prompt goes to the model; the mailbox stays free.
    pub(super) fn infer(
        &mut self,
        ticket: Ticket,
        request: Arc<LlmRequest>,
        prompt_bytes: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(open) = self.open_turn() else { return };
        let limits = open.limits();
        let left_ms = self.now.left_of(limits.turn_timeout_ms);
        // A turn that asks a person before it ends without progress is ended by that decision.
        let remaining_ms = if self.may_ask_beyond() { left_ms } else { limits.longest_wait_ms(left_ms) };
        self.emit(effects, || AgentEvent::LlmRequested { model: request.model.clone() }.in_step(request.step));
        self.state = State::LlmInfer { awaiting: ticket, asked: true, prompt_bytes, seen: None };
        effects.push(Effect::Infer { ticket, request, remaining_ms });
    }

    /// Parses the model's answer: into an action, or a complaint with which the model is asked again.
    pub(super) fn parse_action(
        &mut self,
        result: Result<Arc<LlmAnswer>, LlmError>,
        prompt_bytes: u64,
        effects: &mut Vec<Effect>,
    ) {
        self.progressed(effects);
        let (Some(session), Some(frame), Some(turn_config)) = (&self.session, &self.frame, &self.turn_config) else {
            return;
        };
        let Some(open) = session.running() else { return };
        let step = open.spent.steps + 1;
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                let error = AgentError::Llm(error);
                self.emit(effects, || AgentEvent::LlmFailed { error: error.clone() }.in_step(step));
                return self.fail(error, effects);
            }
        };
        let cost = StepCost {
            usage: answer.usage,
            prompt_bytes,
            stop_reason: answer.stop_reason,
            response_id: answer.response_id.clone(),
            model: answer.model.clone(),
            latency_ms: answer.latency_ms,
            // The turn's price is that of another model where a fallback answered.
            cost: answer.cost.or_else(|| match turn_config.fallback.contains(&answer.model) {
                true => None,
                false => frame.cost(answer.usage.as_ref()),
            }),
        };
        self.emit(effects, || event::completed(step, &cost));
        let reasoning = answer.reasoning.as_deref().and_then(Reasoning::of);
        let schema = open.input.output_schema.as_ref();
        match action::understand(frame.mode, &answer, &frame.tools, schema.is_some()) {
            Ok(Understood::Final(text)) => {
                if let Some(schema) = schema.cloned() {
                    return self.judge_output(schema, text, &answer, cost, effects);
                }
                self.emit(effects, || parsed(step, "final", &[]));
                self.answered_finally(text, reasoning, cost, effects);
            }
            Ok(Understood::Calls(text, asked)) => {
                let calls = numbered(session.calls, asked);
                let tools = titles(&calls, &frame.tools);
                let question = calls.iter().all(|call| call.name.is_ask_user());
                self.emit(effects, || parsed(step, if question { "ask_user" } else { "tool_call" }, &calls));
                self.answered(Answered { text, calls, tools, reasoning, cost }, effects);
                self.enter_calls(effects);
            }
            Err(complaint) => self.malformed(step, whole_text(&answer), complaint, cost, effects),
        }
    }

    /// A final answer ends the turn, unless a steer message came after it.
    pub(super) fn answered_finally(
        &mut self,
        text: String,
        reasoning: Option<Reasoning>,
        cost: StepCost,
        effects: &mut Vec<Effect>,
    ) {
        let (calls, tools) = (Vec::new(), Vec::new());
        self.answered(Answered { text: text.clone(), calls, tools, reasoning, cost }, effects);
        if self.is_steered_on() {
            return self.go_on(effects);
        }
        self.finish_final(text, effects);
    }

    /// Reports and journals an answer that was understood.
    fn answered(&mut self, answered: Answered, effects: &mut Vec<Effect>) {
        if let Some(open) = self.open_turn().filter(|_| !self.unwatched)
            && let Some(told) = event::answered(&open.input.turn, open.spent.steps + 1, &answered)
        {
            self.emit(effects, || told);
        }
        self.record_in_turn(Fact::Answered(Box::new(answered)));
    }

    pub(super) fn malformed(
        &mut self,
        step: u32,
        text: String,
        complaint: String,
        cost: StepCost,
        effects: &mut Vec<Effect>,
    ) {
        self.emit(effects, || AgentEvent::ActionMalformed { complaint: complaint.clone() }.in_step(step));
        self.record_in_turn(Fact::Malformed { text, complaint: complain(&complaint), cost: Box::new(cost) });
        self.go_on(effects);
    }

    /// What follows from the journal when no step is open: the end of the turn at a
    /// forbidden call or a second malformed reply, else the next prompt.
    pub(super) fn go_on(&mut self, effects: &mut Vec<Effect>) {
        self.progressed(effects);
        let Some(session) = &self.session else { return };
        let Some(open) = session.running() else { return };
        if let Some(guard) = open.tripped {
            return self.trip(guard, effects);
        }
        if open.malformed_in_a_row >= 2 {
            let complaint = session.history.iter().rev().find_map(|message| complaint(message));
            let complaint = complaint.unwrap_or_default();
            let message = format!("the model's reply was malformed twice in a row ({complaint}); try another model");
            return self.fail(AgentError::Llm(LlmError::new(LlmErrorKind::Malformed, message)), effects);
        }
        self.state = State::BuildPrompt;
        effects.push(match self.may_be_left() {
            true => Effect::Report(TurnNews::BetweenSteps),
            false => Effect::Tell(TurnMessage::BuildPrompt),
        });
    }

    /// Whether another process is to continue the turn, and nothing works for the session here. A sub-agent is left with its
    /// caller, whose call is in flight.
    pub(super) fn may_be_left(&self) -> bool {
        let works_below = |session: &Session| session.tasks.iter().any(|task| task.result.is_none());
        self.hands_over && !self.is_sub_agent() && !self.session.as_ref().is_some_and(works_below)
    }
}

pub(super) fn parsed(step: u32, action: &str, calls: &[Arc<ToolCall>]) -> StepEvent {
    let tools = calls.iter().map(|call| call.name.clone()).collect();
    AgentEvent::ActionParsed { action: action.to_owned(), tools }.in_step(step)
}

/// What people are shown of the calls' tools; nothing, when none of them is known.
fn titles(calls: &[Arc<ToolCall>], tools: &ToolSet) -> Vec<ToolTitle> {
    let title = |call: &Arc<ToolCall>| tools.get(&call.name).map(|tool| tool.shown()).unwrap_or_default();
    let titles: Vec<_> = calls.iter().map(title).collect();
    if titles.iter().all(ToolTitle::is_unknown) { Vec::new() } else { titles }
}

/// Calls with ids that are unique in their session.
fn numbered(before: u64, asked: Vec<Asked>) -> Vec<Arc<ToolCall>> {
    let call = |(number, asked): (u64, Asked)| {
        Arc::new(ToolCall {
            id: CallId::numbered(number),
            name: asked.name,
            arguments: asked.arguments.into(),
            argument_bytes: asked.argument_bytes,
            signatures: asked.signatures,
        })
    };
    (before + 1..).zip(asked).map(call).collect()
}

/// The text of an answer with its calls, as it is journaled when it is malformed.
pub(super) fn whole_text(answer: &LlmAnswer) -> String {
    let calls = answer.calls.iter().map(|call| format!("\n{}({})", call.name, call.arguments));
    answer.text.clone() + &calls.collect::<String>()
}
