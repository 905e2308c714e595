//! Numbers that are out of bounds, of another form, or no numbers.

use expect_test::expect;

use super::{Environment, check, refused};

#[test]
fn b8_numbers_out_of_bounds() {
    check(
        &[
            "runtime.max_steps = 0",
            "runtime.max_steps = -1",
            "runtime.max_steps = 99999999999999999999",
            "runtime.max_steps = 4294967296",
            "runtime.max_consecutive_errors = 0",
            "runtime.max_identical_calls = 0",
            "runtime.turn_timeout_ms = 0",
            "runtime.turn_timeout_ms = 9999999999999",
            "llm.retry_max = 11",
            "providers.x.max_concurrent = 0",
            "providers.x.temperature = 3",
            "providers.x.temperature = nan",
            "providers.x.capabilities.context_tokens = 1",
            "prices.'a:b' = { input = -1, output = nan }",
            "prices.'a:b' = { input = 1, output = 1e9 }",
            "policy.max_payload_bytes = 0",
            "tools.'local/x'.timeout_ms = 0",
            "prompt.condense_trigger_ratio = 1.5",
            "prompt.condense_target_ratio = -0.1",
            "skills.token_budget_ratio = inf",
        ],
        expect![[r#"
            > runtime.max_steps = 0
            2:21 `runtime.max_steps` must be between 1 and 1000000
            > runtime.max_steps = -1
            2:21 `runtime.max_steps` must be between 1 and 1000000
            > runtime.max_steps = 99999999999999999999
            2:21 `runtime.max_steps` must be between 1 and 1000000
            > runtime.max_steps = 4294967296
            2:21 `runtime.max_steps` must be between 1 and 1000000
            > runtime.max_consecutive_errors = 0
            2:34 `runtime.max_consecutive_errors` must be between 1 and 1000000
            > runtime.max_identical_calls = 0
            2:31 `runtime.max_identical_calls` must be between 1 and 1000000
            > runtime.turn_timeout_ms = 0
            2:27 `runtime.turn_timeout_ms` must be between 1 and 604800000
            > runtime.turn_timeout_ms = 9999999999999
            2:27 `runtime.turn_timeout_ms` must be between 1 and 604800000
            > llm.retry_max = 11
            2:17 `llm.retry_max` must be between 0 and 10
            > providers.x.max_concurrent = 0
            2:30 `providers.x.max_concurrent` must be between 1 and 1000000
            > providers.x.temperature = 3
            2:27 `providers.x.temperature` must be between 0 and 2
            > providers.x.temperature = nan
            2:27 `providers.x.temperature` must be between 0 and 2
            > providers.x.capabilities.context_tokens = 1
            2:43 `providers.x.capabilities.context_tokens` must be between 256 and 1000000000
            > prices.'a:b' = { input = -1, output = nan }
            2:26 `prices."a:b".input` must be between 0 and 10000000
            2:39 `prices."a:b".output` must be between 0 and 10000000
            > prices.'a:b' = { input = 1, output = 1e9 }
            2:38 `prices."a:b".output` must be between 0 and 10000000
            > policy.max_payload_bytes = 0
            2:28 `policy.max_payload_bytes` must be between 1 and 67108864
            > tools.'local/x'.timeout_ms = 0
            2:30 `tools."local/x".timeout_ms` must be between 1 and 604800000
            > prompt.condense_trigger_ratio = 1.5
            2:33 `prompt.condense_trigger_ratio` must be between 0 and 1
            > prompt.condense_target_ratio = -0.1
            2:32 `prompt.condense_target_ratio` must be between 0 and 1
            > skills.token_budget_ratio = inf
            2:29 `skills.token_budget_ratio` must be between 0 and 1
        "#]],
    );
}

#[test]
fn b8_no_number_wraps_round_and_no_unit_is_guessed() {
    let keys = [
        "runtime.max_steps",
        "runtime.turn_timeout_ms",
        "llm.retry_max",
        "policy.max_payload_bytes",
        "mcp.servers.[0].tool_timeout_ms",
    ];
    let values = [
        "-1",
        "-9223372036854775808",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "4294967296000",
        "1e3",
        "1e999",
        "0.5",
        "nan",
        "inf",
        "-0.0",
        "true",
        "'90s'",
        "'1m'",
        "'1_000'",
        "\"12\"",
        "12:00:00",
        "1979-05-27",
        "[]",
        "{}",
        "0xffffffffffffffff",
        "1__0",
        "+-1",
        "''",
        "0x",
        "012",
    ];
    for key in keys {
        for value in values {
            let text = match key.strip_prefix("mcp.servers.[0].") {
                Some(key) => {
                    format!("runtime.default_model = 'a:b'\n[[mcp.servers]]\nid = 's'\ncommand = 'c'\n{key} = {value}")
                }
                None => format!("runtime.default_model = 'a:b'\n{key} = {value}"),
            };
            let error = refused(&text, &Environment::default());
            let last = text.lines().count();
            assert!(
                error.problems().iter().all(|problem| problem.line == last && problem.column > 1),
                "{text}: {error}"
            );
        }
    }
}

#[test]
fn b1_prices_without_a_model_or_a_half() {
    check(
        &[
            "[prices.gpt]\ninput = 1\noutput = 2",
            "[prices.'a:b']\ninput = 1",
            "[prices.'a:b']\ninput = '1'\noutput = 2\ncurrency = ' '",
            "prices = 1",
            "prices.currency = 'EUR'",
        ],
        expect![[r#"
            > [prices.gpt]
            > input = 1
            > output = 2
            2:9 the key below `prices` must have the form provider:model, for example "openai:gpt-4o-mini", in quotes
            > [prices.'a:b']
            > input = 1
            2:1 each entry of `prices."a:b"` needs `output`
            > [prices.'a:b']
            > input = '1'
            > output = 2
            > currency = ' '
            3:9 `prices."a:b".input`: expected a float, found a string
            5:12 `prices."a:b".currency` must not be empty
            > prices = 1
            2:10 `prices`: expected a table, found an integer
            > prices.currency = 'EUR'
            2:8 the key below `prices` must have the form provider:model, for example "openai:gpt-4o-mini", in quotes
            2:19 `prices.currency`: expected a table, found a string
        "#]],
    );
}
