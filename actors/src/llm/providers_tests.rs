//! A well-known provider needs no configuration; whatever is missing is said by name.

use super::*;
use secrecy::ExposeSecret;

fn model(name: &str) -> ModelName {
    ModelName::parse(name).unwrap()
}

fn one_key(name: &str) -> Option<String> {
    (name == "OPENAI_API_KEY").then(|| " sk-test\n".to_owned())
}

fn nothing(_name: &str) -> Option<String> {
    None
}

#[test]
fn a_well_known_provider_needs_only_its_key() {
    let openai = Provider::known("openai", &one_key).unwrap();
    assert_eq!(openai.base_url, "https://api.openai.com/v1/");
    assert_eq!(openai.key.as_ref().map(ExposeSecret::expose_secret), Some("sk-test"));
    let can = openai.capabilities(&model("openai:gpt-4o-mini")).unwrap();
    assert!(can.native_tools && can.json_schema && can.images && can.context_tokens == 128_000);
}

#[test]
fn a_missing_key_is_named_and_is_a_usage_error() {
    for (name, variable) in
        [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GEMINI_API_KEY")]
    {
        let error = Provider::known(name, &nothing).unwrap().capabilities(&model(&format!("{name}:m"))).unwrap_err();
        assert!(error.kind == LlmErrorKind::MissingKey && error.is_usage());
        assert_eq!(error.message, format!("no key for provider {name}: set the environment variable {variable}"));
    }
    let blank = Provider::known("openai", &|_| Some("  ".into())).unwrap();
    assert_eq!(blank.capabilities(&model("openai:m")).unwrap_err().kind, LlmErrorKind::MissingKey);
}

#[test]
fn configuration_adds_and_overrides() {
    let local = ProviderConfig {
        name: "local".into(),
        base_url: Some("http://127.0.0.1:8091/v1".into()),
        max_concurrent: Some(1),
        capabilities: CapabilityOverrides { native_tools: Some(true), ..CapabilityOverrides::default() },
        ..ProviderConfig::default()
    };
    let local = Provider::resolve(&local, &nothing).unwrap();
    assert_eq!((local.kind, local.base_url.as_str()), (ProviderKind::OpenAi, "http://127.0.0.1:8091/v1/"));
    assert_eq!(local.limits, ProviderLimits { timeout_ms: 30_000, max_concurrent: 1 });
    let expected = Capabilities { native_tools: true, ..Capabilities::default() };
    assert_eq!(local.capabilities(&model("local:smollm2")).unwrap(), expected);

    let moved = ProviderConfig {
        name: "openai".into(),
        base_url: Some("http://proxy/".into()),
        key: Some(KeySource::Env("TEAM_KEY".into())),
        ..ProviderConfig::default()
    };
    let moved = Provider::resolve(&moved, &nothing).unwrap();
    assert_eq!(moved.base_url, "http://proxy/");
    assert!(moved.capabilities(&model("openai:gpt-4o")).unwrap_err().message.contains("TEAM_KEY"));
}

#[test]
fn a_provider_nobody_knows_is_refused_with_the_names_that_are() {
    let config = ProviderConfig { name: "opnai".into(), ..ProviderConfig::default() };
    let error = Provider::resolve(&config, &nothing).unwrap_err();
    assert_eq!(error.message, r#"provider "opnai" is not built in: give [providers.opnai] a base_url"#);
    let error = unknown_provider("opnai", &["local"]);
    assert!(error.is_usage() && error.message.contains("groq, local, mistral"), "{error}");
}

#[test]
fn the_longest_prefix_speaks() {
    let openai = Provider::known("openai", &one_key).unwrap();
    for (name, context) in [("gpt-4", 8_192), ("gpt-4.1-mini", 1_047_576), ("gpt-4o", 128_000), ("o3-mini", 200_000)] {
        assert_eq!(openai.capabilities(&model(&format!("openai:{name}"))).unwrap().context_tokens, context, "{name}");
    }
}

#[test]
fn a_key_is_never_in_a_debug_text() {
    let openai = Provider::known("openai", &one_key).unwrap();
    assert!(!format!("{openai:?}").contains("sk-test"));
}
