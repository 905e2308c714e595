//! An answer that must fit a schema: asked for in words and, where the provider takes one,
//! by its schema; judged before it is journaled.
//!
//! Whether an answer fits is a question to whoever can check schemas, with a ticket like
//! any other. What does not fit counts as a malformed reply, and the model is told where.

use super::action;
use super::prompt;
use super::state::{Judging, State};
use super::{Effect, Turn};
use crate::chat::StopReason;
use crate::event::AgentEvent;
use crate::llm::LlmAnswer;
use crate::session::Session;
use crate::store::{Fact, StepCost};
use serde_json::{Map, Value};
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
        let Some(step) = self.session.as_ref().and_then(Session::running).map(|open| open.spent.steps + 1) else {
            return;
        };
        match action::structured(&text) {
            Ok(output) => {
                let awaiting = self.ticket();
                let judging = Judging { awaiting, content: output.to_string(), reply: answer.text.clone(), cost };
                self.state = State::ParseAction(Box::new(judging));
                effects.push(Effect::CheckOutput { ticket: awaiting, schema, output: Arc::new(output) });
            }
            Err(_) if answer.stop_reason == StopReason::MaxTokens => {
                let complaint = "the answer was cut at the token limit before its JSON ended; make it shorter";
                self.malformed(step, answer, complaint.to_owned(), cost, effects);
            }
            Err(complaint) => self.malformed(step, answer, complaint, cost, effects),
        }
    }

    /// The answer was judged.
    pub(super) fn output_checked(&mut self, judging: Judging, result: Result<(), String>, effects: &mut Vec<Effect>) {
        let Some(step) = self.session.as_ref().and_then(Session::running).map(|open| open.spent.steps + 1) else {
            return;
        };
        let Judging { content, reply, cost, .. } = judging;
        match result {
            Ok(()) => {
                self.emit(effects, || AgentEvent::ActionParsed { step, action: "final".to_owned(), tools: Vec::new() });
                self.answered_finally(content, cost, effects);
            }
            Err(misfit) => {
                let complaint = format!("the answer does not fit the schema: {misfit}");
                self.emit(effects, || AgentEvent::ActionMalformed { step, complaint: complaint.clone() });
                self.record_in_turn(Fact::Malformed { text: reply, complaint: prompt::complain(&complaint), cost });
                self.go_on(effects);
            }
        }
    }
}

/// What a model without an envelope is told.
pub(super) fn in_words(schema: &Value) -> String {
    format!(
        "Your final answer must be one JSON value that fits the JSON schema below, with no other text around it.\n{schema}"
    )
}

/// What a model with an envelope is told beside the contract.
pub(super) fn in_words_of_content(schema: &Value) -> String {
    format!("The `content` of a final answer is JSON that fits this JSON schema:\n{schema}")
}

/// A schema as a part of another one: the part, and the definitions it refers to, which
/// belong to the top. `None` for one that refers to anything else, since that would mean
/// something else there.
pub(super) fn as_a_part(schema: &Value) -> Option<(Value, Map<String, Value>)> {
    let mut part = schema.as_object()?.clone();
    part.shift_remove("$schema");
    let mut definitions = Map::new();
    for key in ["$defs", "definitions"] {
        definitions.extend(part.shift_remove_entry(key));
    }
    let part = Value::Object(part);
    let is_told = refers_to_definitions(&part) && definitions.values().all(refers_to_definitions);
    is_told.then_some((part, definitions))
}

fn refers_to_definitions(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(key, said)| match (key.as_str(), said) {
            ("$ref", Value::String(target)) => target.starts_with("#/$defs/") || target.starts_with("#/definitions/"),
            ("$id" | "$anchor" | "$dynamicRef" | "$recursiveRef", Value::String(_)) => false,
            _ => refers_to_definitions(said),
        }),
        Value::Array(items) => items.iter().all(refers_to_definitions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
