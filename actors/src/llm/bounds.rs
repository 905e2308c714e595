//! How much an answer may hold, whichever port it comes from.
//!
//! The port of real providers applies these bounds while it reads. Others hand over whole answers, which are judged
//! here before anything of them counts.

use bob_messages::ids::ModelName;
use bob_messages::llm::{LlmAnswer, LlmError, LlmErrorKind};

pub(super) const MOST_CALLS: usize = 256;

/// The most that an answer may hold in text, arguments, reasoning and signatures together, in bytes.
pub(super) const MOST_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// Whether the answer is within the bounds. Errors: `TooLarge`, which no other attempt makes smaller.
pub(super) fn check(answer: &LlmAnswer, model: &ModelName) -> Result<(), LlmError> {
    let too_large = |what: String| Err(LlmError::new(LlmErrorKind::TooLarge, format!("{model} {what}")));
    if answer.calls.len() > MOST_CALLS {
        return too_large(format!("asked for more than {MOST_CALLS} calls in one answer"));
    }
    let of_calls: usize = answer.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    let bytes = answer.text.len() + answer.reasoning.as_ref().map_or(0, String::len) + of_calls;
    // A signature may repeat the thought that it signs, so they are not counted together.
    let signatures: usize = answer.calls.iter().flat_map(|call| &call.signatures).map(String::len).sum();
    if bytes > MOST_ANSWER_BYTES || signatures > 2 * MOST_ANSWER_BYTES {
        return too_large(format!(
            "sent more than {MOST_ANSWER_BYTES} bytes of text, reasoning and arguments in one answer"
        ));
    }
    Ok(())
}
