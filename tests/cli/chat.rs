//! `chat` on a pipe: every line is one message.

use serde_json::json;

use crate::home::Home;
use crate::support::clean::assert_clean;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

#[test]
fn lines_of_a_pipe_are_messages_of_one_session() {
    let provider = FakeProvider::start(["one", "two"].map(Reply::text));
    let home = Home::served_by(&provider);
    let run = home.agent(["chat", "--session", "s"]).stdin("first\n\nsecond").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "one\ntwo\n"), "{}", run.stderr);
    assert_clean(&run.stderr);
    let body = provider.requests()[1].body.to_string();
    assert!(body.contains("first") && body.contains("one") && body.contains("second"), "{body}");
    let shown = home.run(["sessions", "show", "s"]);
    assert_eq!(shown.stdout, "you: first\nmodel: one\nyou: second\nmodel: two\n");
}

#[test]
fn without_a_command_it_is_a_chat() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let run = home.agent([]).stdin("hi\n").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{}", run.stderr);
}

#[test]
fn commands_work_on_a_pipe_and_other_slashes_are_messages() {
    let home = Home::scripted(&json!([{ "when": "/etc", "replies": [{ "text": "a path" }] }]));
    let run = home.agent(["chat"]).stdin("/help\n/etc/hosts?\n/quit\nnever said\n").run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("/resume [ID]") && run.stdout == "a path\n", "{run:?}");
}

#[test]
fn a_failed_turn_does_not_end_the_talk_and_is_not_forgotten() {
    let home = Home::scripted(&json!([{ "when": "bad", "replies": [{ "error": "rejected" }] },
                                      { "replies": [{ "text": "hello" }] }]));
    let run = home.agent(["chat"]).stdin("bad\ngood\n").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(5), "hello\n"), "{}", run.stderr);
    assert!(run.stderr.contains("error: "), "{}", run.stderr);
}

#[test]
fn a_line_that_is_no_text_is_refused_and_the_next_one_is_taken() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let run = home.agent(["chat"]).stdin(b"caf\xe9\nhi\n").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), "hello\n"), "{}", run.stderr);
    assert!(run.stderr.contains("UTF-8"), "{}", run.stderr);
}
