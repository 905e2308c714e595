//! An answer that must fit a schema: asked for in words and, where the provider takes one,
//! by its schema; judged before it is journaled.
//!
//! Whether an answer fits is a question with a ticket, answered outside the machine. An answer that does not fit
//! counts as a malformed reply, and the complaint names where it does not.

use super::infer::{parsed, whole_text};
use super::state::{Judging, State};
use super::{Effect, Turn, action};
use crate::chat::StopReason;
use crate::llm::LlmAnswer;
use crate::store::{Reasoning, StepCost};
use serde_json::Value;
use std::sync::Arc;

impl Turn {
    /// A final answer that must fit a schema is judged before anything else is done with it.
    pub(super) fn judge_output(
        &mut self,
        schema: Arc<Value>,
        text: String,
        answer: &LlmAnswer,
        cost: StepCost,
        effects: &mut Vec<Effect>,
    ) {
        let Some(step) = self.open_turn().map(|open| open.spent.steps + 1) else { return };
        match action::structured(&text) {
            Ok(output) => {
                let awaiting = self.ticket();
                let reasoning = answer.reasoning.as_deref().and_then(Reasoning::of);
                let (content, reply) = (output.to_string(), answer.text.clone());
                let judging = Judging { awaiting, content, reply, reasoning, cost };
                self.state = State::ParseAction(Box::new(judging));
                effects.push(Effect::CheckOutput { ticket: awaiting, schema, output: Arc::new(output) });
            }
            Err(_) if answer.stop_reason == StopReason::MaxTokens => {
                let complaint = "the answer was cut at the token limit before its JSON ended; make it shorter";
                self.malformed(step, whole_text(answer), complaint.to_owned(), cost, effects);
            }
            Err(complaint) => self.malformed(step, whole_text(answer), complaint, cost, effects),
        }
    }

    pub(super) fn output_checked(&mut self, judging: Judging, result: Result<(), String>, effects: &mut Vec<Effect>) {
        let Some(step) = self.open_turn().map(|open| open.spent.steps + 1) else { return };
        let Judging { content, reply, reasoning, cost, .. } = judging;
        match result {
            Ok(()) => {
                self.emit(effects, || parsed(step, "final", &[]));
                self.answered_finally(content, reasoning, cost, effects);
            }
            Err(misfit) => {
                let complaint = format!("the answer does not fit the schema: {misfit}");
                self.malformed(step, reply, complaint, cost, effects);
            }
        }
    }
}
