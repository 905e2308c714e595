//! The providers that need no configuration.

use super::ProviderKind;

/// A provider that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownProvider {
    /// Its name in model names.
    pub name: &'static str,
    /// Its wire format.
    pub kind: ProviderKind,
    /// Its base URL.
    pub base_url: &'static str,
    /// Where its key is looked for, when it needs one.
    pub key_variable: Option<&'static str>,
}

/// All of them.
pub const KNOWN: &[KnownProvider] = &[
    keyed("openai", ProviderKind::OpenAi, "https://api.openai.com/v1/", "OPENAI_API_KEY"),
    keyed("anthropic", ProviderKind::Anthropic, "https://api.anthropic.com/v1/", "ANTHROPIC_API_KEY"),
    keyed("gemini", ProviderKind::Gemini, "https://generativelanguage.googleapis.com/v1beta/", "GEMINI_API_KEY"),
    keyed("groq", ProviderKind::Groq, "https://api.groq.com/openai/v1/", "GROQ_API_KEY"),
    keyed("xai", ProviderKind::Xai, "https://api.x.ai/v1/", "XAI_API_KEY"),
    keyed("deepseek", ProviderKind::DeepSeek, "https://api.deepseek.com/v1/", "DEEPSEEK_API_KEY"),
    keyed("mistral", ProviderKind::Mistral, "https://api.mistral.ai/v1/", "MISTRAL_API_KEY"),
    keyed("openrouter", ProviderKind::OpenRouter, "https://openrouter.ai/api/v1/", "OPENROUTER_API_KEY"),
    keyed("together", ProviderKind::Together, "https://api.together.xyz/v1/", "TOGETHER_API_KEY"),
    keyed("fireworks", ProviderKind::Fireworks, "https://api.fireworks.ai/inference/v1/", "FIREWORKS_API_KEY"),
    keyed("moonshot", ProviderKind::Moonshot, "https://api.moonshot.ai/v1/", "MOONSHOT_API_KEY"),
    KnownProvider {
        name: "ollama",
        kind: ProviderKind::Ollama,
        base_url: "http://localhost:11434/v1/",
        key_variable: None,
    },
];

const fn keyed(
    name: &'static str,
    kind: ProviderKind,
    base_url: &'static str,
    key_variable: &'static str,
) -> KnownProvider {
    KnownProvider { name, kind, base_url, key_variable: Some(key_variable) }
}

pub(super) fn known(name: &str) -> Option<&'static KnownProvider> {
    KNOWN.iter().find(|known| known.name == name)
}
