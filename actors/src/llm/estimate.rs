use super::port::LlmPort;
use bob_messages::chat::Message;
use bob_messages::ids::{ModelName, SessionId, TurnId};
use bob_messages::llm::{LlmRequest, TOKENS_PER_KB, TOKENS_PER_KB_BOUNDS, ToolMode};
use std::sync::Arc;

/// English with some JSON, as most prompts are. What its tokens are per byte, those of a prompt are about. The number of its
/// bytes is a multiple of four: a port that takes a quarter of them is not rounded.
const SAMPLE: &str = "You are an assistant that works for the people of a small company. Answer briefly, and say when you do \
    not know something. Use the tools for orders, invoices and dates; never guess a number. When a call fails, read its \
    error, change the arguments, and try again at most twice. The customer writes: \"Where is the parcel that I ordered on \
    Monday? The number is 40117, I think.\" {\"name\": \"shop/status\", \"arguments\": {\"order\": 40117, \"fields\": [\"state\", \
    \"carrier\", \"expected_at\"]}} {\"state\": \"sent\", \"carrier\": \"post\", \"expected_at\": \"2026-03-14T12:00:00.00Z\"}";

/// Tokens per thousand bytes of a prompt, by the port's estimate of a sample. Prompts are measured by it until the provider has
/// counted one.
pub fn tokens_per_kb(port: &dyn LlmPort, model: &ModelName) -> u64 {
    let Ok(session) = SessionId::parse("estimate") else { return TOKENS_PER_KB };
    let sample = LlmRequest {
        session,
        turn: TurnId::new("estimate"),
        context: None,
        step: 1,
        model: model.clone(),
        fallback: Arc::default(),
        priced: false,
        mode: ToolMode::Native,
        system: Arc::from(""),
        messages: vec![Arc::new(Message::user(SAMPLE))],
        tools: Arc::default(),
        envelope: None,
        traceparent: Arc::from(""),
        tracestate: None,
        interactive: false,
        aside: false,
    };
    let (least, most) = TOKENS_PER_KB_BOUNDS;
    (port.estimate_tokens(&sample).saturating_mul(1_000) / sample.bytes().max(1) as u64).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{DeltaSink, ScriptedLlm};
    use bob_messages::llm::{Capabilities, LlmAnswer, LlmError};
    use futures_util::future::BoxFuture;

    /// Takes each byte for so many tokens.
    struct PerByte(u64, ScriptedLlm);

    impl LlmPort for PerByte {
        fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
            self.1.capabilities(model)
        }

        fn complete_stream(
            &self,
            request: Arc<LlmRequest>,
            model: &ModelName,
            deltas: DeltaSink,
        ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
            self.1.complete_stream(request, model, deltas)
        }

        fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
            self.0 * request.bytes() as u64
        }
    }

    #[test]
    fn a_port_says_how_many_tokens_a_prompt_has_and_is_believed_within_bounds() {
        let (model, scripted) = (ModelName::parse("scripted:m").unwrap(), || ScriptedLlm::new(Vec::new()));
        assert_eq!(tokens_per_kb(&scripted(), &model), TOKENS_PER_KB, "without an estimate of its own");
        for (per_byte, expected) in [(0, 50), (1, 1_000), (9, 2_000), (u64::MAX / 1_000, 2_000)] {
            assert_eq!(tokens_per_kb(&PerByte(per_byte, scripted()), &model), expected);
        }
    }
}
