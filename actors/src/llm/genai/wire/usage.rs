//! The tokens that a provider says an answer took. A count that no answer can have says nothing, and sums have 64 bits.

use super::json::Json;
use bob_messages::chat::Usage;

/// The most tokens that are believed of one count.
const MOST_TOKENS: u64 = i32::MAX as u64;

fn count(said: &Json<'_>, path: &[&str]) -> Option<u64> {
    match said.at(path)? {
        Json::Number(number) => number.as_u64().filter(|count| *count <= MOST_TOKENS),
        _no_number => None,
    }
}

/// A usage of OpenAI's format; `None` when it has no counts. xAI counts the tokens of reasoning beside those of the
/// answer, the others among them.
pub(super) fn openai(said: &Json<'_>, reasons_beside: bool) -> Option<Usage> {
    let count = |path: &[&str]| count(said, path);
    let detail = |path: &[&str]| count(path).filter(|count| *count > 0);
    let (input, output, total) = (count(&["prompt_tokens"]), count(&["completion_tokens"]), count(&["total_tokens"]));
    if input.is_none() && output.is_none() && total.is_none() {
        return None;
    }
    let reasoning_tokens = detail(&["completion_tokens_details", "reasoning_tokens"]);
    let beside = reasoning_tokens.filter(|_| reasons_beside).unwrap_or(0);
    let (input_tokens, output_tokens) = (input.unwrap_or(0), output.unwrap_or(0) + beside);
    Some(Usage {
        input_tokens,
        output_tokens,
        total_tokens: total.unwrap_or(input_tokens + output_tokens),
        cached_input_tokens: detail(&["prompt_tokens_details", "cached_tokens"]),
        cache_write_tokens: ["cache_creation_tokens", "cache_write_tokens"]
            .iter()
            .find_map(|name| detail(&["prompt_tokens_details", name])),
        reasoning_tokens,
    })
}

/// What Anthropic says at the beginning or at the end, beside what it said before. The tokens that were read from a
/// cache, or written to one, are not among its `input_tokens`.
pub(super) fn anthropic(said: &Json<'_>, before: Option<Usage>) -> Option<Usage> {
    let cached = |name: &str| count(said, &[name]).filter(|count| *count > 0);
    let (written, read) = (cached("cache_creation_input_tokens"), cached("cache_read_input_tokens"));
    let (input, output) = (count(said, &["input_tokens"]), count(said, &["output_tokens"]));
    if input.is_none() && output.is_none() && written.is_none() && read.is_none() {
        return before;
    }
    let known = before.unwrap_or_default();
    let input = input.map(|input| input + written.unwrap_or(0) + read.unwrap_or(0));
    let (input_tokens, output_tokens) = (input.unwrap_or(known.input_tokens), output.unwrap_or(known.output_tokens));
    Some(Usage {
        input_tokens,
        output_tokens,
        total_tokens: input_tokens + output_tokens,
        cached_input_tokens: read.or(known.cached_input_tokens),
        cache_write_tokens: written.or(known.cache_write_tokens),
        reasoning_tokens: None,
    })
}

/// A usage of Gemini's format, which counts what its own tools and its thoughts took by themselves.
pub(super) fn gemini(said: &Json<'_>) -> Option<Usage> {
    let count = |name: &str| count(said, &[name]);
    let (prompt, of_tools) = (count("promptTokenCount"), count("toolUsePromptTokenCount"));
    let (answer, thoughts) = (count("candidatesTokenCount"), count("thoughtsTokenCount"));
    let total = count("totalTokenCount");
    if [prompt, of_tools, answer, thoughts, total].iter().all(Option::is_none) {
        return None;
    }
    let input_tokens = prompt.unwrap_or(0) + of_tools.unwrap_or(0);
    let output_tokens = answer.unwrap_or(0) + thoughts.unwrap_or(0);
    Some(Usage {
        input_tokens,
        output_tokens,
        total_tokens: total.unwrap_or(input_tokens + output_tokens),
        cached_input_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: None,
        reasoning_tokens: thoughts,
    })
}
