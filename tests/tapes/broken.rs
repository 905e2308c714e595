//! Files that are no tape, and files that are there already.

use bob::tape::{Recorder, Redactor, Tape};

use crate::support::scratch::Scratch;

#[test]
fn a_file_that_is_no_tape_is_refused_with_its_line() {
    let scratch = Scratch::new();
    let header = r#"{"tape":1,"bob":"0.1.0","note":""}"#;
    for (text, wanted) in [
        (String::new(), "line 1: it is empty"),
        ("hello\n".to_owned(), "line 1"),
        (r#"{"tape":9,"bob":"7.0.0","note":""}"#.to_owned(), "format 9"),
        (format!("{header}\n{{\"asked\":{{}}}}\n"), "line 2"),
        (format!("{header}\n\n{{\"dance\":{{}}}}\n"), "line 3"),
        (
            format!(
                "{header}\n{{\"asked\":{{\"began\":1,\"session\":\"s\",\"step\":1,\"model\":\"a:b\",\"mode\":\"native\",\
                 \"system\":1,\"tools\":2,\"messages\":[],\"end\":\"abandoned\"}}}}\n"
            ),
            "names the system 1",
        ),
    ] {
        let file = scratch.write("some.tape", &text);
        let told = Tape::load(&file, Redactor::default()).expect_err(&text).to_string();
        assert!(told.contains(wanted) && told.contains("some.tape"), "{told} for {text:?}");
    }
    let missing = Tape::load(&scratch.join("none.tape"), Redactor::default()).expect_err("there is none").to_string();
    assert!(missing.contains("none.tape"), "{missing}");
}

#[test]
fn a_tape_that_is_there_is_not_written_over() {
    let scratch = Scratch::new();
    let file = scratch.write("some.tape", "mine");
    let told = Recorder::create(&file, Redactor::default(), "").expect_err("it is there").to_string();
    assert!(told.contains("remove it"), "{told}");
    assert_eq!(scratch.read("some.tape"), "mine");
}

#[tokio::test]
async fn a_secret_that_is_a_word_of_the_format_makes_no_tape() {
    let scratch = Scratch::new();
    let file = scratch.join("some.tape");
    let recorder = Recorder::create(&file, Redactor::new(["offered".into()]), "").unwrap();
    let tools = recorder.tools(std::sync::Arc::new(bob::tools::tool(
        "test/none",
        "Does nothing.",
        |_: serde_json::Map<String, serde_json::Value>, _| async { Ok(bob::tools::ToolOutput::text("")) },
    )));
    let _listed = tools.list_tools().await;
    let told = recorder.keep().expect_err("it cannot be read back").to_string();
    assert!(told.contains("spelled like a word"), "{told}");
}
