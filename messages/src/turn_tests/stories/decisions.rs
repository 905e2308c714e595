//! Stories of decisions that reach beyond their call, and of tools that change under a question.

use super::*;

fn waiting() -> Setup {
    Setup { approvals: ApprovalsMode::Wait, ..native() }
}

#[test]
fn a_decision_for_the_session_is_not_asked_for_again_until_the_tool_is_another_one() {
    check(
        waiting(),
        &[
            "user go",
            "calls local__ask {}",
            "approve-all s-c00000001",
            "ok 1 done",
            "calls local__ask {}",
            "ok 2 done",
            "llm fine",
            "drift",
            "restart and again",
            "calls local__ask {}",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > approve-all s-c00000001
                the clock goes on
                save approval_decided, intent
                run c00000001 local/ask {}
            > ok 1 done
                save result
                infer step 2 with 3 messages
            > calls local__ask {}
                save answered, intent
                run c00000002 local/ask {}
            > ok 2 done
                save result
                infer step 3 with 5 messages
            > llm fine
                save answered, outcome
                finish t1 Final "fine" calls Ok Ok
            > drift
            > restart and again
                save input, started
                infer step 1 with 7 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
        "#]],
    );
}

#[test]
fn what_was_denied_for_ever_is_not_asked_about_again() {
    check(
        waiting(),
        &["user go", "calls local__ask {}", "deny-all s-c00000001", "calls local__ask {}"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > deny-all s-c00000001
                the clock goes on
                save approval_decided, result
                infer step 2 with 3 messages
            > calls local__ask {}
                save answered, result
                infer step 3 with 5 messages
        "#]],
    );
}

#[test]
fn a_tool_that_changes_under_the_question_is_asked_about_again_and_then_denied() {
    check(
        waiting(),
        &[
            "user go",
            "calls local__ask {}",
            "drift",
            "approve s-c00000001",
            "drift",
            "approve s-c00000001.2",
            "drift",
            "approve s-c00000001.3",
            "llm then not",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > drift
            > approve s-c00000001
                the clock goes on
                save approval_decided, approval_asked
                pause the clock
            > drift
            > approve s-c00000001.2
                the clock goes on
                save approval_decided, approval_asked
                pause the clock
            > drift
            > approve s-c00000001.3
                the clock goes on
                save approval_decided, result
                infer step 2 with 3 messages
            > llm then not
                save answered, outcome
                finish t1 Final "then not" calls Denied
        "#]],
    );
}

#[test]
fn two_refusals_of_a_person_in_a_row_are_no_errors() {
    let (first, second) = (r#"calls local__ask {"n":1}"#, r#"calls local__ask {"n":2}"#);
    check(
        waiting(),
        &["user go", first, "deny s-c00000001", second, "deny s-c00000002", "calls local__bad {}", "llm as you wish"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {"n":1}
                save answered, approval_asked
                pause the clock
            > deny s-c00000001
                the clock goes on
                save approval_decided, result
                infer step 2 with 3 messages
            > calls local__ask {"n":2}
                save answered, approval_asked
                pause the clock
            > deny s-c00000002
                the clock goes on
                save approval_decided, result
                infer step 3 with 5 messages
            > calls local__bad {}
                save answered, result
                infer step 4 with 7 messages
            > llm as you wish
                save answered, outcome
                finish t1 Final "as you wish" calls Denied Denied Error
        "#]],
    );
}

#[test]
fn a_lasting_decision_answers_the_other_questions_about_such_calls() {
    let asks = ["user go", "calls local__ask {\"a\":1}; local__ask {\"a\":2}; local__ask {\"a\":3}"];
    check(
        waiting(),
        &[&asks[..], &["approve-all s-c00000002", "ok 1 done"]].concat(),
        expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > calls local__ask {"a":1}; local__ask {"a":2}; local__ask {"a":3}
            pause the clock
            pause the clock
            save answered, approval_asked, approval_asked, approval_asked
            pause the clock
        > approve-all s-c00000002
            save approval_decided
            the clock goes on
            save approval_decided, approval_decided, intent
            run c00000001 local/ask {"a":1}
        > ok 1 done
            save result
            save intent
            run c00000002 local/ask {"a":2}
    "#]],
    );
    check(
        waiting(),
        &[&asks[..], &["deny-all s-c00000001"]].concat(),
        expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > calls local__ask {"a":1}; local__ask {"a":2}; local__ask {"a":3}
            pause the clock
            pause the clock
            save answered, approval_asked, approval_asked, approval_asked
            pause the clock
        > deny-all s-c00000001
            save approval_decided, result
            save approval_decided, result
            the clock goes on
            save approval_decided, result
            infer step 2 with 5 messages
    "#]],
    );
    // The tool is another one by now: the others stay as they were asked.
    check(
        waiting(),
        &[&asks[..], &["drift", "approve-all s-c00000001"]].concat(),
        expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > calls local__ask {"a":1}; local__ask {"a":2}; local__ask {"a":3}
            pause the clock
            pause the clock
            save answered, approval_asked, approval_asked, approval_asked
            pause the clock
        > drift
        > approve-all s-c00000001
            save approval_decided, approval_asked
            pause the clock
    "#]],
    );
    // The process ended between the decision and what it means for the others.
    check(
        waiting(),
        &[&asks[..], &["approve-all s-c00000001", "crash"]].concat(),
        expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > calls local__ask {"a":1}; local__ask {"a":2}; local__ask {"a":3}
            pause the clock
            pause the clock
            save answered, approval_asked, approval_asked, approval_asked
            pause the clock
        > approve-all s-c00000001
            save approval_decided, intent
            the clock goes on
            run c00000001 local/ask {"a":1}
            save approval_decided, approval_decided
        > crash
            save result
            t1 begins
            save intent
            run c00000002 local/ask {"a":2}
    "#]],
    );
}
