//! The configuration that ships: it loads, it explains every key, and it says the defaults that are really used.

use std::path::Path;

use super::keys::KEYS;
use super::{Config, Environment, Overrides, ProviderKind, parse};

/// Every key of the contract, as a table and a key.
const CONTRACT: &[(&str, &[&str])] = &[
    (
        "[runtime]",
        &[
            "default_model",
            "max_steps",
            "max_tool_calls",
            "max_consecutive_errors",
            "max_identical_calls",
            "max_total_tokens",
            "turn_timeout_ms",
            "tool_timeout_ms",
            "approval_timeout_ms",
            "suspend_timeout_ms",
            "max_history_messages",
            "max_concurrent_turns",
            "passivate_after_ms",
            "shutdown_grace_ms",
            "on_restart",
        ],
    ),
    ("[llm]", &["tool_mode", "retry_max", "timeout_ms", "stream_default", "fallback"]),
    (
        "[providers.local]",
        &["kind", "base_url", "api_key", "timeout_ms", "max_concurrent", "start", "capabilities", "script"],
    ),
    ("[prices.", &["input", "output", "cached_input", "cache_write", "currency"]),
    (
        "[policy]",
        &["workspace", "allow_tools", "deny_tools", "deny_commands", "max_payload_bytes", "require_high_risk_approval"],
    ),
    ("[tools.", &["risk", "timeout_ms", "idempotent"]),
    (
        "[[mcp.servers]]",
        &[
            "id",
            "transport",
            "command",
            "args",
            "env",
            "tools",
            "start",
            "required",
            "tool_timeout_ms",
            "startup_timeout_ms",
            "url",
            "headers",
        ],
    ),
    (
        "[prompt]",
        &[
            "instructions",
            "files",
            "bootstrap",
            "memory",
            "tool_notes",
            "condense_trigger_ratio",
            "condense_target_ratio",
            "condense_model",
        ],
    ),
    ("[[skills.sources]]", &["type", "path", "recursive"]),
    ("[skills]", &["top_k", "token_budget_ratio", "token_budget_tokens"]),
    ("[store]", &["kind", "path"]),
    ("[log]", &["level", "format"]),
];

fn example() -> Config {
    let nothing = Environment::default();
    match parse(Config::example(), Path::new("agent.toml"), &nothing, &Overrides::default()) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

/// The example with every key that is left at its default switched on.
fn example_in_full() -> String {
    let is_key = |line: &str| {
        let text = line.strip_prefix("# ")?;
        let word = text.split([' ', '=']).next().unwrap_or_default();
        let is_assignment =
            text[word.len()..].starts_with(" = ") && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        (text.starts_with('[') || is_assignment).then(|| text.to_owned())
    };
    let lines = Config::example().lines().map(|line| is_key(line).unwrap_or_else(|| line.to_owned()));
    let contradictions = ["script = ", "token_budget_tokens = "];
    lines.filter(|line| !contradictions.iter().any(|key| line.starts_with(key))).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_shipped_configuration_says_what_it_should() {
    let config = example();
    assert_eq!(config.runtime.default_model, "local:smollm2-135m");
    assert_eq!(config.store.kind, Config::default().store.kind);
    let local = &config.providers["local"];
    assert_eq!(local.kind, Some(ProviderKind::Openai));
    let start = local.start.as_ref().expect("the local model is started");
    assert_eq!(
        (start.command.as_str(), start.args.as_slice()),
        ("sh", ["scripts/local-model.sh".to_owned()].as_slice())
    );
    assert_eq!(start.ready_timeout_ms, 180_000);
    assert_eq!(local.capabilities.as_ref().and_then(|model| model.context_tokens), Some(8192));
}

#[test]
fn the_shipped_configuration_names_every_key_of_the_contract_in_order() {
    let text = Config::example();
    let mut at = 0;
    for (table, keys) in CONTRACT {
        let found = text[at..].match_indices(table).map(|(found, _)| at + found);
        let is_header = |found: usize| ["", "# "].contains(&text[..found].rsplit('\n').next().unwrap_or_default());
        at = found.into_iter().find(|found| is_header(*found)).unwrap_or_else(|| panic!("{table} is missing or late"));
        for key in *keys {
            let is_set = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} ="));
            assert!(text[at..].lines().any(is_set), "{key} of {table} is missing");
        }
    }
}

#[test]
fn each_key_of_the_example_has_an_explanation() {
    let lines: Vec<&str> = Config::example().lines().collect();
    for pair in lines.windows(2) {
        let is_key = pair[1].split_once(" = ").is_some_and(|(key, _)| !key.starts_with('#'));
        assert!(!is_key || pair[0].starts_with("# "), "{} is not explained", pair[1]);
    }
}

#[test]
fn every_accepted_key_is_in_the_example_and_the_example_in_full_is_accepted() {
    let text = example_in_full();
    let environment = Environment::from([("MY_OTHER_KEY", "k"), ("SEARCH_TOKEN", "t")]);
    let config = parse(&text, Path::new("agent.toml"), &environment, &Overrides::default());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.mcp.servers.len(), 2);
    assert_eq!(config.skills.sources.len(), 1);
    assert_eq!(config.prices.len(), 1);
    for (key, _) in KEYS {
        let name = key.rsplit('.').next().unwrap_or_default();
        let explained = Config::example();
        assert!(explained.contains(&format!("{name} = ")) || explained.contains(&format!("and {name} (")), "{key}");
    }
}

#[test]
fn what_the_example_leaves_out_has_the_default_it_states() {
    let bare = "runtime.default_model = \"local:smollm2-135m\"";
    let file = Path::new("agent.toml");
    let bare = parse(bare, file, &Environment::default(), &Overrides::default()).expect("one key is enough");
    let example = example();
    assert_eq!(format!("{:?}", bare.runtime), format!("{:?}", example.runtime));
    assert_eq!(format!("{:?}", bare.llm), format!("{:?}", example.llm));
    assert_eq!(format!("{:?}", bare.store), format!("{:?}", example.store));
    assert_eq!(format!("{:?}", bare.log), format!("{:?}", example.log));
    assert_eq!(bare.policy.deny_tools, example.policy.deny_tools);
    assert_eq!(bare.policy.deny_commands, example.policy.deny_commands);
    assert_eq!(bare.policy.allow_tools, ["*"]);
    assert_eq!(bare.prompt.memory, example.prompt.memory);
}

#[test]
fn the_table_of_keys_and_the_schema_know_the_same_keys() {
    // A date is the wrong type for every key, so a key the schema knows is a wrong type and never an unknown key.
    for (key, _) in KEYS.iter().filter(|(key, _)| *key != "providers.*.kind") {
        let line = match key.split_once(".*.") {
            Some((table @ ("mcp.servers" | "skills.sources"), key)) => format!("[[{table}]]\n{key} = 2026-01-01"),
            _ => format!("{} = 2026-01-01", key.replace(".*.", ".\"local/x\".")),
        };
        let line = format!("providers.s.kind = 'scripted'\n{}", line.replace("providers.\"local/x\"", "providers.s"));
        let error = parse(&line, Path::new("agent.toml"), &Environment::default(), &Overrides::default());
        let messages: Vec<String> =
            error.expect_err("a date fits nowhere").problems().iter().map(|problem| problem.message.clone()).collect();
        let is_wrong_type = |message: &String| message.contains("found a date or time");
        assert!(messages.iter().any(is_wrong_type), "{key}: {messages:?}");
        assert!(!messages.iter().any(|message| message.contains("unknown key")), "{key}: {messages:?}");
    }
}

#[test]
fn the_schema_has_no_key_beyond_the_table() {
    let environment = Environment::from([("MY_OTHER_KEY", "k"), ("SEARCH_TOKEN", "t")]);
    let config = parse(&example_in_full(), Path::new("agent.toml"), &environment, &Overrides::default());
    let shown = format!("{:#?}", config.expect("accepted"));
    let fields = shown.lines().filter_map(|line| line.trim_start().split_once(": ")).map(|(name, _)| name);
    let fields = fields
        .filter(|name| !name.starts_with('"') && !["file", "folder", "digest", "filled", "filled_at"].contains(name));
    for field in fields {
        // The one field whose key is a reserved word of the language stands as `kind` in the struct and `type` in the file.
        let is_known = KEYS.iter().any(|(key, _)| key.split('.').any(|part| part == field));
        assert!(is_known, "`{field}` is in the schema and not in the table of keys");
    }
}
