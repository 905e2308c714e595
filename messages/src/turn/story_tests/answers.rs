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
                finish t1 Suspended "" token secret1-4
            > user the red one
                save resumed
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
