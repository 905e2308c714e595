//! Stories of calls and their results.

use super::*;

#[test]
fn final_without_tools() {
    check(
        native(),
        &["user hi", "llm hello"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm hello
            save answered, outcome
            finish t1 Final "hello"
    "#]],
    );
}

#[test]
fn tool_then_final() {
    check(
        native(),
        &["user go", "calls local__write {}", "ok 1 done", "llm finished"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > ok 1 done
                save result
                infer step 2 with 3 messages
            > llm finished
                save answered, outcome
                finish t1 Final "finished" calls Ok
        "#]],
    );
}

#[test]
fn two_native_calls_give_two_results() {
    check(
        native(),
        &["user go", r#"calls local__read {"a":1}; local__read {"a":2}"#, "ok 2 second", "ok 1 first", "llm both"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {"a":1}; local__read {"a":2}
                run c00000001 local/read {"a":1}
                save answered
                run c00000002 local/read {"a":2}
            > ok 2 second
                save result
            > ok 1 first
                save result
                infer step 2 with 4 messages
            > llm both
                save answered, outcome
                finish t1 Final "both" calls Ok Ok
        "#]],
    );
}

#[test]
fn a_call_with_side_effects_runs_alone_and_in_order() {
    check(
        native(),
        &[
            "user go",
            "calls local__read {}; local__write {}; local__read {\"b\":1}",
            "ok 1 a",
            "ok 2 b",
            "ok 3 c",
            "llm all",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}; local__write {}; local__read {"b":1}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result, intent
                run c00000002 local/write {}
            > ok 2 b
                save result
                run c00000003 local/read {"b":1}
            > ok 3 c
                save result
                infer step 2 with 5 messages
            > llm all
                save answered, outcome
                finish t1 Final "all" calls Ok Ok Ok
        "#]],
    );
}
