//! Stories of the guards, each at exactly its limit.

use super::*;
use crate::models::Cost;

#[test]
fn max_steps_is_exact() {
    check(
        limited(|limits| limits.max_steps = 2),
        &["user go", r#"calls local__read {"n":1}"#, "ok 1 a", r#"calls local__read {"n":2}"#, "ok 2 b"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {"n":1}
                run c00000001 local/read {"n":1}
                save answered
            > ok 1 a
                save result
                infer step 2 with 3 messages
            > calls local__read {"n":2}
                run c00000002 local/read {"n":2}
                save answered
            > ok 2 b
                save result, outcome
                finish t1 GuardExceeded MaxSteps "Stopped: the turn used its 2 model calls (max_steps)." calls Ok Ok
        "#]],
    );
}

#[test]
fn max_tool_calls_lets_exactly_so_many_run() {
    check(
        limited(|limits| limits.max_tool_calls = 3),
        &[
            "user go",
            r#"calls local__read {"n":1}; local__read {"n":2}; local__read {"n":3}; local__read {"n":4}"#,
            "ok 1 a",
            "ok 2 b",
            "ok 3 c",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {"n":1}; local__read {"n":2}; local__read {"n":3}; local__read {"n":4}
                run c00000001 local/read {"n":1}
                save answered, result
                run c00000002 local/read {"n":2}
                run c00000003 local/read {"n":3}
            > ok 1 a
                save result
            > ok 2 b
                save result
            > ok 3 c
                save result, outcome
                finish t1 GuardExceeded MaxToolCalls "Stopped: the turn used its 3 tool calls (max_tool_calls)." calls Ok Ok Ok Cancelled
        "#]],
    );
    check(
        limited(|limits| limits.max_tool_calls = 1),
        &["user go", "calls local__read {}", "ok 1 a", "llm answered"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result
                infer step 2 with 3 messages
            > llm answered
                save answered, outcome
                finish t1 Final "answered" calls Ok
        "#]],
    );
}

#[test]
fn the_second_error_in_a_row_ends_the_turn_when_the_results_are_in() {
    check(
        native(),
        &[
            "user go",
            r#"calls local__read {"n":1}"#,
            "error 1 no",
            r#"calls local__read {"n":2}; local__bad {}"#,
            "ok 2 yes",
            "calls local__deny {}",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {"n":1}
                run c00000001 local/read {"n":1}
                save answered
            > error 1 no
                save result
                infer step 2 with 3 messages
            > calls local__read {"n":2}; local__bad {}
                run c00000002 local/read {"n":2}
                save answered
                save result
            > ok 2 yes
                save result
                infer step 3 with 6 messages
            > calls local__deny {}
                save answered, result, outcome
                finish t1 GuardExceeded MaxConsecutiveErrors "Stopped: 2 tool calls in a row failed (max_consecutive_errors)." calls Error Ok Error Denied
        "#]],
    );
}

#[test]
fn m21_calls_of_a_tool_that_is_away_are_no_errors_of_the_model() {
    check(
        native(),
        &["user go", r#"calls local/away {"n":1}; local/away {"n":2}"#, r#"calls local/away {"n":3}"#, "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local/away {"n":1}; local/away {"n":2}
                save answered, result, result
                infer step 2 with 4 messages
            > calls local/away {"n":3}
                save answered, result
                infer step 3 with 6 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Cancelled Cancelled Cancelled
        "#]],
    );
    // Nor do they hide the errors on both sides of them.
    check(
        native(),
        &["user go", "calls local__bad {}", "calls local/away {}", "calls local__deny {}"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__bad {}
                save answered, result
                infer step 2 with 3 messages
            > calls local/away {}
                save answered, result
                infer step 3 with 5 messages
            > calls local__deny {}
                save answered, result, outcome
                finish t1 GuardExceeded MaxConsecutiveErrors "Stopped: 2 tool calls in a row failed (max_consecutive_errors)." calls Error Cancelled Denied
        "#]],
    );
}

#[test]
fn the_fourth_identical_call_is_not_run() {
    let calls = "calls local__read {}";
    check(
        native(),
        &["user go", calls, "ok 1 a", calls, "ok 2 a", calls, "ok 3 a", calls],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result
                infer step 2 with 3 messages
            > calls local__read {}
                run c00000002 local/read {}
                save answered
            > ok 2 a
                save result
                infer step 3 with 5 messages
            > calls local__read {}
                run c00000003 local/read {}
                save answered
            > ok 3 a
                save result
                infer step 4 with 7 messages
            > calls local__read {}
                save answered, result, outcome
                finish t1 GuardExceeded MaxIdenticalCalls "Stopped: the model repeated the same call more than 3 times (max_identical_calls)." calls Ok Ok Ok Cancelled
        "#]],
    );
}

#[test]
fn max_total_tokens_ends_the_turn_before_the_next_call() {
    check(
        limited(|limits| limits.max_total_tokens = 15),
        &["user go", "calls local__read {}", "ok 1 a"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result, outcome
                finish t1 GuardExceeded MaxTotalTokens "Stopped: the turn used its 15 tokens (max_total_tokens)." calls Ok
        "#]],
    );
}

#[test]
fn max_cost_ends_the_turn_before_the_next_call() {
    // A call costs 15 millionths.
    let dear = |nanos| limited(|limits| limits.max_cost = Cost::from_nanos(nanos));
    let steps = ["user go", "calls local__read {}", "ok 1 a"];
    check(
        dear(15_000),
        &steps,
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result, outcome
                finish t1 GuardExceeded MaxCost "Stopped: the turn cost its 0.000015 (max_cost)." calls Ok
        "#]],
    );
    let world = told(dear(15_001), &steps);
    assert!(world.questions.iter().any(|question| matches!(question, Question::Infer(..))), "one billionth is left");
    let tripped =
        |event: &crate::event::StepEvent| matches!(event.event, crate::event::AgentEvent::GuardTripped { .. });
    assert!(!world.events.iter().any(tripped));
}

#[test]
fn a_bounded_cost_needs_a_price() {
    let mut told = Teller::new(limited(|limits| limits.max_cost = Cost::from_amount(1.0)));
    told.world.price = None;
    told.step("user go");
    let outcome = told.world.news.iter().find_map(|news| match news {
        TurnNews::Finished { outcome, .. } => outcome.error.clone(),
        _ => None,
    });
    let error = outcome.expect("the turn fails").to_string();
    assert!(error.contains("max_cost is set, and no price of") && error.contains("[prices.\""), "{error}");
    assert!(told.world.questions.iter().all(|question| !matches!(question, Question::Infer(..))));
}
