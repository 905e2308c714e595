//! Stories of turns that end early or wait their turn.

use super::*;

#[test]
fn a_provider_error_ends_the_turn_and_the_session_goes_on() {
    check(
        native(),
        &["user hi", "llm-fails", "user again", "llm hello"],
        expect![[r#"
            > user hi
                save options, input, started
                infer step 1 with 1 messages
            > llm-fails
                save outcome
                finish t1 Error "" [the provider is down]
            > user again
                save input, started
                infer step 1 with 3 messages
            > llm hello
                save answered, outcome
                finish t2 Final "hello"
        "#]],
    );
}

#[test]
fn an_input_for_a_busy_session_waits_its_turn() {
    check(
        native(),
        &["user one", "user two", "llm first", "llm second"],
        expect![[r#"
            > user one
                save options, input, started
                infer step 1 with 1 messages
            > user two
                save input
            > llm first
                save answered, outcome
                save started
                finish t1 Final "first"
                t2 begins
                infer step 1 with 3 messages
            > llm second
                save answered, outcome
                finish t2 Final "second"
        "#]],
    );
}

#[test]
fn the_queue_is_bounded() {
    let mut setup = native();
    setup.turn_config.max_waiting = 1;
    check(
        setup,
        &["user one", "user two", "user three"],
        expect![[r#"
        > user one
            save options, input, started
            infer step 1 with 1 messages
        > user two
            save input
        > user three
            refuse t3: the session has 1 inputs waiting; try again when it has answered
    "#]],
    );
}

#[test]
fn a_cancel_pairs_what_runs_and_what_waits() {
    check(
        native(),
        &["user go", "calls local__write {}; local__read {}", "stop cancelled"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}; local__read {}
                save answered, intent
                run c00000001 local/write {}
            > stop cancelled
                save result, result, outcome
                finish t1 Cancelled "Cancelled before there was an answer." calls Unknown Cancelled (not saved)
        "#]],
    );
}

#[test]
fn a_turn_timeout_says_so() {
    check(
        native(),
        &["user go", "stop turn_timeout"],
        expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > stop turn_timeout
            save outcome
            finish t1 GuardExceeded TurnTimeout "Stopped: the turn took longer than 90000 ms (turn_timeout_ms)." (not saved)
    "#]],
    );
}
