//! Errors before keys are checked: syntax, and variables that cannot be substituted.

use expect_test::expect;

use super::check;

#[test]
fn b1_broken_toml() {
    check(
        &[
            "[llm",
            "llm.retry_max = = 2",
            "llm.retry_max = 1\nllm.retry_max = 2",
            "[llm]\n[llm]",
            "[prompt]\ninstructions = \"never closed",
            "[prompt]\ninstructions = \"\"\"never closed",
            "llm.fallback = ['a:b'",
            "log.level = warn",
            "a = \"\\q\"",
            "log.level = \"a\u{0}b\"",
            "log: warn",
        ],
        expect![[r#"
            > [llm
            2:5 unclosed table, expected `]`
            > llm.retry_max = = 2
            2:17 extra `=`
            > llm.retry_max = 1
            > llm.retry_max = 2
            3:5 this key is set twice
            > [llm]
            > [llm]
            3:1 this table is opened twice
            > [prompt]
            > instructions = "never closed
            3:29 invalid basic string, expected `"`
            > [prompt]
            > instructions = """never closed
            3:31 invalid multi-line basic string, expected `"`
            > llm.fallback = ['a:b'
            2:22 unclosed array, expected `]`
            > log.level = warn
            2:13 string values must be quoted, expected literal string
            > a = "\q"
            2:7 missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\`, `"`, `x`, `u`, `U`
            > log.level = "a<NUL>b"
            2:15 invalid basic string, expected non-double-quote visible characters, `\`
            > log: warn
            2:4 key with no value, expected `=`
        "#]],
    );
}

#[test]
fn b1_variables_that_cannot_be_filled_in() {
    check(
        &[
            "prompt.bootstrap = 'hello ${BOB_TEST_UNSET}'",
            "llm.fallback = ['a:b', \"x\\ty ${ONE}:${TWO}\"]",
            "prompt.bootstrap = '${}'",
            "prompt.bootstrap = '${A'",
            "prompt.bootstrap = '${A-B}'",
            "providers.x.base_url = '${BOB_TEST_UNSET}'",
        ],
        expect![[r#"
            > prompt.bootstrap = 'hello ${BOB_TEST_UNSET}'
            2:27 the environment variable `BOB_TEST_UNSET` is not set (set it: export BOB_TEST_UNSET=…)
            > llm.fallback = ['a:b', "x\ty ${ONE}:${TWO}"]
            2:30 the environment variable `ONE` is not set (set it: export ONE=…)
            2:37 the environment variable `TWO` is not set (set it: export TWO=…)
            > prompt.bootstrap = '${}'
            2:21 `${` is not followed by the name of a variable and `}` (write `$${` for the characters themselves)
            > prompt.bootstrap = '${A'
            2:21 `${` is not followed by the name of a variable and `}` (write `$${` for the characters themselves)
            > prompt.bootstrap = '${A-B}'
            2:21 `${` is not followed by the name of a variable and `}` (write `$${` for the characters themselves)
            > providers.x.base_url = '${BOB_TEST_UNSET}'
            2:25 the environment variable `BOB_TEST_UNSET` is not set (set it: export BOB_TEST_UNSET=…)
        "#]],
    );
}
