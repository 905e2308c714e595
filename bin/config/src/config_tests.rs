//! The layers, the report, and generated files.

mod any;

use std::path::{Path, PathBuf};

use expect_test::expect;

use super::bad_tests::{refused, told};
use super::{Config, ConfigError, Environment, MAX_FILE_BYTES, Origin, Overrides, load, parse};
pub(super) use any::placed;

pub(super) const MODEL: &str = "[runtime]\ndefault_model = 'file:model'\n";

fn read(text: &str, environment: &Environment, overrides: &Overrides) -> Result<Config, ConfigError> {
    parse(text, Path::new("conf/agent.toml"), environment, overrides)
}

pub(super) fn accepted(text: &str, environment: &Environment) -> Config {
    read(text, environment, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn b1_all_problems_are_reported_at_once() {
    let text = "\
[runtime]
max_steps = 0
tool_timeout_ms = '90s'
on_restart = 'again'

[providers.x]
kind = 'scripted'
api_key = 'sk-secret'

[[mcp.servers]]
id = 'a'
command = '${NO_SUCH}'
[[mcp.servers]]
id = 'a'
colour = 1

[store]
path = ''
";
    let environment = Environment::from([("BOB__LLM__RETRY_MAX", "many"), ("BOB__LOG__LEVL", "warn")]);
    let error = read(text, &environment, &Overrides { max_steps: None, timeout_ms: Some(0), model: None });
    expect![[r#"
        error: `runtime.default_model` is missing
         --> conf/agent.toml:1:1
          |
        1 | [runtime]
          | ^
          |
          = help: set it to provider:model, for example default_model = "openai:gpt-4o-mini" below [runtime]

        error: `runtime.max_steps` must be between 1 and 1000000
         --> conf/agent.toml:2:13
          |
        2 | max_steps = 0
          |             ^

        error: `runtime.tool_timeout_ms`: expected an integer, found a string
         --> conf/agent.toml:3:19
          |
        3 | tool_timeout_ms = '90s'
          |                   ^^^^^
          |
          = help: write a plain number without quotes and without a unit; times are in milliseconds

        error: `runtime.on_restart`: unknown word, expected one of: report, resume
         --> conf/agent.toml:4:14
          |
        4 | on_restart = 'again'
          |              ^^^^^^^

        error: `providers.x` is scripted and needs `script`, a file
         --> conf/agent.toml:6:12
          |
        6 | [providers.x]
          |            ^

        error: the environment variable `NO_SUCH` is not set
          --> conf/agent.toml:12:12
           |
        12 | command = '${NO_SUCH}'
           |            ^^^^^^^^^^
           |
           = help: set it: export NO_SUCH=…

        error: `mcp.servers[1].id`: mcp.servers[0] has this id already
          --> conf/agent.toml:14:6
           |
        14 | id = 'a'
           |      ^^^

        error: unknown key `colour` in `mcp.servers[1]`
          --> conf/agent.toml:15:1
           |
        15 | colour = 1
           | ^^^^^^
           |
           = help: accepted here: id, transport, command, args, env, url, headers, auth, client_id, client_secret, client_metadata_url, scopes, tools, start, isolation, required, tool_timeout_ms, startup_timeout_ms

        error: `store.path` must not be empty
          --> conf/agent.toml:18:8
           |
        18 | path = ''
           |        ^^

        error: `llm.retry_max`: expected an integer, found a string
         |
         = note: in the environment variable BOB__LLM__RETRY_MAX
         = help: write a plain number without quotes and without a unit; times are in milliseconds

        error: unknown key `levl` in `log`
         |
         = note: in the environment variable BOB__LOG__LEVL
         = help: did you mean `level`?

        error: `--timeout-ms` must be between 1 and 604800000
         |
         = note: in the command line option --timeout-ms

        conf/agent.toml: 12 problems
    "#]].assert_eq(&error.expect_err("nearly everything is wrong").render(false));
}

#[test]
fn colours_come_only_when_asked_for() {
    let error = refused("runtime.max_steps = 0", &Environment::default());
    assert!(!error.render(false).contains('\u{1b}'));
    assert!(error.render(true).contains('\u{1b}'));
    assert_eq!(error.to_string(), error.render(false).trim_end());
}

#[test]
fn each_layer_wins_over_the_one_below() {
    let defaults = accepted(MODEL, &Environment::default());
    assert_eq!(defaults.runtime.limits, bob::config::Limits::terminal());
    let file = format!("{MODEL}max_steps = 20\nturn_timeout_ms = 1000\n");
    assert_eq!(accepted(&file, &Environment::default()).runtime.limits.max_steps, 20);
    let environment =
        Environment::from([("BOB__RUNTIME__MAX_STEPS", "30"), ("BOB__RUNTIME__DEFAULT_MODEL", "env:model")]);
    let config = accepted(&file, &environment);
    assert_eq!((config.runtime.limits.max_steps, config.runtime.limits.turn_timeout_ms), (30, 1000));
    assert_eq!(config.runtime.default_model, "env:model");
    let overrides = Overrides { model: Some("line:model".into()), max_steps: Some(40), timeout_ms: Some(7) };
    let config = read(&file, &environment, &overrides).expect("all layers are fine");
    assert_eq!((config.runtime.limits.max_steps, config.runtime.limits.turn_timeout_ms), (40, 7));
    assert_eq!(config.runtime.default_model, "line:model");
}

#[test]
fn a_value_that_is_replaced_is_not_looked_at() {
    let environment = Environment::from([("BOB__RUNTIME__MAX_STEPS", "5"), ("BOB__LLM__FALLBACK", "[]")]);
    let text = format!("{MODEL}max_steps = 0\n[llm]\nfallback = '${{NO_SUCH}}'\n");
    assert_eq!(accepted(&text, &environment).runtime.limits.max_steps, 5);
}

#[test]
fn the_environment_reaches_every_kind_of_key() {
    let environment = Environment::from([
        ("BOB__RUNTIME__DEFAULT_MODEL", "a:b"),
        ("BOB__LLM__STREAM_DEFAULT", "false"),
        ("BOB__LLM__FALLBACK", "['c:d', \"e:f\"]"),
        ("BOB__PROMPT__INSTRUCTIONS", "say \"hi\" # not a comment\nand C:\\new"),
        ("BOB__PROMPT__MEMORY", "2026-01-01"),
        ("BOB__PROMPT__BOOTSTRAP", "'quoted'"),
        ("BOB__PROVIDERS__MY__API_KEY", "0123"),
        ("BOB__PROVIDERS__MY__START", "{ command = 'sh', env = { A = 'b' } }"),
        ("BOB__PROVIDERS__OTHER__BASE_URL", "http://h/"),
        ("BOB__PROVIDERS__OTHER__START__COMMAND", "sh"),
        ("BOB__PROVIDERS__OTHER__START__ENV__MODEL_Path", "1e3"),
        ("BOB__PROVIDERS__MY__BASE_URL", "http://h/"),
        ("BOB__PROVIDERS__MY__TEMPERATURE", "0"),
        ("BOB__STORE__KIND", "memory"),
        ("NOT_BOB__STORE__KIND", "sqlite"),
    ]);
    let config = accepted("", &environment);
    assert!(!config.llm.stream_default);
    assert_eq!(config.llm.fallback, ["c:d", "e:f"]);
    assert_eq!(config.prompt.instructions, "say \"hi\" # not a comment\nand C:\\new");
    assert_eq!((config.prompt.memory.as_str(), config.prompt.bootstrap.as_str()), ("2026-01-01", "quoted"));
    let provider = &config.providers["my"];
    assert_eq!(provider.api_key.as_ref().map(|key| key.expose()), Some("0123"));
    assert_eq!(provider.temperature, Some(0.0));
    assert_eq!(provider.start.as_ref().map(|start| start.env["A"].expose()), Some("b"));
    let other = config.providers["other"].start.as_ref().expect("it is started");
    assert_eq!(other.env["MODEL_Path"].expose(), "1e3");
}

#[test]
fn a_layer_is_named_in_its_complaints() {
    let environment = Environment::from([
        ("BOB__", "1"),
        ("BOB__RUNTIME____MAX_STEPS", "1"),
        ("BOB__RUNTIME__MAX_STEPS", "0"),
        ("BOB__runtime__MAX_STEPS", "1"),
        ("BOB__LLM", "3"),
        ("BOB__LLM__RETRY_MAX", "3"),
    ]);
    let overrides = Overrides { model: Some("gpt".into()), max_steps: None, timeout_ms: None };
    let error = read(MODEL, &environment, &overrides).expect_err("nothing here is right");
    let lines: Vec<String> =
        error.problems().iter().map(|problem| format!("{:?} {}", problem.origin, problem.message)).collect();
    expect![[r#"
        Environment("BOB__") this variable names no key; write it like BOB__RUNTIME__MAX_STEPS
        Environment("BOB__LLM") `llm`: expected a table, found an integer
        Environment("BOB__LLM__RETRY_MAX") cannot extend value of type integer with a dotted key
        Environment("BOB__RUNTIME__MAX_STEPS") `runtime.max_steps` must be between 1 and 1000000
        Environment("BOB__RUNTIME____MAX_STEPS") this variable names no key; write it like BOB__RUNTIME__MAX_STEPS
        Environment("BOB__runtime__MAX_STEPS") this key is set twice
        Option("--model") `--model` must have the form provider:model, for example "openai:gpt-4o-mini""#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn many_keys_of_one_table_survive_the_layers() {
    let variables: Vec<(String, String)> =
        (0..40).map(|n| (format!("BOB__PROVIDERS__P{n}__MAX_CONCURRENT"), (n + 1).to_string())).collect();
    let mut text = String::from(MODEL);
    (0..40).for_each(|n| text.push_str(&format!("[providers.p{n}]\nmax_concurrent = 99\ntimeout_ms = 5\n")));
    let pairs: [(&str, &str); 40] = std::array::from_fn(|n| (variables[n].0.as_str(), variables[n].1.as_str()));
    let config = accepted(&text, &Environment::from(pairs));
    for n in 0..40 {
        let provider = &config.providers[&format!("p{n}")];
        assert_eq!((provider.max_concurrent, provider.timeout_ms), (Some(n + 1), Some(5)));
    }
}

#[test]
fn variables_are_filled_in_once() {
    let environment = Environment::from([("A", "${B}"), ("B", "b"), ("BOB__PROMPT__MEMORY", "${B}.md")]);
    let config = accepted(&format!("{MODEL}[prompt]\nbootstrap = '${{A}}-${{B}} $${{A}} $5 {{}}'\n"), &environment);
    assert_eq!(config.prompt.bootstrap, "${B}-b ${A} $5 {}");
    assert_eq!(config.prompt.memory, "b.md");
}

#[test]
fn paths_start_in_the_folder_of_the_file() {
    let config = accepted(MODEL, &Environment::default());
    let default = if cfg!(feature = "sqlite") { "conf/.bob/sessions.db" } else { "conf/.bob/sessions" };
    assert_eq!(config.store_path(), Some(PathBuf::from(default)));
    let with = |store: &str| accepted(&format!("{MODEL}\n[store]\n{store}"), &Environment::default()).store_path();
    assert_eq!(with("kind = 'json'"), Some(PathBuf::from("conf/.bob/sessions")));
    assert_eq!(with("kind = 'json'\npath = 'here'"), Some(PathBuf::from("conf/here")));
    assert_eq!(with("kind = 'memory'\npath = 'here'"), None);
    assert_eq!(config.resolve("/abs"), PathBuf::from("/abs"));
    let here = parse(MODEL, Path::new("agent.toml"), &Environment::default(), &Overrides::default());
    assert_eq!(here.expect("accepted").folder, PathBuf::from("."));
}

#[test]
fn windows_files_keep_their_places() {
    let text = "\u{feff}[runtime]\r\ndefault_model = 'a:b'\r\nmax_steps = 0\r\n[x]\r\n";
    assert_eq!(
        told(&refused(text, &Environment::default())).lines().next(),
        Some("3:13 `runtime.max_steps` must be between 1 and 1000000")
    );
    accepted("\u{feff}[runtime]\r\ndefault_model = 'a:b'\r\n", &Environment::default());
    assert_eq!(told(&refused("\u{feff}max_steps = 1", &Environment::default())).split(' ').next(), Some("1:1"));
}

#[test]
fn foreign_text_in_a_complaint_is_harmless() {
    let text = "\"\u{202e}\u{1b}[2Jx\\u001b[31m\" = 1\n'\u{9b}31m' = 2\nlog.level = '\u{202e}'";
    let environment = Environment::from([("BOB__\u{1b}[2J", "1")]);
    let report = refused(text, &environment).render(false);
    assert!(
        report.chars().all(|c| c == '\n' || !c.is_control() && !('\u{202a}'..='\u{202e}').contains(&c)),
        "{report:?}"
    );
}

#[test]
fn b1_a_complaint_about_half_a_character_marks_the_whole() {
    for text in ["𞀦level = 1", "log.level = \"é\" é", "é = 'é", "log = 'x'\u{85}"] {
        assert!(refused(text, &Environment::default()).render(false).contains("agent.toml:1:"));
    }
}

#[test]
fn b1_files_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let refuse = |path: &Path| {
        let error = load(path, &Environment::default(), &Overrides::default()).expect_err("refused");
        error.render(false).replace(&folder.path().display().to_string(), "DIR")
    };
    std::fs::write(at("latin1.toml"), b"a = 1\nb = 'caf\xe9'\n").expect("written");
    std::fs::write(at("huge.toml"), "# filler\n".repeat(1_200_000)).expect("written");
    std::fs::write(at("good.toml"), MODEL).expect("written");
    expect![[r#"
        error: cannot read the configuration: No such file or directory (os error 2)
        --> DIR/missing.toml
         = help: write one with `cli-agent init`, or name another with --config FILE

        DIR/missing.toml: 1 problem
    "#]]
    .assert_eq(&refuse(&at("missing.toml")));
    expect![[r#"
        error: cannot read the configuration: Is a directory (os error 21)
        --> DIR
         = help: name the file in it: --config FILE

        DIR: 1 problem
    "#]]
    .assert_eq(&refuse(folder.path()));
    expect![[r#"
        error: the configuration is not valid UTF-8 in line 2
        --> DIR/latin1.toml
         = help: save it as UTF-8

        DIR/latin1.toml: 1 problem
    "#]]
    .assert_eq(&refuse(&at("latin1.toml")));
    expect![[r#"
        error: the configuration is larger than 1048576 bytes
        --> DIR/huge.toml

        DIR/huge.toml: 1 problem
    "#]]
    .assert_eq(&refuse(&at("huge.toml")));
    let config = load(&at("good.toml"), &Environment::default(), &Overrides::default()).expect("accepted");
    assert_eq!((config.file, config.folder), (at("good.toml"), folder.path().to_owned()));
}

#[test]
fn b1_line_ends_a_byte_order_mark_and_names_of_variables_in_values_mean_nothing() {
    let plain = "[runtime]\ndefault_model = 'a:b'\nmax_steps = 3\n[prompt]\nbootstrap = '${ONE}'\n";
    let environment = Environment::from([("ONE", "${TWO} ${ONE} $${TWO}"), ("TWO", "never looked at")]);
    for text in [plain.to_owned(), plain.replace('\n', "\r\n"), format!("\u{feff}{plain}"), format!("{plain}\n\n")] {
        let config = accepted(&text, &environment);
        assert_eq!((config.runtime.limits.max_steps, config.prompt.bootstrap.as_str()), (3, "${TWO} ${ONE} $${TWO}"));
    }
    let bad = "\u{feff}[runtime]\r\ndefault_model = 'a:b'\r\nmax_steps = 0\r\n";
    assert_eq!(told(&refused(bad, &environment)), "3:13 `runtime.max_steps` must be between 1 and 1000000");
    assert_eq!(told(&refused(&bad.replace("0", "'\r'"), &environment)).lines().count(), 1, "a lone carriage return");
}

#[test]
fn b1_hostile_files_are_refused_in_bounded_space() {
    let deep_key = format!("{}b = 1", "a.".repeat(20_000));
    let cases = [
        "[".repeat(20_000),
        format!("a = {}", "[".repeat(20_000)),
        format!("a = {}", "{b=".repeat(20_000)),
        deep_key,
        (0..20_000).map(|n| format!("k{n} = 1\n")).collect(),
        format!("a = '{}'", "x".repeat(MAX_FILE_BYTES - 100)),
        "\0".repeat(1000),
        "#".repeat(1_000_000) + "\na = 1",
        "a ".repeat(100_000),
        "a = '#' #\n".repeat(20_000),
        "a = ${".repeat(10_000),
        format!("prompt.bootstrap = '{}'", "${A}${".repeat(20_000)),
    ];
    for case in cases {
        let error = refused(&case, &Environment::default());
        placed(&case, &error).expect("each complaint has its place");
        assert!((1..=50).contains(&error.problems().len()));
        assert!(error.render(false).len() < 200_000);
    }
    let too_big = refused(&"#".repeat(MAX_FILE_BYTES + 1), &Environment::default());
    assert_eq!(told(&too_big), "0:0 the configuration is larger than 1048576 bytes");
    assert_eq!(too_big.problems()[0].origin, Origin::File);
}

#[test]
fn the_profile_sets_the_policy_that_is_not_set() {
    let of = |text: &str| accepted(&format!("{MODEL}{text}"), &Environment::default()).policy.rules;
    assert_eq!(of(""), bob::tools::Policy::terminal());
    assert_eq!(of("profile = 'strict'\n"), bob::tools::Policy::default());
    let set = bob::tools::Policy { deny_tools: vec!["mcp/*".to_owned()], ..bob::tools::Policy::terminal() };
    assert_eq!(of("[policy]\ndeny_tools = ['mcp/*']\n"), set);
}

#[test]
fn the_profile_sets_the_limits_that_are_not_set() {
    let of = |text: &str| accepted(text, &Environment::default()).runtime;
    assert_eq!((of(MODEL).limits, of(MODEL).max_history_messages), (bob::config::Limits::terminal(), 1_000));
    let strict = of(&format!("{MODEL}profile = 'strict'\n"));
    assert_eq!((strict.limits, strict.max_history_messages), (bob::config::Limits::default(), 50));
    for profile in ["terminal", "strict"] {
        let set =
            format!("{MODEL}profile = '{profile}'\nmax_tool_calls = 3\nturn_timeout_ms = 5\nmax_history_messages = 7");
        let set = of(&set);
        assert_eq!((set.limits.max_tool_calls, set.limits.turn_timeout_ms, set.max_history_messages), (3, 5, 7));
    }
    let environment = Environment::from([("BOB__RUNTIME__PROFILE", "strict")]);
    assert_eq!(
        accepted(MODEL, &environment).runtime.limits,
        bob::config::Limits::default(),
        "a layer above chooses, too"
    );
    let inline = of("runtime = { default_model = 'file:model', max_steps = 4 }");
    assert_eq!(inline.limits, bob::config::Limits { max_steps: 4, ..bob::config::Limits::terminal() });
    let error = refused("runtime.profile = 'roomy'", &Environment::default()).to_string();
    assert!(error.contains("expected one of: terminal, strict"), "{error}");
}
