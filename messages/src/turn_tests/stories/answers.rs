//! Stories of answers: plain, enveloped, cut, declined, malformed.

use super::*;

#[test]
fn plain_text_in_native_mode_is_a_final_answer() {
    check(
        native(),
        &["user hi", "llm {not json"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm {not json
            save answered, outcome
            finish t1 Final "{not json"
    "#]],
    );
}

#[test]
fn an_envelope_in_native_mode_is_what_it_says() {
    check(
        native(),
        &["user hi", r#"llm {"type":"ask_user","question":"which one?"}"#, "user the red one", "llm red"],
        expect![[r#"
            > user hi
                save options, input, started
                infer step 1 with 1 messages
            > llm {"type":"ask_user","question":"which one?"}
                save answered
                save outcome
                finish t1 Suspended "" token s~secret1-4
            > user the red one
                save resumed
                t2 begins
                infer step 2 with 3 messages
            > llm red
                save answered, outcome
                finish t2 Final "red" calls Ok
        "#]],
    );
}

#[test]
fn malformed_twice_is_a_model_failure() {
    check(
        json(),
        &["user hi", "llm hello", "llm hello again"],
        expect![[r#"
            > user hi
                save options, input, started
                infer step 1 with 1 messages
            > llm hello
                save malformed
                infer step 2 with 3 messages
            > llm hello again
                save malformed, outcome
                finish t1 Error "" [the model's reply was malformed twice in a row (the reply is not one JSON object: expected value at line 1 column 1); try another model]
        "#]],
    );
}

#[test]
fn a_cut_answer_and_a_refusal_are_final() {
    check(
        native(),
        &["user hi", "cut half an ans"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > cut half an ans
            save answered, outcome
            finish t1 Final "half an ans"
    "#]],
    );
    check(
        native(),
        &["user hi", "refuse "],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > refuse 
            save answered, outcome
            finish t1 Final ""
    "#]],
    );
}

#[test]
fn a_cut_envelope_is_malformed() {
    check(
        json(),
        &["user hi", r#"cut {"type":"final","content":"half"#],
        expect![[r#"
            > user hi
                save options, input, started
                infer step 1 with 1 messages
            > cut {"type":"final","content":"half
                save malformed
                infer step 2 with 3 messages
        "#]],
    );
}

/// What a model says in JSON is written into the journal and into a saved machine, and is
/// the same when it is read again, however deep it is.
#[test]
fn b5_the_deepest_arguments_can_be_written_down_and_read_back() {
    use crate::llm::LlmRequest;
    use crate::store::{Fact, Record};
    use crate::turn::Turn;
    use crate::turn::strict::MAX_DEPTH;
    let (open, close) = ("[".repeat(MAX_DEPTH - 1), "]".repeat(MAX_DEPTH - 1));
    let mut told = Teller::new(native());
    told.step("user go");
    told.step(&format!("calls local__write {{\"a\":{open}1e-7{close}}}"));
    told.step("ok c00000001 done");
    let text = serde_json::to_string(&told.world.turn).expect("a machine is JSON");
    assert_eq!(serde_json::from_str::<Turn>(&text).expect("it reads back"), told.world.turn);
    for question in &told.world.questions {
        let Question::Infer(_, request) = question else { continue };
        let text = serde_json::to_string(request).expect("a request is JSON");
        assert_eq!(serde_json::from_str::<LlmRequest>(&text).expect("it reads back"), **request);
    }
    told.step("llm fine");
    assert!(told.world.stored.iter().any(|record| matches!(record.fact, Fact::Intent { .. })));
    for record in &told.world.stored {
        let text = serde_json::to_string(record).expect("a record is JSON");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("it reads back"), **record);
    }
}

/// A program may save a turn of the typestate runner, and a later version has to read it.
#[test]
fn a_saved_machine_keeps_the_names_of_its_fields() {
    use crate::turn::Recover;
    let mut told = Teller::new(native());
    told.step("user go");
    let saved = serde_json::to_value(&told.world.turn).expect("a machine is JSON");
    assert!(saved["brief"].is_object() && saved["journal"].is_object(), "{saved}");
    let turn_config = Arc::new(crate::turn_config::TurnConfig::new(super::super::world::model()));
    let waits = serde_json::to_value(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    assert!(waits.expect("a message is JSON")["Wake"]["brief"].is_object());
}
