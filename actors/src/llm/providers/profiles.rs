//! What the models of the built-in providers can do, by the beginning of their names. Where nothing better is known a
//! figure is chosen low: too small a context costs some history, too large a one costs the turn.

use super::ProviderKind;
use bob_messages::llm::Capabilities;

/// One line of the table: the longest prefix that fits speaks.
struct Line {
    prefix: &'static str,
    native_tools: bool,
    json_schema: bool,
    context_tokens: u32,
    images: bool,
}

const fn line(prefix: &'static str, context_tokens: u32) -> Line {
    Line { prefix, native_tools: true, json_schema: false, context_tokens, images: false }
}

impl Line {
    const fn schema(self) -> Self {
        Self { json_schema: true, ..self }
    }

    const fn images(self) -> Self {
        Self { images: true, ..self }
    }

    const fn no_tools(self) -> Self {
        Self { native_tools: false, ..self }
    }
}

const OPENAI: &[Line] = &[
    line("", 128_000).schema(),
    line("gpt-3.5", 16_385),
    line("gpt-4", 8_192),
    line("gpt-4-turbo", 128_000).images(),
    line("gpt-4o", 128_000).schema().images(),
    line("gpt-4.1", 1_047_576).schema().images(),
    line("gpt-5", 272_000).schema().images(),
    line("o1", 200_000).schema().images(),
    line("o1-mini", 128_000).no_tools(),
    line("o3", 200_000).schema().images(),
    line("o3-mini", 200_000).schema(),
    line("o4", 200_000).schema().images(),
];
const ANTHROPIC: &[Line] = &[line("", 200_000).images(), line("claude-2", 100_000).no_tools()];
const GEMINI: &[Line] = &[line("", 1_048_576).schema().images(), line("gemma", 32_768).no_tools()];
const XAI: &[Line] = &[line("", 131_072).schema(), line("grok-4", 256_000).schema().images()];
const MISTRAL: &[Line] = &[line("", 32_768).schema(), line("mistral-large", 128_000).schema()];
const FAMILIES: &[Line] = &[line("", 32_768)];
const LARGE: &[Line] = &[line("", 128_000)];
/// A local server keeps a small context unless it is told otherwise.
const OLLAMA: &[Line] = &[
    line("", 4_096).no_tools(),
    line("llama3.1", 4_096),
    line("llama3.2", 4_096),
    line("llama3.3", 4_096),
    line("qwen2.5", 4_096),
    line("qwen3", 4_096),
    line("mistral", 4_096),
    line("gpt-oss", 4_096),
];

/// Whether answers can be bound to a schema in this wire format.
pub(super) fn takes_schemas(kind: ProviderKind) -> bool {
    matches!(kind, ProviderKind::OpenAi | ProviderKind::Gemini | ProviderKind::Xai | ProviderKind::Mistral)
}

pub(super) fn profile(kind: ProviderKind, model: &str) -> Capabilities {
    let table = match kind {
        ProviderKind::OpenAi => OPENAI,
        ProviderKind::Anthropic => ANTHROPIC,
        ProviderKind::Gemini => GEMINI,
        ProviderKind::Xai => XAI,
        ProviderKind::Mistral => MISTRAL,
        ProviderKind::Ollama => OLLAMA,
        ProviderKind::DeepSeek | ProviderKind::Groq | ProviderKind::OpenRouter => LARGE,
        ProviderKind::Together | ProviderKind::Fireworks | ProviderKind::Moonshot => FAMILIES,
    };
    let best = table.iter().filter(|line| model.starts_with(line.prefix)).max_by_key(|line| line.prefix.len());
    match best {
        Some(&Line { prefix: _, native_tools, json_schema, context_tokens, images }) => {
            Capabilities { native_tools, json_schema, context_tokens, images, ..Capabilities::default() }
        }
        None => Capabilities::default(),
    }
}
