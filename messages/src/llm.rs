//! Messages of the LlmActor.

mod error;

pub use error::{LlmError, LlmErrorKind};

use crate::artifact::ArtifactKind;
use crate::breaker::Down;
use crate::chat::{ContentPart, Message, StopReason, Usage};
use crate::context::RequestContext;
use crate::ids::{ModelName, SessionId, TurnId};
use crate::models::{Cost, ModelPrice};
use crate::reply::Reply;
use crate::tools::ToolSet;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The mailbox of the LlmActor.
#[derive(Debug)]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum LlmMessage {
    /// Requests a model's profile. Answered immediately from the configuration.
    Profile { model: ModelName, reply: Reply<Result<Arc<ModelProfile>, LlmError>> },
    /// One model call, with its retries. Abandoning the reply ends it and closes the provider's connection.
    Infer {
        request: Arc<LlmRequest>,
        /// The turn's remaining time in milliseconds: no retry waits longer.
        remaining_ms: u64,
        reply: Reply<Result<Arc<LlmAnswer>, LlmError>>,
    },
    /// How are the providers? Answered at once.
    Providers {
        /// Receives all providers used so far, by name.
        reply: Reply<Vec<ProviderState>>,
    },
}

/// How a provider is, as it can be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderState {
    /// Its name.
    pub provider: String,
    /// How it fails, while its circuit breaker is open; otherwise `None`.
    pub down: Option<Down>,
    /// How an attempt at it last failed, if one ever did.
    pub last_error: Option<String>,
}

/// How the model encodes its decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// One JSON envelope per reply.
    Json,
    /// The provider's own tool calls; plain text is a final answer.
    Native,
}

/// The configured mode; `Auto` follows the model's profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolModeChoice {
    /// Native where the model can, else JSON.
    #[default]
    Auto,
    /// Always the envelope.
    Json,
    /// Always native calls.
    Native,
}

/// Capabilities of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Takes tools and answers with calls.
    pub native_tools: bool,
    /// Takes a JSON schema for its answer.
    pub json_schema: bool,
    /// Takes a system message; without it the instructions go into the first user message.
    pub system_role: bool,
    /// The size of its context in tokens.
    pub context_tokens: u32,
    /// Takes pictures.
    pub images: bool,
    /// Takes sound.
    pub audio: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            native_tools: false,
            json_schema: false,
            system_role: true,
            context_tokens: 8_192,
            images: false,
            audio: false,
        }
    }
}

impl Capabilities {
    /// Whether the model takes a part of this kind.
    pub fn takes(&self, part: &ContentPart) -> bool {
        match part {
            ContentPart::Text { .. } => true,
            ContentPart::Image { .. } => self.images,
            ContentPart::Audio { .. } => self.audio,
            // As text: its content or its address.
            ContentPart::Resource { text, .. } => text.is_some(),
            ContentPart::ResourceLink { .. } => true,
            ContentPart::Artifact(artifact) => match artifact.kind {
                ArtifactKind::Text | ArtifactKind::Json | ArtifactKind::Document => true,
                ArtifactKind::Image => self.images,
                ArtifactKind::Audio => self.audio,
                ArtifactKind::Blob => false,
            },
        }
    }
}

/// A model and its capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// The model.
    pub model: ModelName,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// What it costs, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
    /// Tokens per thousand bytes of a prompt, as the port estimates them.
    #[serde(default = "a_quarter")]
    pub tokens_per_kb: u64,
}

/// Tokens per thousand bytes of a prompt where neither a provider nor a port has said: a quarter.
pub const TOKENS_PER_KB: u64 = 250;

/// Between which bounds a count or an estimate of them is believed.
pub const TOKENS_PER_KB_BOUNDS: (u64, u64) = (50, 2_000);

fn a_quarter() -> u64 {
    TOKENS_PER_KB
}

/// One model call, as the machine asks for it. Plain data; adapters render it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmRequest {
    /// Whose call this is.
    pub session: SessionId,
    /// Of which turn.
    pub turn: TurnId,
    /// The context of the turn's request. It is not part of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<RequestContext>>,
    /// Which step of the turn, from 1.
    pub step: u32,
    /// Which model.
    pub model: ModelName,
    /// Further models, tried in order at outages and rate limits only.
    pub fallback: Arc<[ModelName]>,
    /// Whether the cost of the turn is bounded: only models whose price is known are called then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub priced: bool,
    /// How the model is asked to reply.
    pub mode: ToolMode,
    /// The instructions; empty when the model has no system role.
    pub system: Arc<str>,
    /// The history that fits, the current message last or among the last. In JSON
    /// mode calls and results are already text.
    pub messages: Vec<Arc<Message>>,
    /// The tools on offer; only to be sent in native mode.
    pub tools: Arc<ToolSet>,
    /// The schema of the reply, for providers that take one: in JSON mode that of the
    /// envelope, in native mode that of a structured answer where no tools are on offer.
    pub envelope: Option<Arc<Value>>,
    /// W3C trace context of this call.
    pub traceparent: Arc<str>,
    /// The caller's `tracestate`, which goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<Arc<str>>,
    /// Whether a user is waiting interactively; such calls precede batch work.
    pub interactive: bool,
    /// Whether this is a question beside the conversation: nothing of its answer is shown.
    #[serde(default)]
    pub aside: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl LlmRequest {
    /// How many bytes the prompt has, about; the base of the token estimate.
    pub fn bytes(&self) -> usize {
        self.system.len() + self.messages.iter().map(|message| message.bytes()).sum::<usize>() + self.tool_bytes()
    }

    fn tool_bytes(&self) -> usize {
        match self.mode {
            ToolMode::Native => self.tools.bytes(),
            ToolMode::Json => 0,
        }
    }
}

/// A native tool call as received, unparsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RawCall {
    /// The native name (see [`crate::native`]).
    pub name: String,
    /// The arguments as text; parsing is the machine's work.
    pub arguments: String,
    /// Opaque provider data that must be sent back with the call.
    #[serde(default)]
    pub signatures: Vec<String>,
}

impl RawCall {
    /// A call of this native name, with its arguments as text.
    pub fn new(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { name: name.into(), arguments: arguments.into(), signatures: Vec::new() }
    }

    /// With data of the provider that goes back to it with the call.
    #[must_use]
    pub fn with_signatures(self, signatures: Vec<String>) -> Self {
        Self { signatures, ..self }
    }
}

/// A model's whole answer: the stream was read to its end marker. Made by [`text`](Self::text).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LlmAnswer {
    /// Its text; may be empty beside calls or after a refusal.
    pub text: String,
    /// Its reasoning, if the provider shows it. Never sent back.
    pub reasoning: Option<String>,
    /// Its native calls, in order.
    pub calls: Vec<RawCall>,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// Its usage, if reported.
    pub usage: Option<Usage>,
    /// What it cost, if the price of the model that answered is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The provider's id of this response.
    pub response_id: Option<String>,
    /// The model that answered, as `provider:model`; a fallback names itself here.
    pub model: ModelName,
    /// From the request to the end of the answer, in milliseconds, retries included.
    pub latency_ms: u64,
}

impl LlmAnswer {
    /// An answer of this model that is one text, without calls.
    pub fn text(model: ModelName, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            reasoning: None,
            calls: Vec::new(),
            stop_reason: StopReason::Stop,
            usage: None,
            cost: None,
            response_id: None,
            model,
            latency_ms: 0,
        }
    }

    /// With its reasoning.
    #[must_use]
    pub fn with_reasoning(self, reasoning: Option<String>) -> Self {
        Self { reasoning, ..self }
    }

    /// With these native calls; why it stopped is [`StopReason::ToolCalls`] then, if there are any.
    #[must_use]
    pub fn with_calls(self, calls: Vec<RawCall>) -> Self {
        let stop_reason = if calls.is_empty() { self.stop_reason } else { StopReason::ToolCalls };
        Self { calls, stop_reason, ..self }
    }

    /// With another reason why it stopped.
    #[must_use]
    pub fn with_stop_reason(self, stop_reason: StopReason) -> Self {
        Self { stop_reason, ..self }
    }

    /// With its usage.
    #[must_use]
    pub fn with_usage(self, usage: Option<Usage>) -> Self {
        Self { usage, ..self }
    }

    /// With what it cost. A runtime determines it itself, by its prices.
    #[must_use]
    pub fn with_cost(self, cost: Option<Cost>) -> Self {
        Self { cost, ..self }
    }

    /// With the provider's id of the response.
    #[must_use]
    pub fn with_response_id(self, response_id: Option<String>) -> Self {
        Self { response_id, ..self }
    }

    /// With the time it took. A runtime measures it itself.
    #[must_use]
    pub fn with_latency_ms(self, latency_ms: u64) -> Self {
        Self { latency_ms, ..self }
    }
}
