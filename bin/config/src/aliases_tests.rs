//! Other names of keys and words.

use std::path::Path;

use super::bad_tests::{refused, told};
use super::{Config, Environment, Overrides, parse};

fn accepted(text: &str, environment: &Environment) -> Config {
    let text = format!("runtime.default_model = 'a:b'\n{text}");
    parse(&text, Path::new("agent.toml"), environment, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_key_is_one_key_whichever_name_it_has() {
    let names = "[prompt]\nhistory_condense_trigger_ratio = 0.6\nhistory_condense_target_ratio = 0.3\n\
                 history_condense_model = 'c:d'\nskills_token_budget_ratio = 0.2\nskills_top_k = 5\n";
    let config = accepted(names, &Environment::default());
    assert_eq!((config.prompt.condense_trigger_ratio, config.prompt.condense_target_ratio), (0.6, 0.3));
    assert_eq!((config.prompt.condense_model.as_str(), config.skills.rules.top_k), ("c:d", 5));
    assert_eq!(config.skills.rules.token_budget_ratio, 0.2);
    // A layer above the file sets the same key by its other name.
    let environment = Environment::from([("BOB__PROMPT__HISTORY_CONDENSE_TRIGGER_RATIO", "0.7")]);
    assert_eq!(accepted("prompt.condense_trigger_ratio = 0.6", &environment).prompt.condense_trigger_ratio, 0.7);
    let environment = Environment::from([("BOB__PROMPT__CONDENSE_TRIGGER_RATIO", "0.7")]);
    assert_eq!(
        accepted("prompt.history_condense_trigger_ratio = 0.6", &environment).prompt.condense_trigger_ratio,
        0.7
    );
}

#[test]
fn streamable_http_is_http() {
    for word in ["streamable-http", "streamable_http", "http"] {
        let text = format!("[[mcp.servers]]\nid = 'a'\ntransport = '{word}'\nurl = 'http://127.0.0.1:1/mcp'");
        let config = accepted(&text, &Environment::default());
        let other = accepted(&text.replace(word, "http"), &Environment::default());
        assert_eq!(format!("{:?}", config.mcp), format!("{:?}", other.mcp));
    }
}

#[test]
fn a_value_under_both_names_and_a_wrong_one_are_told_where_they_are() {
    let refused =
        |text: &str| told(&refused(&format!("runtime.default_model = 'a:b'\n{text}"), &Environment::default()));
    assert_eq!(
        refused("[prompt]\ncondense_trigger_ratio = 0.6\nhistory_condense_trigger_ratio = 0.7"),
        "4:1 `prompt.history_condense_trigger_ratio` is another name of `prompt.condense_trigger_ratio`; give one of them"
    );
    assert_eq!(
        refused("[prompt]\nhistory_condense_trigger_ratio = 2.0"),
        "3:34 `prompt.condense_trigger_ratio` must be between 0 and 1"
    );
    let wrong = refused("[prompt]\nskills_top_k = 'x'");
    assert!(wrong.starts_with("3:16 `skills.top_k`: expected an integer, found a string"), "{wrong}");
    assert_eq!(refused("prompt = 3\nskills = 4").lines().count(), 2);
}

#[test]
fn the_tables_of_the_design_are_keys_of_the_runtime_or_say_why_not() {
    let config = accepted("runtime.resume.checkpoint_ttl_ms = 60000", &Environment::default());
    assert_eq!(config.runtime.limits.suspend_timeout_ms, 60_000);
    accepted("[runtime.resume]\n[runtime.cancellation]", &Environment::default());
    let refused =
        |text: &str| told(&refused(&format!("runtime.default_model = 'a:b'\n{text}"), &Environment::default()));
    assert_eq!(
        refused("runtime.suspend_timeout_ms = 1\nruntime.resume.checkpoint_ttl_ms = 2"),
        "3:16 `runtime.resume.checkpoint_ttl_ms` is another name of `runtime.suspend_timeout_ms`; give one of them"
    );
    assert_eq!(
        refused("runtime.resume.signing_key = 'x'"),
        "2:16 `runtime.resume.signing_key` cannot be set: a resume token is compared with the one in the journal of its \
         session, and nothing is signed; remove it"
    );
    assert_eq!(
        refused("runtime.cancellation.mode = 'graceful'"),
        "2:22 `runtime.cancellation.mode` cannot be set: there is one way to cancel: what runs is stopped, and what it may \
         have done is told; remove it"
    );
    assert!(refused("runtime.resume.other = 1").contains("unknown key `resume`"));
}

#[test]
fn what_the_design_says_of_a_pool_is_said_of_its_servers_or_is_fixed() {
    let config = accepted("[mcp.pool]\nidle_ttl_ms = 5000", &Environment::default());
    assert_eq!(config.mcp.pool.idle_ttl_ms, 5_000);
    assert_eq!(accepted("[mcp.pool]", &Environment::default()).mcp.pool.idle_ttl_ms, 600_000);
    let refused =
        |text: &str| told(&refused(&format!("runtime.default_model = 'a:b'\n{text}"), &Environment::default()));
    for key in ["scope", "tenant_scope"] {
        assert_eq!(
            refused(&format!("[mcp.pool]\nidle_ttl_ms = 5000\n{key} = 'tenant'")),
            format!(
                "4:1 `mcp.pool.{key}` cannot be set: which sessions share a process is said for each server, by `isolation` \
                 in `[[mcp.servers]]`; remove it"
            )
        );
    }
    assert_eq!(
        refused("mcp.pool.shutdown_grace_ms = 2000"),
        "2:10 `mcp.pool.shutdown_grace_ms` cannot be set: each process is stopped in the same three steps, the end of its \
         input, TERM and KILL, within 4 s; remove it"
    );
    assert!(refused("mcp.pool.scope = 1\nmcp.pool.other = 1").contains("unknown key `other` in `mcp.pool`"));
}
