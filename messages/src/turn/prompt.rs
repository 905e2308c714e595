//! Session and tools → what the model reads.
//!
//! The frame (instructions, action contract, envelope schema) is made at the start of a turn, and again when its skills
//! or tools change; each step adds the history that fits. Every layer has a size cap, and `prompt.built` names the layers
//! that were cut. No clock and no randomness: equal sessions and configurations give equal prompts.

use super::layers::{self as layers, Behind, Places, push_paragraph};
use super::skills::Chosen;
use super::{history, output_schema};
use crate::chat::{CallStatus, ContentPart, Message, Usage, complaint};
use crate::event::{AgentEvent, StepEvent};
use crate::ids::{ToolName, TurnId};
use crate::llm::{Capabilities, LlmRequest, ModelProfile, TOKENS_PER_KB, ToolMode, ToolModeChoice};
use crate::models::Cost;
use crate::session_state::{OpenTurn, Session};
use crate::skills::SkillIndex;
use crate::tools::ToolSet;
use crate::turn_config::{PromptLayers, TurnConfig};
use crate::{condense, trace};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// What all prompts of one turn share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Frame {
    pub(super) mode: ToolMode,
    pub(super) profile: Arc<ModelProfile>,
    pub(super) tools: Arc<ToolSet>,
    /// The trace the turn belongs to, and the header of its newest step.
    trace: String,
    #[serde(default)]
    flags: trace::Flags,
    header: (u32, Arc<str>),
    system: Arc<str>,
    envelope: Option<Arc<Value>>,
    cut_layers: Vec<String>,
    /// How many bytes of them were left out.
    #[serde(default)]
    cut_bytes: usize,
    counted: Counted,
    /// What stands for what was before the history.
    #[serde(default)]
    summary: Option<Arc<Message>>,
    /// All tools, with the reader of artifacts: offered once there is something to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with_reader: Option<Arc<ToolSet>>,
    /// What the skills of the turn are chosen from, if it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) skilled: Option<Box<Skilled>>,
}

/// What the skills of a running turn are chosen from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Skilled {
    pub(super) index: Arc<SkillIndex>,
    /// The tools that policy and session leave, without the limits of skills.
    pub(super) offered: Arc<ToolSet>,
    places: Places,
}

/// The tools without the reader of artifacts where there is nothing to read, and all of them for later.
fn split(tools: Arc<ToolSet>, session: &Session) -> (Arc<ToolSet>, Option<Arc<ToolSet>>) {
    match tools.without_reader().filter(|_| !session.has_artifacts()).cloned() {
        Some(plain) => (plain, Some(tools)),
        None => (tools, None),
    }
}

fn summary(session: &Session) -> Option<Arc<Message>> {
    session.summary.as_deref().map(|summary| Arc::new(condense::marked(summary)))
}

impl Frame {
    pub(super) fn new(
        turn_config: &TurnConfig,
        layers: &PromptLayers,
        session: &Session,
        profile: Arc<ModelProfile>,
        (chosen, offered): (Chosen, Arc<ToolSet>),
    ) -> Self {
        let mode = match turn_config.tool_mode {
            ToolModeChoice::Json => ToolMode::Json,
            ToolModeChoice::Native => ToolMode::Native,
            ToolModeChoice::Auto if profile.capabilities.native_tools => ToolMode::Native,
            ToolModeChoice::Auto => ToolMode::Json,
        };
        let (tools, with_reader) = split(chosen.tools, session);
        let instructions = session.options.instructions.as_ref().unwrap_or(&layers.instructions);
        let input = session.running().map(|open| &open.input);
        let output = input.and_then(|input| input.output_schema.as_ref());
        let behind = Behind { mode, tools: &tools, output: output.map(Arc::as_ref) };
        let (system, places, cut) = layers::system(layers, instructions, &chosen.text, behind);
        let skilled = chosen.index.map(|index| Box::new(Skilled { index, offered, places }));
        let envelope = envelope(mode, &profile, output, &tools);
        let trace = input.map(|input| trace::trace_id(&input.turn, input.traceparent.as_deref()));
        let flags = trace::flags(input.and_then(|input| input.traceparent.as_deref()));
        let (trace, header, counted) = (trace.unwrap_or_default(), (0, Arc::default()), Counted::default());
        let (system, summary) = (system.into(), summary(session));
        Self {
            mode,
            profile,
            tools,
            trace,
            flags,
            header,
            system,
            envelope,
            cut_layers: cut.layers,
            cut_bytes: cut.bytes,
            counted,
            summary,
            with_reader,
            skilled,
        }
    }

    /// Other skills than before, with the tools that they leave.
    pub(super) fn set_skills(&mut self, session: &Session, text: &str, tools: Arc<ToolSet>, index: Arc<SkillIndex>) {
        let Some(skilled) = &mut self.skilled else { return };
        let (tools, with_reader) = split(tools, session);
        let output = session.running().and_then(|open| open.input.output_schema.as_ref());
        let behind = Behind { mode: self.mode, tools: &tools, output: output.map(Arc::as_ref) };
        let (system, places) = layers::with_skills(&self.system, skilled.places, text, behind);
        (skilled.index, skilled.places, self.system) = (index, places, system.into());
        self.envelope = envelope(self.mode, &self.profile, output, &tools);
        (self.tools, self.with_reader) = (tools, with_reader);
    }

    /// Offers the reader of artifacts once the session has one to read.
    pub(super) fn offer_reader(&mut self, session: &Session) {
        let Some(tools) = self.with_reader.take_if(|_| session.has_artifacts()) else { return };
        let reader = tools.tools().iter().find(|tool| tool.id.as_str() == ToolName::READ_ARTIFACT);
        if let (ToolMode::Json, Some(reader)) = (self.mode, reader) {
            let mut system = self.system.as_ref().to_owned();
            let line = ToolSet::from(vec![Arc::clone(reader)]);
            push_paragraph(&mut system, &format!("One more tool:\n{}", line.contract().trim_end()));
            self.system = system.into();
        }
        let output = session.running().and_then(|open| open.input.output_schema.as_ref());
        self.envelope = envelope(self.mode, &self.profile, output, &tools);
        self.tools = tools;
    }

    /// The header that carries a step's trace on.
    pub(super) fn traceparent(&mut self, turn: &TurnId, step: u32) -> Arc<str> {
        if self.header.0 != step || self.header.1.is_empty() {
            self.header = (step, trace::step_traceparent(&self.trace, turn, step, self.flags));
        }
        Arc::clone(&self.header.1)
    }

    /// Tokens per thousand bytes of a prompt: as the provider counted them, and before it did as the port estimates them.
    pub(super) fn tokens_per_kb(&self, session: &Session) -> u64 {
        match session.tokens_per_kb {
            TOKENS_PER_KB => self.profile.tokens_per_kb,
            counted => counted,
        }
    }

    /// How many bytes a prompt has that fills this share of the context.
    pub(super) fn fills(&self, percent: u32, session: &Session) -> usize {
        let tokens = u64::from(self.profile.capabilities.context_tokens) * u64::from(percent) / 100;
        usize::try_from(tokens * 1_000 / self.tokens_per_kb(session)).unwrap_or(usize::MAX)
    }

    /// How many of them are left for the history and its summary.
    pub(super) fn room(&self, percent: u32, session: &Session) -> usize {
        self.fills(percent, session).saturating_sub(self.frame_bytes())
    }

    pub(super) fn cost(&self, usage: Option<&Usage>) -> Option<Cost> {
        Some(self.profile.price.as_ref()?.of(usage?))
    }

    fn frame_bytes(&self) -> usize {
        self.system.len() + if self.mode == ToolMode::Native { self.tools.bytes() } else { 0 }
    }

    /// The estimate of a prompt whose history and summary have so many bytes.
    pub(super) fn tokens(&self, bytes: usize, session: &Session) -> u64 {
        (self.frame_bytes() + bytes) as u64 * self.tokens_per_kb(session) / 1_000
    }

    /// How large the history is, with what stands for its beginning.
    pub(super) fn history_bytes(&mut self, session: &Session) -> usize {
        self.counted.bytes_of(&session.history) + self.summary_bytes()
    }

    pub(super) fn summary_bytes(&self) -> usize {
        self.summary.as_ref().map_or(0, |summary| summary.bytes())
    }

    /// The history is another one than it was.
    pub(super) fn history_changed(&mut self, session: &Session) {
        self.counted = Counted::default();
        self.summary = summary(session);
    }

    /// The prompt of the next step, its approximate size in bytes, and its event.
    pub(super) fn request(
        &mut self,
        turn_config: &TurnConfig,
        session: &Session,
        turn: &OpenTurn,
    ) -> (LlmRequest, u64, StepEvent) {
        let for_history = self.room(turn_config.context_percent, session).saturating_sub(self.summary_bytes());
        let (most, whole) = (turn_config.max_history_messages, self.counted.bytes_of(&session.history));
        let fit = history::fit(&session.history, turn.message_at, most, for_history, whole);
        let told = self.summary.iter().chain(fit.messages(&session.history));
        let mut messages: Vec<Arc<Message>> = match self.mode {
            ToolMode::Native => told.cloned().collect(),
            ToolMode::Json => spelled_out(told, &self.profile.capabilities),
        };
        // Then the history has been counted already.
        let is_whole = self.mode == ToolMode::Native && fit.is_everything() && !session.has_media();
        let mut system = Arc::clone(&self.system);
        let is_folded = !self.profile.capabilities.system_role && !system.is_empty();
        if is_folded {
            fold_into_first_user_message(&mut messages, &system);
            system = Arc::from("");
        }
        let step = turn.spent.steps + 1;
        let request = LlmRequest {
            session: session.id.clone(),
            turn: turn.input.turn.clone(),
            context: turn.input.context.clone(),
            step,
            model: turn.model.clone(),
            fallback: Arc::clone(&turn_config.fallback),
            priced: !turn.input.limits.max_cost.is_zero(),
            mode: self.mode,
            system,
            messages,
            tools: Arc::clone(&self.tools),
            envelope: self.envelope.clone(),
            traceparent: self.traceparent(&turn.input.turn, step),
            tracestate: turn.input.tracestate.clone(),
            interactive: turn.input.interactive,
            aside: false,
        };
        let bytes = match is_whole && !is_folded {
            true => self.frame_bytes() + self.summary_bytes() + whole,
            false => request.bytes(),
        } as u64;
        let event = AgentEvent::PromptBuilt {
            messages: request.messages.len(),
            estimated_tokens: bytes * self.tokens_per_kb(session) / 1_000,
            dropped_messages: fit.dropped(),
            cut_layers: self.cut_layers.clone(),
            cut_bytes: self.cut_bytes,
        };
        (request, bytes, event.in_step(step))
    }
}

/// How large the history is. Each message is counted once, until condensing changes the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Counted {
    messages: usize,
    bytes: usize,
}

impl Counted {
    fn bytes_of(&mut self, history: &[Arc<Message>]) -> usize {
        let new = history.get(self.messages..).unwrap_or_default();
        self.bytes += new.iter().map(|message| message.bytes()).sum::<usize>();
        self.messages = history.len();
        self.bytes
    }
}

/// The schema of a reply, for a provider that takes one.
fn envelope(
    mode: ToolMode,
    profile: &ModelProfile,
    output: Option<&Arc<Value>>,
    tools: &ToolSet,
) -> Option<Arc<Value>> {
    match (mode, output) {
        _ if !profile.capabilities.json_schema => None,
        (ToolMode::Json, None) => Some(Arc::new(schema(tools, json!({"type": "string"})))),
        (ToolMode::Json, Some(output)) => schema_with(tools, output).map(Arc::new),
        (ToolMode::Native, Some(output)) if tools.is_empty() => Some(Arc::clone(output)),
        (ToolMode::Native, _) => None,
    }
}

/// The envelope as a schema: one branch per tool, since a general object would be
/// made strict by providers and then allow nothing.
fn schema(tools: &ToolSet, content: Value) -> Value {
    let branch = |kind: &str, field: &str, said: Value| {
        json!({"type": "object", "additionalProperties": false, "required": ["type", field],
               "properties": {"type": {"type": "string", "enum": [kind]}, field: said}})
    };
    let question = branch("ask_user", "question", json!({"type": "string"}));
    let mut branches = vec![branch("final", "content", content), question];
    branches.extend(tools.tools().iter().map(|tool| {
        json!({"type": "object", "additionalProperties": false, "required": ["type", "name", "arguments"],
               "properties": {"type": {"type": "string", "enum": ["tool_call"]},
                              "name": {"type": "string", "enum": [tool.id]}, "arguments": tool.schema}})
    }));
    json!({ "anyOf": branches })
}

/// The envelope for a turn whose final answer has a schema of its own; `None` when that schema cannot be nested.
fn schema_with(tools: &ToolSet, output: &Value) -> Option<Value> {
    let (content, definitions) = output_schema::as_a_part(output)?;
    let mut schema = schema(tools, content);
    schema.as_object_mut()?.extend(definitions);
    Some(schema)
}

/// The messages for a model without native tool calls: calls are JSON envelopes, results are messages of the user.
fn spelled_out<'a>(messages: impl Iterator<Item = &'a Arc<Message>>, capabilities: &Capabilities) -> Vec<Arc<Message>> {
    let messages: Vec<_> = messages.collect();
    let mut spelled: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        match &***message {
            Message::User { .. } => spelled.push(Arc::clone(message)),
            Message::Assistant { text, calls } if calls.is_empty() => {
                let refused = messages.get(at + 1).is_some_and(|next| complaint(next).is_some());
                let said = if refused { text.clone() } else { json!({"type": "final", "content": text}).to_string() };
                spelled.push(Arc::new(Message::assistant(said)));
            }
            Message::Assistant { calls, .. } => {
                let envelopes = calls.iter().map(|call| match call.arguments.get("question") {
                    Some(question) if call.name.is_ask_user() => json!({"type": "ask_user", "question": question}),
                    _ => json!({"type": "tool_call", "name": call.name, "arguments": call.arguments}),
                });
                let said: Vec<_> = envelopes.map(|envelope| envelope.to_string()).collect();
                spelled.push(Arc::new(Message::assistant(said.join("\n"))));
            }
            Message::Tool { result } => {
                let head = match result.status {
                    _ if result.name.as_str() == ToolName::ASK_USER => String::new(),
                    CallStatus::Ok => format!("Result of {}:\n", result.name),
                    CallStatus::Error | CallStatus::Denied | CallStatus::Unknown | CallStatus::Cancelled => {
                        format!("{} failed:\n", result.name)
                    }
                };
                let is_shown = |part: &&ContentPart| !part.is_text() && capabilities.takes(part);
                let said = ContentPart::text(head + &result.output.for_model());
                let shown = result.output.parts.iter().filter(is_shown).cloned();
                let parts = std::iter::once(said).chain(shown).collect();
                spelled.push(Arc::new(Message::User { parts }));
            }
        }
    }
    spelled
}

fn fold_into_first_user_message(messages: &mut Vec<Arc<Message>>, system: &str) {
    let instructions = ContentPart::text(system);
    match messages.first().map(Arc::as_ref) {
        Some(Message::User { parts }) => {
            let parts = std::iter::once(instructions).chain(parts.iter().cloned()).collect();
            messages[0] = Arc::new(Message::User { parts });
        }
        _ => messages.insert(0, Arc::new(Message::User { parts: vec![instructions] })),
    }
}
