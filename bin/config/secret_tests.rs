//! No secret is shown by a loaded configuration, nor by a complaint about a broken one.

use std::path::Path;

use super::bad_tests::refused;
use super::config_tests::{MODEL, accepted};
use super::{ConfigError, Environment, Overrides, parse};

const CANARIES: [&str; 6] = ["sk-canary-1", "canary-two", "Bearer canary", "canary4", "canary5", "canary6"];

fn shows_no_canary(shown: &str) {
    for canary in CANARIES {
        assert!(!shown.contains(canary), "{canary} in:\n{shown}");
    }
}

#[test]
fn a_loaded_configuration_does_not_show_its_secrets() {
    let text = format!(
        "{MODEL}[providers.x]\napi_key = 'sk-canary-1'\nbase_url = 'http://h/'\n\
         start = {{ command = 'c', env = {{ A = 'canary-two' }} }}\n\
         [[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'http://h/'\nheaders = {{ X = 'Bearer canary' }}\n\
         [[mcp.servers]]\nid = 'b'\ncommand = 'c'\nenv = {{ B = '${{FOUR}}' }}\n"
    );
    let environment = Environment::from([("FOUR", "canary4"), ("BOB__PROVIDERS__Y__API_KEY", "canary5")]);
    let config = accepted(&text, &environment);
    assert_eq!(config.mcp.servers[1].env["B"].expose(), "canary4");
    assert_eq!(config.providers["y"].api_key.as_ref().map(|key| key.expose()), Some("canary5"));
    shows_no_canary(&format!("{config:?} {config:#?} {:?}", config.not_yet()));
}

#[test]
fn a_complaint_does_not_show_secrets() {
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
fn a_reference_to_a_secret_is_shown() {
    let error = refused("[providers.x]\napi_key = \"${NO_SUCH_KEY}\"", &Environment::default());
    let report = error.render(false);
    assert!(report.contains("agent.toml:2:12") && report.contains("api_key = \"${NO_SUCH_KEY}\""), "{report}");
}
