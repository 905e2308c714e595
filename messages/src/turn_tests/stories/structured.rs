//! Stories of answers that must fit a schema: what fits is journaled, what does not is malformed.

use super::*;

fn structured(setup: Setup) -> Setup {
    Setup { structured: true, ..setup }
}

#[test]
fn an_answer_is_held_against_its_schema_before_it_is_journaled() {
    check(
        structured(native()),
        &["user hi", "llm ```json\n{ \"ok\": true }\n```"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm ```json
        { "ok": true }
        ```
            does {"ok":true} fit?
            save answered, outcome
            finish t1 Final "{\"ok\":true}"
    "#]],
    );
    check(
        structured(json()),
        &["user hi", r#"llm {"type":"final","content":{"ok":true}}"#],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm {"type":"final","content":{"ok":true}}
            does {"ok":true} fit?
            save answered, outcome
            finish t1 Final "{\"ok\":true}"
    "#]],
    );
    check(
        structured(json()),
        &["user hi", r#"llm {"type":"final","content":"{\"ok\": true}"}"#],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm {"type":"final","content":"{\"ok\": true}"}
            does {"ok":true} fit?
            save answered, outcome
            finish t1 Final "{\"ok\":true}"
    "#]],
    );
}

#[test]
fn what_does_not_fit_is_malformed_and_the_second_in_a_row_ends_the_turn() {
    check(
        structured(native()),
        &["user hi", r#"llm {"ok":false}"#, r#"llm {"ok":true}"#],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm {"ok":false}
            does {"ok":false} fit?
            save malformed
            infer step 2 with 3 messages
        > llm {"ok":true}
            does {"ok":true} fit?
            save answered, outcome
            finish t1 Final "{\"ok\":true}"
    "#]],
    );
    check(
        structured(native()),
        &["user hi", "llm hello", r#"llm {"ok":false}"#],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm hello
            save malformed
            infer step 2 with 3 messages
        > llm {"ok":false}
            does {"ok":false} fit?
            save malformed, outcome
            finish t1 Error "" [the model's reply was malformed twice in a row (the answer does not fit the schema: /ok: true was expected); try another model]
    "#]],
    );
    check(
        structured(json()),
        &["user hi", r#"llm {"type":"final","content":"hello"}"#],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm {"type":"final","content":"hello"}
            does "hello" fit?
            save malformed
            infer step 2 with 3 messages
    "#]],
    );
    check(
        structured(native()),
        &["user hi", r#"cut {"ok":"#],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > cut {"ok":
            save malformed
            infer step 2 with 3 messages
    "#]],
    );
    check(
        structured(native()),
        &["user hi", "refuse I would rather not"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > refuse I would rather not
            save malformed
            infer step 2 with 3 messages
    "#]],
    );
}

#[test]
fn a_crash_while_the_answer_is_judged_asks_the_model_again() {
    let mut told = Teller::new(structured(native()));
    told.step("user hi");
    let at = told.world.questions.iter().position(|question| matches!(question, Question::Infer(..))).unwrap();
    let Question::Infer(ticket, _) = told.world.questions.remove(at) else { unreachable!() };
    told.world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("{\"ok\":true}", &[]))) });
    assert!(told.world.questions.iter().any(|question| matches!(question, Question::Output(..))));
    told.step("crash");
    told.step(r#"llm {"ok":true}"#);
    expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > crash
            t1 begins
            infer step 1 with 1 messages
        > llm {"ok":true}
            does {"ok":true} fit?
            save answered, outcome
            finish t1 Final "{\"ok\":true}"
    "#]]
    .assert_eq(&told.trace);
}
