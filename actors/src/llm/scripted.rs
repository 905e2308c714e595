//! A model that answers from a small script, for tests, demonstrations and soak.
//!
//! It keeps nothing between calls: what it answers follows from the request alone, so any number of sessions share one
//! script. Without a delay it answers at once, without a timer or a lock.

mod rules;

use super::deltas::DeltaSink;
use super::port::{LlmPort, ProviderLimits};
use bob_messages::chat::{StopReason, Usage};
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest, RawCall, ToolMode};
use futures_util::future::BoxFuture;
pub use rules::{ScriptedCall, ScriptedReply, ScriptedRule};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A model whose answers are written down.
pub struct ScriptedLlm {
    script: Script,
    capabilities: Capabilities,
    limits: ProviderLimits,
}

enum Script {
    Rules {
        rules: Vec<ScriptedRule>,
        /// Whether no reply takes time.
        are_at_hand: bool,
    },
    Function(Box<dyn Fn(&LlmRequest) -> ScriptedReply + Send + Sync>),
}

impl ScriptedLlm {
    /// A model with these rules; of those that fit, the first one answers.
    pub fn new(rules: Vec<ScriptedRule>) -> Self {
        let are_at_hand = rules.iter().all(ScriptedRule::is_at_hand);
        Self::of(Script::Rules { rules, are_at_hand })
    }

    /// Reads the rules of a script file: a JSON list.
    ///
    /// # Errors
    /// When the text is not such a list; the error says where.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        Ok(Self::new(serde_json::from_str(text)?))
    }

    /// In every turn, the first reply answers the first step, and so on; the last one answers all further steps.
    pub fn replies(replies: Vec<ScriptedReply>) -> Self {
        Self::new(vec![ScriptedRule { when: None, replies, delay_ms: 0, stall: false }])
    }

    /// A model that makes each answer from its request.
    pub fn from_fn(answer: impl Fn(&LlmRequest) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self::of(Script::Function(Box::new(answer)))
    }

    fn of(script: Script) -> Self {
        let capabilities =
            Capabilities { native_tools: true, json_schema: true, context_tokens: 128_000, ..Capabilities::default() };
        Self { script, capabilities, limits: ProviderLimits::default() }
    }

    /// Replaces the capabilities; without native tools the model is asked in JSON mode.
    #[must_use]
    pub fn with_capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Replaces the limits: how long it may be silent, which bounds `delay_ms` and a stall, and how many calls it has at once.
    #[must_use]
    pub fn with_limits(self, limits: ProviderLimits) -> Self {
        Self { limits, ..self }
    }

    fn reply(&self, request: &LlmRequest) -> Result<Step, LlmError> {
        match &self.script {
            Script::Function(answer) => Ok(Step { reply: answer(request), delay_ms: 0, stall: false }),
            Script::Rules { rules, .. } => {
                let rule = rules::matching(rules, request).ok_or_else(|| not_scripted(request))?;
                let reply = rule.reply(request.step).ok_or_else(|| not_scripted(request))?;
                Ok(Step { reply: reply.clone(), delay_ms: rule.delay_ms, stall: rule.stall })
            }
        }
    }
}

struct Step {
    reply: ScriptedReply,
    delay_ms: u64,
    stall: bool,
}

/// A script could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the script of the scripted model is not a JSON list of rules: {0}")]
pub struct ScriptError(#[from] serde_json::Error);

impl std::fmt::Debug for ScriptedLlm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedLlm").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

impl LlmPort for ScriptedLlm {
    /// The capabilities do not depend on the model's name.
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(self.capabilities.clone())
    }

    fn limits(&self, _provider: &str) -> ProviderLimits {
        self.limits
    }

    /// A function may do anything.
    fn is_at_hand(&self, _request: &LlmRequest) -> bool {
        matches!(self.script, Script::Rules { are_at_hand: true, .. })
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let model = model.clone();
        Box::pin(async move {
            let Step { reply, delay_ms, stall } = self.reply(&request)?;
            if delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            let (text, calls) = said(reply, request.mode).await?;
            if deltas.is_read() {
                pieces(&text).for_each(|piece| deltas.text(piece));
            }
            if stall {
                std::future::pending::<()>().await;
            }
            Ok(answer(&request, model, text, calls))
        })
    }
}

/// What the model puts on the wire for a reply. Envelopes begin with their type, as
/// models write them, so that a final one can be shown while it grows.
async fn said(reply: ScriptedReply, mode: ToolMode) -> Result<(String, Vec<RawCall>), LlmError> {
    Ok(match (reply, mode) {
        (ScriptedReply::Malformed(text), _) | (ScriptedReply::Text(text), ToolMode::Native) => (text, Vec::new()),
        (ScriptedReply::Text(text), ToolMode::Json) => {
            (format!(r#"{{"type":"final","content":{}}}"#, Value::String(text)), Vec::new())
        }
        (ScriptedReply::Calls(calls), ToolMode::Native) => {
            (String::new(), calls.into_iter().map(ScriptedCall::raw).collect())
        }
        // One envelope holds one call.
        (ScriptedReply::Calls(calls), ToolMode::Json) => match calls.into_iter().next() {
            Some(ScriptedCall { name, arguments }) => {
                let name = Value::String(name);
                (format!(r#"{{"type":"tool_call","name":{name},"arguments":{arguments}}}"#), Vec::new())
            }
            None => (String::new(), Vec::new()),
        },
        (ScriptedReply::Error(kind), _) => {
            return Err(LlmError::new(kind, "the scripted model was told to fail"));
        }
        (ScriptedReply::Stall, _) => std::future::pending().await,
    })
}

fn answer(request: &LlmRequest, model: ModelName, text: String, calls: Vec<RawCall>) -> LlmAnswer {
    let called: usize = calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    let input_tokens = request.bytes().div_ceil(4) as u64;
    let output_tokens = (text.len() + called).div_ceil(4) as u64;
    let stop_reason = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls };
    LlmAnswer::text(model, text).with_calls(calls).with_stop_reason(stop_reason).with_usage(Some(Usage {
        input_tokens,
        output_tokens,
        total_tokens: input_tokens + output_tokens,
        ..Usage::default()
    }))
}

fn not_scripted(request: &LlmRequest) -> LlmError {
    let LlmRequest { session, step, .. } = request;
    let text = format!("the script has no answer for step {step} of session {session}: add a rule whose \"when\" fits");
    LlmError::new(LlmErrorKind::NotScripted, text)
}

/// The text word by word, as a model would stream it.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

#[cfg(test)]
#[path = "scripted_tests.rs"]
mod tests;
