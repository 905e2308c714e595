//! What a turn changed of files, wherever its outcome is printed.

use serde_json::{Value, json};

use crate::home::{Home, assert_keys};

fn edit(old: &str, new: &str) -> Value {
    json!({ "calls": [{ "name": "local/edit_file", "arguments": { "path": "a.txt", "old": old, "new": new } }] })
}

/// A model that edits `a.txt` twice in a turn, and answers something else without a word about edits.
fn home() -> Home {
    let home = Home::scripted(&json!([
        { "when": "edit", "replies": [edit("one", "1"), edit("1", "uno"), { "text": "Done." }] },
        { "replies": [{ "text": "An answer." }] }
    ]));
    home.scratch.write("a.txt", "one\n");
    home
}

/// The change of both edits.
fn both() -> Value {
    json!([{ "path": "a.txt", "before": "one\n", "after": "uno\n" }])
}

#[track_caller]
fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))
}

#[test]
fn a_batch_has_them_in_each_line_also_when_it_is_run_again() {
    let home = home();
    let lines = "{\"session\":\"s\",\"prompt\":\"edit it\"}\n{\"session\":\"s\",\"prompt\":\"and now\"}\n";
    for finish in [&[][..], &["--finish"]] {
        let args = [&["batch", "--mode", "edits"], finish, &["-"]].concat();
        let run = home.agent(args).stdin(lines).run();
        assert_eq!(run.code, Some(0), "{run:?}");
        let results: Vec<Value> = run.stdout.lines().map(parsed).collect();
        let of = |number: u64| results.iter().find(|result| result["line"] == number).expect("a result of the line");
        assert_eq!(of(1)["changes"], both(), "{results:?}");
        assert_eq!(of(2).get("changes"), None, "a turn that changed nothing: {results:?}");
    }
}

#[test]
fn a_shown_session_has_those_of_its_last_turn() {
    let home = home();
    assert_eq!(home.json(["--session", "s", "--mode", "edits", "edit it"]).1["changes"], both());
    let shown = parsed(&home.run(["sessions", "show", "s", "--json"]).stdout);
    assert_eq!(shown["last"]["changes"], both(), "{shown}");
    let exported = home.run(["sessions", "export", "s", "--markdown"]).stdout;
    assert!(exported.contains("```diff\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n```\n"), "{exported}");
    assert_eq!(home.run(["run", "--session", "s", "and now"]).code, Some(0));
    let shown = parsed(&home.run(["sessions", "show", "s", "--json"]).stdout);
    assert_eq!(shown["last"].get("changes"), None, "{shown}");
}

#[test]
fn a_resumed_turn_has_those_before_its_question_too() {
    let home = home();
    let config = home.scratch.read("agent.toml") + "[policy]\nallow = [\"local/edit_file(a.txt)\"]\n";
    home.scratch.agent_toml(&config);
    let write = json!({ "calls": [{ "name": "local/write_file", "arguments": { "path": "b.txt", "content": "b" } }] });
    home.scratch.write("s.json", json!([{ "replies": [edit("one", "uno"), write, { "text": "Done." }] }]).to_string());
    check_suspended_and_resumed(&home, "json");
    assert_eq!(home.run(["sessions", "delete", "s"]).code, Some(0));
    home.scratch.write("a.txt", "one\n");
    std::fs::remove_file(home.scratch.join("b.txt")).expect("the file of the first round");
    check_suspended_and_resumed(&home, "stream-json");
}

/// A turn edits `a.txt`, is suspended at the question whether `b.txt` is written, and is resumed with this form of output.
#[track_caller]
fn check_suspended_and_resumed(home: &Home, form: &str) {
    let (code, asked) = home.json(["--session", "s", "--approvals", "suspend", "go"]);
    assert_eq!((code, &asked["changes"]), (Some(4), &both()), "those so far: {asked}");
    let run = home.run(["resume", asked["token"].as_str().expect("a token"), "allow", "--output", form]);
    let end = parsed(run.stdout.lines().last().unwrap_or_default());
    let new = json!({ "path": "b.txt", "before": null, "after": "b" });
    assert_eq!(end["changes"], json!([both()[0], new]), "{run:?}");
}

#[cfg(feature = "sqlite")]
#[test]
fn a_submitted_turn_has_them_where_it_is_waited_for_and_where_it_is_worked_on() {
    let home = home();
    let config = home.scratch.read("agent.toml") + "[policy]\nmode = \"edits\"\n";
    home.scratch.agent_toml(&config);
    let mut worker = home.agent(["work", "--json"]).spawn();
    let submitted = home.run(["submit", "--session", "s", "--json", "edit it"]);
    let line = parsed(&submitted.stdout);
    assert_keys(&line);
    assert_eq!((submitted.code, &line["changes"]), (Some(0), &both()), "{submitted:?}");
    let worked = worker.next_line().expect("the worker's line");
    assert_eq!(parsed(&worked)["changes"], both(), "{worked}");
    worker.signal(rustix::process::Signal::TERM);
    let run = worker.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
}
