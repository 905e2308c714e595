//! Stories of stores that fail, or are away: what waits, what is given up, and what is told.

use super::*;

#[test]
fn an_effect_that_cannot_be_journaled_is_not_run() {
    let mut told = Teller::new(native());
    told.step("user go");
    told.step("store-fails");
    told.step("calls local__write {}");
    told.step("llm well");
    expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > store-fails
        > calls local__write {}
            save answered, intent
            save answered, intent
            save answered, intent
            save answered, intent
            save answered, intent
            save answered, intent, result
            infer step 2 with 3 messages
        > llm well
            save answered, intent, result, answered, outcome
            finish t1 Final "well" calls Error (not saved)
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn an_effect_waits_for_a_store_that_comes_back_and_runs_once() {
    let mut told = Teller::new(native());
    told.step("user go");
    told.step("store-fails 4");
    told.step("calls local__write {}");
    told.step("ok c00000001 done");
    told.step("llm well");
    expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > store-fails 4
        > calls local__write {}
            save answered, intent
            save answered, intent
            save answered, intent
            save answered, intent
            save answered, intent
            run c00000001 local/write {}
        > ok c00000001 done
            save result
            infer step 2 with 3 messages
        > llm well
            save answered, outcome
            finish t1 Final "well" calls Ok
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn an_effect_waits_for_a_database_that_is_away_as_long_as_its_turn_may_last() {
    let mut told = Teller::new(native());
    told.step("user go");
    told.step("store-away 40");
    told.step("calls local__write {}");
    let attempts = told.trace.matches("save answered, intent\n").count();
    assert_eq!(attempts, 41, "{}", told.trace);
    assert!(told.trace.ends_with("run c00000001 local/write {}\n"), "{}", told.trace);
    told.trace.clear();
    told.step("ok c00000001 done");
    told.store_fails = 1;
    told.step("calls local__write {\"a\":2}");
    told.step("ok c00000002 done");
    told.step("llm well");
    expect![[r#"
        > ok c00000001 done
            save result
            infer step 2 with 3 messages
        > calls local__write {"a":2}
            save answered, intent
            save result, answered, intent
            run c00000002 local/write {"a":2}
        > ok c00000002 done
            save result
            infer step 3 with 5 messages
        > llm well
            save answered, outcome
            finish t1 Final "well" calls Ok Ok
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn an_input_that_cannot_be_journaled_is_refused_and_the_next_one_works() {
    let mut told = Teller::new(native());
    told.step("store-fails");
    told.step("user go");
    told.store_fails = 0;
    told.step("user again");
    told.step("llm hello");
    expect![[r#"
        > store-fails
        > user go
            save options, input, started
            finish t1 Error "" [the store is unavailable: the disk is full] (not saved)
        > user again
            save options, input, started
            infer step 1 with 1 messages
        > llm hello
            save answered, outcome
            finish t2 Final "hello"
    "#]]
    .assert_eq(&told.trace);
}

/// While a call runs or a person is asked nothing happens for minutes; a full disk is
/// not asked again and again meanwhile.
#[test]
fn a_store_that_fails_is_asked_again_only_when_something_has_happened() {
    for call in ["local__read", "local__write", "local__ask"] {
        let mut told = Teller::new(Setup { approvals: ApprovalsMode::Wait, ..native() });
        told.step("user go");
        told.step(&format!("calls {call} {{}}"));
        let (request_id, parts) = (crate::ids::RequestId::new("r"), vec![crate::chat::ContentPart::text("and this")]);
        told.world.say(TurnMessage::Steered { steer: Box::new(Steer { request_id, submission: None, parts }) });
        let mut asked = 0;
        while let Some(at) = told.world.questions.iter().position(|asked| matches!(asked, Question::Append(..))) {
            let Question::Append(ticket, ..) = told.world.questions.remove(at) else { unreachable!() };
            asked += 1;
            assert!(asked < 10, "{call}: the store is asked for ever");
            let error = StoreError::Unavailable("the disk is full".into());
            told.world.say(TurnMessage::Saved { ticket, result: Err(error) });
        }
        assert_eq!(asked, 1, "{call}");
        told.step(if call == "local__ask" { "approve s-c00000001" } else { "ok 1 done" });
        assert_eq!(
            told.world.folded(),
            *told.world.turn.session().expect("a session"),
            "{call}: it is stored after all"
        );
    }
}

/// What was asked and never kept is not answered by what is said to it: the next owner
/// of the journal may have another call of the same number.
#[test]
fn a_question_that_was_lost_with_its_owner_decides_about_no_later_call() {
    let mut told = Teller::new(Setup { approvals: ApprovalsMode::Wait, ..native() });
    told.step("user go");
    told.store_fails = u32::MAX;
    told.step("calls local__ask {\"a\":1}");
    told.store_fails = 0;
    told.step("crash");
    told.step("calls local__ask {\"a\":2}");
    told.step("approve s-c00000001");
    assert_eq!(told.world.dispatched, Vec::<String>::new(), "{}", told.trace);
    told.step("approve s-c00000001-2");
    assert_eq!(told.world.dispatched, ["c00000001"]);
}

#[test]
fn a_token_that_was_lost_with_its_owner_resumes_no_later_suspension() {
    let mut told = Teller::new(Setup { approvals: ApprovalsMode::Suspend, ..native() });
    told.step("user go");
    told.store_fails = u32::MAX;
    told.step("calls local__ask {\"a\":1}");
    told.store_fails = 0;
    told.step("crash");
    told.step("calls local__ask {\"a\":2}");
    told.step("resume s~secret1-5 allow");
    assert_eq!(told.world.dispatched, Vec::<String>::new(), "{}", told.trace);
    told.step("resume s~secret1-5-2 allow");
    assert_eq!(told.world.dispatched, ["c00000001"]);
}

/// A repeated request hears what is known by then: an outcome that only the machine remembers is not kept.
#[test]
fn a_repeated_request_is_not_told_that_an_outcome_is_saved_that_is_not() {
    let mut told = Teller::new(native());
    let turn_config = Arc::clone(&told.world.turn_config);
    let named = |told: &mut Teller| {
        let input = told.next_input("go");
        let input = Arc::new(TurnInput { request_id: Some(crate::ids::RequestId::new("r")), ..(*input).clone() });
        told.say(TurnMessage::Start { input, turn_config: Arc::clone(&turn_config) });
    };
    named(&mut told);
    told.store_fails = u32::MAX;
    told.step("llm once");
    named(&mut told);
    told.store_fails = 0;
    told.step("user and then");
    named(&mut told);
    expect![[r#"
            save options, input, started
            infer step 1 with 1 messages
        > llm once
            save answered, outcome
            finish t1 Final "once" (not saved)
            finish t2 Final "once" (not saved)
        > user and then
            save answered, outcome, input, started
            infer step 1 with 3 messages
            finish t4 Final "once"
    "#]]
    .assert_eq(&told.trace);
}
