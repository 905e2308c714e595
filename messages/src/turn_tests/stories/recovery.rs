//! Stories of crashes and restarts.

use super::*;

#[test]
fn a_cancel_while_the_outcome_is_being_saved_keeps_the_outcome() {
    let mut told = Teller::new(native());
    told.step("user hi");
    let Some(Question::Infer(ticket, _)) = told.world.questions.pop() else { panic!() };
    told.world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("hello", &[]))) });
    let Some(Question::Own(done)) = told.world.questions.pop() else { panic!() };
    told.world.say(done);
    told.step("stop cancelled");
    expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > stop cancelled
            save answered, outcome
            finish t1 Final "hello" (not saved)
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn a_crash_runs_reads_again_and_doubts_effects() {
    check(
        native(),
        &["user go", "calls local__read {}", "crash", "ok 1 again", "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > crash
                t1 begins
                run c00000001 local/read {}
            > ok 1 again
                save result
                infer step 2 with 3 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
        "#]],
    );
    check(
        native(),
        &["user go", "calls local__write {}", "crash", "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > crash
                save result
                t1 begins
                infer step 2 with 3 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Unknown
        "#]],
    );
    check(
        native(),
        &["user go", "calls local__idem {}", "crash", "ok 1 again", "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__idem {}
                save answered, intent
                run c00000001 local/idem {}
            > crash
                t1 begins
                save intent
                run c00000001 local/idem {}
            > ok 1 again
                save result
                infer step 2 with 3 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
        "#]],
    );
}

#[test]
fn a_killed_turn_is_closed_from_its_journal() {
    check(
        native(),
        &["user go", "calls local__write {}", "killed"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > killed
                save result, outcome
                finish t1 Cancelled "Cancelled before there was an answer." calls Unknown
        "#]],
    );
}

#[test]
fn after_a_restart_of_the_program_the_interrupted_turn_is_reported() {
    check(
        native(),
        &["user go", "calls local__write {}", "restart next", "llm hello"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > restart next
                save result, input
                save outcome
                save started
                finish t1 Error "(a crash of the program interrupted the turn; its calls are marked)" calls Unknown [a crash of the program interrupted the turn; its calls are marked]
                t2 begins
                infer step 1 with 5 messages
            > llm hello
                save answered, outcome
                finish t2 Final "hello"
        "#]],
    );
}

#[test]
fn after_a_restart_the_interrupted_turn_is_finished_first_if_asked() {
    let mut setup = native();
    setup.turn_config.on_restart = crate::turn_config::OnRestart::Resume;
    check(
        setup,
        &["user go", "calls local__write {}", "restart next", "llm finished", "llm hello"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > restart next
                save result
                t1 begins
                save input
                infer step 2 with 3 messages
            > llm finished
                save answered, outcome
                save started
                finish t1 Final "finished" calls Unknown
                t2 begins
                infer step 1 with 5 messages
            > llm hello
                save answered, outcome
                finish t2 Final "hello"
        "#]],
    );
}

#[test]
fn a_stop_for_an_input_behind_a_recovered_turn_takes_it_out_and_leaves_the_turn_open() {
    let mut setup = native();
    setup.turn_config.on_restart = crate::turn_config::OnRestart::Resume;
    let mut told = Teller::new(setup);
    for step in ["user go", "restart next"] {
        told.step(step);
    }
    let meant = Some(crate::ids::TurnId::new("t2"));
    told.say(TurnMessage::Stopped { reason: EndReason::TurnTimeout, submission: meant });
    let session = told.world.folded();
    assert!(session.waiting.is_empty(), "it never begins: its caller was told");
    assert!(session.running().is_some(), "whoever is started next goes on with it");
    expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > restart next
            save input
            t1 begins
            infer step 1 with 1 messages
            save withdrawn
            finish t2 GuardExceeded TurnTimeout "Stopped: the turn took longer than 90000 ms (turn_timeout_ms)." (not saved)
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn a_fenced_owner_writes_nothing_more() {
    let mut told = Teller::new(native());
    told.step("user go");
    told.world.epoch += 1;
    told.step("calls local__write {}");
    expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > calls local__write {}
            save answered, intent
            finish t1 Error "" [the session was taken over by another owner (epoch 2)] (not saved)
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn a_repeated_request_id_returns_the_first_outcome() {
    let mut told = Teller::new(native());
    let turn_config = Arc::clone(&told.world.turn_config);
    let named = |told: &mut Teller| {
        let input = told.next_input("go");
        Arc::new(TurnInput { request_id: Some(crate::ids::RequestId::new("r")), ..(*input).clone() })
    };
    let first = named(&mut told);
    told.say(TurnMessage::Start { input: first, turn_config: Arc::clone(&turn_config) });
    let second = named(&mut told);
    told.say(TurnMessage::Start { input: second, turn_config: Arc::clone(&turn_config) });
    told.step("llm once");
    let third = named(&mut told);
    told.say(TurnMessage::Start { input: third, turn_config });
    expect![[r#"
            save options, input, started
            infer step 1 with 1 messages
            refuse t2: a request with this request_id is still running
        > llm once
            save answered, outcome
            finish t1 Final "once"
            finish t3 Final "once"
    "#]]
    .assert_eq(&told.trace);
}
