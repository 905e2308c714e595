//! An undo outside of a chat, of which the model learns with its next message.

use serde_json::{Value, json};
use std::time::{Duration, Instant};

use crate::home::Home;

const TOLD: &str = "(The user has undone your changes of these files: a.txt)";

/// A session `s` whose first turn edits `a.txt`.
fn edited() -> Home {
    let edit = json!({ "path": "a.txt", "old": "two", "new": "2" });
    let home = Home::scripted(&json!([
        { "when": "edit", "replies": [
            { "calls": [{ "name": "local/edit_file", "arguments": edit }] }, { "text": "Done." }] },
        { "replies": [{ "text": "An answer." }] }
    ]));
    home.scratch.write("a.txt", "one\ntwo\n");
    let run = home.run(["run", "--session", "s", "--mode", "edits", "edit it"]);
    assert_eq!((run.code, home.scratch.read("a.txt").as_str()), (Some(0), "one\n2\n"), "{run:?}");
    home
}

/// The conversation as `sessions show` has it.
fn shown(home: &Home) -> String {
    home.run(["sessions", "show", "s"]).stdout
}

#[test]
fn an_undo_of_a_stored_session_is_told_once_behind_its_last_answer() {
    for command in [&["sessions", "undo", "s"][..], &["sessions", "rewind", "s", "--to", "0", "--only", "files"]] {
        let home = edited();
        let run = home.run(command.iter().copied());
        assert_eq!((run.code, home.scratch.read("a.txt").as_str()), (Some(0), "one\ntwo\n"), "{run:?}");
        let journal = home.run(["sessions", "export", "s"]).stdout;
        assert_eq!(journal.matches(TOLD).count(), 1, "it is in the journal at once: {journal}");
        for _ in 0..2 {
            assert_eq!(home.run(["run", "--session", "s", "go on"]).code, Some(0));
        }
        let shown = shown(&home);
        assert_eq!(shown.matches(TOLD).count(), 1, "{shown}");
        assert!(shown.contains(&format!("model: Done.\nyou: {TOLD}\nyou: go on\n")), "{shown}");
    }
}

#[test]
fn what_changed_nothing_is_not_told() {
    let home = edited();
    home.scratch.write("a.txt", "mine\n");
    let run = home.run(["sessions", "undo", "s"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(!home.run(["sessions", "export", "s"]).stdout.contains("undone"));
}

#[test]
fn an_undo_in_a_chat_that_ends_is_told_by_the_next_program() {
    let home = edited();
    let run = home.agent(["chat", "--session", "s"]).stdin("/undo\n").run();
    assert_eq!((run.code, home.scratch.read("a.txt").as_str()), (Some(0), "one\ntwo\n"), "{run:?}");
    assert_eq!(home.run(["run", "--session", "s", "go on"]).code, Some(0));
    let shown = shown(&home);
    assert!(shown.contains(&format!("model: Done.\nyou: {TOLD}\nyou: go on\n")), "{shown}");
}

#[cfg(feature = "sqlite")]
#[test]
fn a_chat_that_has_the_session_learns_of_it_by_its_inbox() {
    let home = edited();
    let mut chat = home.agent(["chat", "--session", "s"]).open_stdin().spawn();
    chat.type_line("hello");
    chat.wait_stdout("An answer.");
    let run = home.run(["sessions", "undo", "s"]);
    assert_eq!((run.code, home.scratch.read("a.txt").as_str()), (Some(0), "one\ntwo\n"), "{run:?}");
    assert!(!run.stderr.contains("warning"), "{run:?}");
    let began = Instant::now();
    while !home.run(["sessions", "export", "s"]).stdout.contains(TOLD) {
        assert!(began.elapsed() < Duration::from_secs(60), "the chat does not take it");
    }
    chat.type_line("go on");
    let run = chat.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    let shown = shown(&home);
    assert!(shown.contains(&format!("model: An answer.\nyou: {TOLD}\nyou: go on\n")), "{shown}");
}

#[test]
fn a_suspended_turn_is_told_of_it_when_it_is_resumed() {
    let edit = |old: &str, new: &str| json!({ "name": "local/edit_file", "arguments": { "path": "a.txt", "old": old, "new": new } });
    let home = Home::scripted(&json!([
        { "when": "edit", "replies": [{ "calls": [edit("two", "2")] }, { "text": "Done." }] },
        { "replies": [{ "calls": [edit("one", "1")] }, { "text": "Both." }] }
    ]));
    home.scratch.write("a.txt", "one\ntwo\n");
    assert_eq!(home.run(["run", "--session", "s", "--mode", "edits", "edit it"]).code, Some(0));
    let (code, line) = home.json(["--session", "s", "--approvals", "suspend", "and more"]);
    assert_eq!(code, Some(4), "{line}");
    assert_eq!(home.run(["sessions", "undo", "s"]).code, Some(0));
    let token = line["token"].as_str().expect("a token");
    let run = home.run(["resume", token, "allow", "--output", "json"]);
    let line: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"));
    assert_eq!((run.code, &line["content"]), (Some(0), &json!("Both.")), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), "1\ntwo\n");
    let shown = shown(&home);
    let result = shown.find("  local/edit_file: ok: replaced one text in a.txt at line 1").expect("the result");
    let (told, end) = (shown.find(TOLD).expect("it is told"), shown.find("model: Both.").expect("the end"));
    assert!(result < told && told < end, "{shown}");
}
