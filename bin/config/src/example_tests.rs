//! The configuration that ships: it loads, it explains every key, and it says the defaults that are really used.

use std::path::Path;

use super::keys::paths;
use super::read::Read as _;
use super::{Config, Environment, Overrides, ProviderKind, parse, tree};

/// The headers of the example's tables, in its order, with the paths of the keys they have.
const TABLES: [(&str, &str); 19] = [
    ("[runtime]", "runtime"),
    ("[llm]", "llm"),
    ("[providers.local]", "providers.*"),
    ("[prices.", "prices.*"),
    ("[models.", "models.*"),
    ("[models_catalog]", "models_catalog"),
    ("[policy]", "policy"),
    ("[tools.", "tools.*"),
    ("[mcp.pool]", "mcp.pool"),
    ("[[mcp.servers]]", "mcp.servers.*"),
    ("[hooks.", "hooks.*"),
    ("[prompt]", "prompt"),
    ("[[skills.sources]]", "skills.sources.*"),
    ("[skills]", "skills"),
    ("[[subagents]]", "subagents.*"),
    ("[tenants.", "tenants.*"),
    ("[store]", "store"),
    ("[log]", "log"),
    ("[telemetry]", "telemetry"),
];

/// The path of every key.
fn keys() -> Vec<String> {
    paths(Config::KEYS)
}

fn example() -> Config {
    let nothing = Environment::default();
    match parse(Config::example(), Path::new("agent.toml"), &nothing, &Overrides::default()) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

/// The variables that the example names.
fn environment() -> Environment {
    let keys = [
        ("MY_OTHER_KEY", "k"),
        ("SEARCH_TOKEN", "t"),
        ("OTLP_KEY", "o"),
        ("DATABASE_URL", "postgres://h/d"),
        ("SEARCH_SECRET", "s"),
    ];
    Environment::from(keys)
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
    let contradictions = ["script = ", "token_budget_tokens = ", "role = "];
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
        ("sh", ["scripts/local-model.sh", "--port", "{port}"].map(str::to_owned).as_slice())
    );
    assert_eq!(start.ready_timeout_ms, 180_000);
    assert_eq!(local.capabilities.context_tokens, Some(8192));
}

#[test]
fn the_shipped_configuration_names_every_key_in_order() {
    let text = Config::example();
    let (mut at, mut seen) = (0, 0);
    for (header, table) in TABLES {
        let found = text[at..].match_indices(header).map(|(found, _)| at + found);
        let is_header = |found: usize| ["", "# "].contains(&text[..found].rsplit('\n').next().unwrap_or_default());
        at = found.into_iter().find(|found| is_header(*found)).unwrap_or_else(|| panic!("{header} is missing or late"));
        let keys = keys();
        let below = keys.iter().filter_map(|key| key.strip_prefix(table)?.strip_prefix('.'));
        for path in below.filter(|path| !path.contains(".*.")) {
            let key = path.rsplit('.').next().unwrap_or_default();
            // What a provider starts and what its models can do stands in a table on one line, or in the words above it.
            let is_inline = path.contains('.');
            let is_set = |line: &str| {
                let line = line.trim_start_matches("# ");
                line.starts_with(&format!("{key} =")) || is_inline && names(line, key)
            };
            assert!(text[at..].lines().any(is_set), "{key} of {header} is missing");
            seen += 1;
        }
    }
    assert_eq!(seen, keys().len(), "a key is in no table, or in two");
}

fn names(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|part| part == word)
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
fn the_example_in_full_is_accepted() {
    let text = example_in_full();
    let environment = environment();
    let config = parse(&text, Path::new("agent.toml"), &environment, &Overrides::default());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.mcp.servers.len(), 2);
    assert_eq!(config.skills.sources.len(), 2);
    assert_eq!(config.prices.len(), 1);
    assert_eq!(config.hooks.len(), 1);
    assert_eq!(config.skills.rules, Config::default().skills.rules);
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
    assert_eq!(bare.policy.rules.deny_tools, example.policy.rules.deny_tools);
    assert_eq!(bare.policy.rules.deny_commands, example.policy.rules.deny_commands);
    assert_eq!(bare.policy.rules.ask_commands, example.policy.rules.ask_commands);
    assert_eq!(bare.policy.rules.allow_tools, ["*"]);
    assert_eq!(bare.prompt.memory, example.prompt.memory);
}

#[test]
fn every_default_that_the_example_states_is_the_one_that_holds() {
    let shown = |text: &str| {
        let overrides = Overrides { model: Some("a:b".to_owned()), ..Overrides::default() };
        let config = parse(text, Path::new("agent.toml"), &Environment::default(), &overrides);
        format!("{:?}", Config { digest: String::new(), ..config.unwrap_or_else(|error| panic!("{text}: {error}")) })
    };
    let is_value = |text: &&str| {
        let line = format!("v = {text}");
        let (root, errors) = tree::parse(&line);
        errors.is_empty() && root.len() == 1
    };
    let (mut head, mut stated, mut seen) = (String::new(), None, 0);
    for line in Config::example().lines() {
        let plain = line.trim_start_matches("# ");
        if let Some(default) = line.strip_prefix("# ").and_then(|text| text.split_once("Default ")) {
            stated = (0..=default.1.len()).rev().filter_map(|end| default.1.get(..end)).find(is_value);
        } else if plain.starts_with('[') {
            let header = plain.split_inclusive(' ').next().unwrap_or_default();
            let needed = match header.trim_start_matches('[').split(['.', ']']).next() {
                _ if header.starts_with("[mcp.pool]") => "",
                Some("mcp") => "id = 'x'\ncommand = 'x'\n",
                Some("hooks") => "on = 'before_call'\ncommand = 'x'\n",
                Some("prices") => "input = 1\noutput = 1\n",
                _ => "",
            };
            head = format!("{header}\n{needed}");
        } else if let Some((key, _)) = plain.split_once(" = ").filter(|(key, _)| names(key, key) && *key != "path")
            && let Some(default) = stated.take()
        {
            assert_eq!(shown(&format!("{head}{key} = {default}")), shown(&head), "{head}{key}: {default}");
            seen += 1;
        }
    }
    assert!(seen > 35, "{seen}");
}

#[test]
fn the_table_of_keys_and_the_schema_know_the_same_keys() {
    // A date is the wrong type for every key, so a key the schema knows is a wrong type and never an unknown key.
    for key in keys().iter().filter(|key| *key != "providers.*.kind") {
        let line = match key.split_once(".*.") {
            Some((table @ ("mcp.servers" | "skills.sources" | "subagents"), key)) => {
                format!("[[{table}]]\n{key} = 2026-01-01")
            }
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
    let environment = environment();
    let config = parse(&example_in_full(), Path::new("agent.toml"), &environment, &Overrides::default());
    let shown = format!("{:#?}", config.expect("accepted"));
    let fields = shown.lines().filter_map(|line| line.trim_start().split_once(": ")).map(|(name, _)| name);
    let fields = fields.filter(|name| {
        !name.starts_with('"')
            && !["file", "folder", "digest", "source", "filled", "filled_at", "limits", "rules"].contains(name)
    });
    for field in fields {
        // The one field whose key is a reserved word of the language stands as `kind` in the struct and `type` in the file.
        let is_known = keys().iter().any(|key| key.split('.').any(|part| part == field));
        assert!(is_known, "`{field}` is in the schema and not in the table of keys");
    }
}
