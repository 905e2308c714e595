//! Stories of questions, approvals and what is said into a running turn.

use super::*;

#[test]
fn malformed_once_is_asked_again() {
    check(
        json(),
        &["user hi", "llm hello", r#"llm {"type":"final","content":"hello"}"#],
        expect![[r#"
            > user hi
                save options, input, started
                infer step 1 with 1 messages
            > llm hello
                save malformed
                infer step 2 with 3 messages
            > llm {"type":"final","content":"hello"}
                save answered, outcome
                finish t1 Final "hello"
        "#]],
    );
}

#[test]
fn an_approval_waits_inside_the_turn() {
    let setup = Setup { approvals: ApprovalsMode::Wait, ..native() };
    check(
        setup.clone(),
        &["user go", "calls local__ask {}", "approve s-c00000001", "ok 1 done", "llm fine"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > approve s-c00000001
                the clock goes on
                save approval_decided, intent
                run c00000001 local/ask {}
            > ok 1 done
                save result
                infer step 2 with 3 messages
            > llm fine
                save answered, outcome
                finish t1 Final "fine" calls Ok
        "#]],
    );
    check(
        setup,
        &["user go", "calls local__ask {}", "deny s-c00000001", "llm fine"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > deny s-c00000001
                the clock goes on
                save approval_decided, result
                infer step 2 with 3 messages
            > llm fine
                save answered, outcome
                finish t1 Final "fine" calls Denied
        "#]],
    );
}

#[test]
fn an_approval_suspends_the_turn_and_a_new_program_goes_on() {
    let setup = Setup { approvals: ApprovalsMode::Suspend, ..native() };
    check(
        setup.clone(),
        &["user go", "calls local__ask {}", "crash", "resume s~secret1-5 allow", "ok 1 done", "llm fine"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                save outcome
                finish t1 Suspended "" token s~secret1-5
            > crash
            > resume s~secret1-5 allow
                save resumed, approval_decided
                t2 begins
                save intent
                run c00000001 local/ask {}
            > ok 1 done
                save result
                infer step 2 with 3 messages
            > llm fine
                save answered, outcome
                finish t2 Final "fine" calls Ok
        "#]],
    );
    check(
        setup,
        &["user go", "calls local__ask {}", "resume guess allow", "user something else", "llm well"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                save outcome
                finish t1 Suspended "" token s~secret1-5
            > resume guess allow
                refuse t2: no suspended turn has this token; it may have been answered already
            > user something else
                save resumed, result, outcome, input, started
                infer step 1 with 5 messages
            > llm well
                save answered, outcome
                finish t3 Final "well"
        "#]],
    );
}

#[test]
fn nobody_to_ask_denies() {
    check(
        native(),
        &["user go", "calls local__ask {}", "llm then not"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, result
                infer step 2 with 3 messages
            > llm then not
                save answered, outcome
                finish t1 Final "then not" calls Denied
        "#]],
    );
}

#[test]
fn a_question_suspends_and_the_next_message_answers_it() {
    check(
        native(),
        &[
            "user go",
            r#"calls local__read {}; ask_user {"question":"which?"}"#,
            "ok 1 a",
            "crash",
            "user red",
            "llm red then",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}; ask_user {"question":"which?"}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result
                save outcome
                finish t1 Suspended "" calls Ok token s~secret1-5
            > crash
            > user red
                save resumed
                t2 begins
                infer step 2 with 4 messages
            > llm red then
                save answered, outcome
                finish t2 Final "red then" calls Ok Ok
        "#]],
    );
}

#[test]
fn what_is_steered_in_is_taken_at_the_next_boundary() {
    check(
        native(),
        &["user go", "calls local__read {}", "steer and hurry", "ok 1 a", "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > steer and hurry
                save steered
                "and hurry" is taken: true
            > ok 1 a
                save result
                infer step 2 with 4 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
        "#]],
    );
}

#[test]
fn what_is_said_while_the_model_speaks_is_asked_behind_its_answer() {
    check(
        native(),
        &["user go", "steer no wait", "llm done", "llm waited"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > steer no wait
                save steered
                "no wait" is taken: true
            > llm done
                save answered
                infer step 2 with 3 messages
            > llm waited
                save answered, outcome
                finish t1 Final "waited"
        "#]],
    );
}

#[test]
fn what_is_said_into_the_last_step_is_kept_and_the_answer_stays_the_last_word() {
    let limits = Limits { max_steps: 1, ..Limits::default() };
    check(
        Setup { limits, ..native() },
        &["user go", "steer no wait", "llm done", "user next"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > steer no wait
                save steered
                "no wait" is taken: true
            > llm done
                save answered, outcome
                finish t1 Final "done"
            > user next
                save input, started
                infer step 1 with 4 messages
        "#]],
    );
}

#[test]
fn what_is_said_into_a_turn_is_taken_once_over_a_crash_and_by_nobody_when_none_runs() {
    check(
        native(),
        &[
            "steer early",
            "user go",
            "steer one",
            "crash",
            "steer one",
            "llm done",
            "llm end",
            "steer one",
            "steer late",
        ],
        expect![[r#"
            > steer early
                "early" is taken: false
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > steer one
                save steered
                "one" is taken: true
            > crash
                t1 begins
                infer step 1 with 1 messages
            > steer one
                "one" is taken: true
            > llm done
                save answered
                infer step 2 with 3 messages
            > llm end
                save answered, outcome
                finish t1 Final "end"
            > steer one
                "one" is taken: true
            > steer late
                "late" is taken: false
        "#]],
    );
}

#[test]
fn what_is_said_into_a_turn_answers_no_question() {
    check(
        Setup { approvals: ApprovalsMode::Wait, ..native() },
        &["user go", "calls local__ask {}", "steer allow_once", "deny s-c00000001", "llm fine"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > steer allow_once
                save steered
                "allow_once" is taken: true
            > deny s-c00000001
                the clock goes on
                save approval_decided, result
                infer step 2 with 4 messages
            > llm fine
                save answered, outcome
                finish t1 Final "fine" calls Denied
        "#]],
    );
}
