//! Text of models and tools is untrusted: no terminal control sequence of it is printed, in any form.

use serde_json::{Value, json};

use crate::home::Home;
use crate::support::clean::assert_clean;
use crate::support::program::Run;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const HOSTILE: &str = "a\u{1b}[2Jb\u{1b}]52;c;aGk=\u{7}c\u{9b}31md\re\u{202e}f\u{7f}g";

#[track_caller]
fn assert_all_clean(run: &Run) {
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_clean(&run.stdout);
    assert_clean(&run.stderr);
}

/// The model calls a tool on a hostile file and sends hostile text, in chunks that split every sequence.
fn home() -> (Home, FakeProvider) {
    let provider = FakeProvider::answering(|body| {
        let answered = body["messages"].as_array().is_some_and(|all| all.iter().any(|one| one["role"] == "tool"));
        match answered {
            true => Reply::text(HOSTILE).splintered(3),
            false => Reply::call("c1", "local__read_file", r#"{"path":"hostile.txt"}"#),
        }
    });
    let home = Home::served_by(&provider);
    home.scratch.write("hostile.txt", format!("tool {HOSTILE}\n"));
    (home, provider)
}

#[test]
fn g5_no_output_of_run_carries_a_sequence() {
    let (home, _provider) = home();
    let text = home.run(["run", "--session", "s", "read it"]);
    assert_all_clean(&text);
    assert_eq!(text.stdout, "abc31mdefg\n");
    for form in ["json", "stream-json"] {
        let run = home.run(["run", "--output", form, "read it"]);
        assert_all_clean(&run);
        let last: Value = serde_json::from_str(run.stdout.lines().last().expect("a line")).expect("JSON");
        assert_eq!(last["content"], json!(HOSTILE), "a program gets what the model said, escaped");
    }
    for command in ["show", "export"] {
        assert_all_clean(&home.run(["sessions", command, "s"]));
    }
    assert_all_clean(&home.run(["sessions", "show", "s", "--json"]));
}

#[test]
fn g5_no_output_of_a_piped_chat_carries_a_sequence() {
    let (home, _provider) = home();
    let run = home.agent(["chat"]).stdin("read it\n").run();
    assert_all_clean(&run);
    assert!(run.stdout.contains("abc31mdefg"), "{}", run.stdout);
}

#[test]
fn g5_an_error_of_a_provider_is_clean() {
    let body = json!({ "error": { "message": HOSTILE, "type": HOSTILE } }).to_string();
    let status = Reply::Status { code: 400, headers: Vec::new(), body: Some(body) };
    let provider = FakeProvider::repeating([status]);
    let run = Home::served_by(&provider).run(["run", "hi"]);
    assert_eq!(run.code, Some(5), "{run:?}");
    assert_clean(&run.stderr);
}
