//! No secret is shown by a loaded configuration, nor by a complaint about a broken one.

use std::path::Path;

use expect_test::expect;
use proptest::prelude::*;

use super::bad_tests::refused;
use super::config_tests::{MODEL, accepted};
use super::{Environment, Overrides, parse};

const CANARIES: [&str; 6] = ["sk-canary-1", "canary-two", "Bearer canary", "canary4", "canary5", "canary6"];

fn shows_no_canary(shown: &str) {
    for canary in CANARIES {
        assert!(!shown.contains(canary), "{canary} in:\n{shown}");
    }
}

#[test]
fn g3_a_loaded_configuration_does_not_show_its_secrets() {
    let text = format!(
        "{MODEL}[providers.x]\napi_key = 'sk-canary-1'\nbase_url = 'http://h/'\n\
         start = {{ command = 'c', env = {{ A = 'canary-two' }} }}\n\
         [[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'https://h/'\nheaders = {{ X = 'Bearer canary' }}\n\
         auth = 'oauth'\nclient_id = 'x'\nclient_secret = 'canary-two'\n\
         [[mcp.servers]]\nid = 'b'\ncommand = 'c'\nenv = {{ B = '${{FOUR}}' }}\n"
    );
    let environment = Environment::from([("FOUR", "canary4"), ("BOB__PROVIDERS__Y__API_KEY", "canary5")]);
    let config = accepted(&text, &environment);
    assert_eq!(config.mcp.servers[1].env["B"].expose(), "canary4");
    assert_eq!(config.providers["y"].api_key.as_ref().map(|key| key.expose()), Some("canary5"));
    shows_no_canary(&format!("{config:?} {config:#?}"));
}

#[test]
fn g3_a_complaint_does_not_show_secrets() {
    let cases = [
        "[providers.x]\napi_key = ['sk-canary-1']",
        "[providers.x]\napi_key = 'sk-canary-1",
        "[providers.x]\napi_key = sk-canary-1",
        "[providers.x]\napi_key: sk-canary-1",
        "[providers.x]\nAPI-Key = 'sk-canary-1'",
        "[providers.x]\npassword = 'canary-two'",
        "[providers.x]\napi_key = \"\"\"\nsk-canary-1\ncanary-two",
        "[providers.x]\napi_key = \"sk-canary-1 ${UNSET}\"",
        "[providers.x]\napi_key = \"${canary-two}\"",
        "[providers.x]\nkind = 'a', api_key = 'sk-canary-1'",
        "providers.x = { kind = 'nope', api_key = 'sk-canary-1', zzz = 1 }",
        "providers.x = { kind = 'openai' api_key = 'sk-canary-1' }",
        "[providers.x]\napi_key = 'sk-canary-1'\napi_key = 'canary-two'",
        "[providers.x]\nbase_url = 'https://canary4:canary5@host/'",
        "[providers.x]\nbase_url = 'https://canary4:canary5@host/",
        "[providers.x.start]\nenv = { A = 'canary-two', B = 3 }",
        "[providers.x.start.env]\nA = canary-two\nB = 3",
        "[providers.x.start.env]\nA = [\n  'canary-two'\n",
        "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nheaders = { Authorization = 'Bearer canary', X = 1 }",
        "[[mcp.servers]]\nheaders = 'Bearer canary'",
        "[[mcp.servers]]\nheaders = [\n'Bearer canary'\n'canary5'\n]",
        "[[mcp.servers]]\nenv.A = 'canary-two'\nenv.A = 'canary4'",
        "env.A = 'canary-two'",
        "x = { secret = 'canary4' }",
        "[providers.x]\nkind = 3 # api_key = 'sk-canary-1'",
        "[providers.x]\nkind = 'a#b' # 'canary-two'",
        "[[mcp.servers]]\nid = 'a'\ncommand = 'c'\nargs = ['--token', 'sk-canary-1', 3]",
        "[[mcp.servers]]\nid = 'a'\ncommand = 'c'\nargs = 'canary-two'",
        "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nargs = ['canary4']\nurl = 'http://h/'",
        "[providers.x]\nbase_url = 'http://h/'\nstart = { command = 'c', args = ['canary5'], zzz = 1 }",
        "[providers.x]\nbase_url = 'htps://h/?key=sk-canary-1'",
        "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'ftp://h/mcp?token=canary6'",
        "[[mcp.servers]]\nid = 'a'\ncommand = 'c'\nurl = 'https://h/mcp?canary6'",
    ];
    for case in cases {
        let error = refused(case, &Environment::default());
        shows_no_canary(&format!("{case:.0}{}{}{error:?}{error}", error.render(false), error.render(true)));
    }
    let environment = Environment::from([
        ("BOB__PROVIDERS__X__API_KEY__", "sk-canary-1"),
        ("BOB__PROVIDERS__X__APIKEY", "canary-two"),
        ("BOB__PROVIDERS__X__START__ENV", "Bearer canary"),
        ("BOB__PROVIDERS__X__KIND", "canary4"),
        ("BOB__MCP__SERVERS", "[{ id = 'a', env = { A = ['canary5'] } }]"),
    ]);
    shows_no_canary(&refused(MODEL, &environment).render(true));
}

#[test]
fn g3_what_is_shown_of_a_command_names_its_variables() {
    let text = format!(
        "{MODEL}[[mcp.servers]]\nid = 'b'\ncommand = '${{HOME}}/bin/serve'\nargs = ['--token=${{TOKEN}}', '${{TOKEN}}-${{PORT}}', 'x']\n"
    );
    let environment = Environment::from([("TOKEN", "sk-canary-1"), ("HOME", "/home/canary4"), ("PORT", "80")]);
    let config = accepted(&text, &environment);
    let server = &config.mcp.servers[0];
    assert_eq!(server.args, ["--token=sk-canary-1", "sk-canary-1-80", "x"]);
    let shown: Vec<String> = server.command.iter().chain(&server.args).map(|word| config.as_written(word)).collect();
    assert_eq!(shown, ["${HOME}/bin/serve", "--token=${TOKEN}", "${TOKEN}-80", "x"]);
}

#[test]
fn g3_an_unreadable_line_is_quoted_without_foreign_words() {
    let report =
        refused("runtime.max_steps = = 12 # 'twelve'\napi_key: sk-canary-1", &Environment::default()).render(false);
    expect![[r#"
        error: extra `=`
         --> agent.toml:1:21
          |
        1 | runtime.max_steps = = 12 #*********
          |                     ^

        error: key with no value, expected `=`
         --> agent.toml:2:8
          |
        2 | api_key: ***********
          |        ^

        agent.toml: 2 problems
    "#]]
    .assert_eq(&report);
}

#[test]
fn g3_of_an_unknown_key_whose_value_is_cut_off_no_word_is_quoted() {
    let text = "[providers.x]\nkind = 'openai'\na={pi_key = 'canary4'\nstart = { command = 'sh' }\n";
    let report = refused(text, &Environment::default()).render(false);
    assert!(report.contains("unknown key `a`") && !report.contains("canary"), "{report}");
}

#[test]
fn g3_of_a_table_that_is_not_closed_no_word_is_quoted_also_on_the_lines_before_the_error() {
    let table = "start = { c={ommand = 'sh', env = { ONE = 'canary4', TWO = \"canary5\" } }";
    let report = refused(&format!("[providers.x]\n{table}\n\n[providers.y]\n"), &Environment::default()).render(false);
    assert!(report.contains("needs `command`") && !report.contains("canary"), "{report}");
}

#[test]
fn a_reference_to_a_secret_is_shown() {
    let error = refused("[providers.x]\napi_key = \"${NO_SUCH_KEY}\"", &Environment::default());
    let report = error.render(false);
    assert!(report.contains("agent.toml:2:12") && report.contains("api_key = \"${NO_SUCH_KEY}\""), "{report}");
}

/// Everything that is secret in it is a canary, in every way a secret can be written.
const FULL_OF_SECRETS: &str = "\
[runtime]
default_model = 'x:y'
max_steps = 0

[providers.x]
kind = 'openai'
base_url = 'http://h/'
api_key = 'canary4'
start = { command = 'sh', args = [], env = { ONE = 'canary4', TWO = \"canary5\" } }

[providers.y]
api_key = \"\"\"
canary4
canary5\"\"\"
start.command = 'c'
start.env.NAME = 'canary4'

[providers.z.start.env]
NAME = 'canary5'
OTHER = \"canary6\"

[[mcp.servers]]
id = 'a'
transport = 'http'
url = 'http://h/?canary4=canary5&k=canary6'
headers = { Authorization = 'Bearer canary', X = 'canary5' }

[[mcp.servers]]
id = 'b'
command = 'c'
args = ['--key', 'canary4', 'canary5']
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn g3_a_file_damaged_anywhere_does_not_show_its_secrets(at in 0..FULL_OF_SECRETS.len(), put in "[\\[\\]{}=.,:\"'#\n a-z0-9]{0,3}") {
        let mut text = FULL_OF_SECRETS.to_owned();
        text.insert_str(at, &put);
        let read = parse(&text, Path::new("agent.toml"), &Environment::default(), &Overrides::default());
        let report = read.expect_err("it never had enough steps").render(false);
        for canary in CANARIES {
            prop_assert!(!report.contains(canary), "{} in:\n{}", canary, report);
        }
    }
}
