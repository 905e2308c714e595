//! What a session changed of files: shown as a difference, and taken back.

use serde_json::{Value, json};

use crate::home::Home;

const BEFORE: &str = "one\ntwo\nthree\n";

/// A session `s` whose first turn edits `a.txt` and makes `new/b.txt`.
fn changed() -> Home {
    let edit = json!({ "path": "a.txt", "old": "two", "new": "2" });
    let write = json!({ "path": "new/b.txt", "content": "new\n" });
    let home = Home::scripted(&json!([
        { "when": "edit them", "replies": [
            { "calls": [{ "name": "local/edit_file", "arguments": edit }, { "name": "local/write_file", "arguments": write }] },
            { "text": "Done." }] },
        { "replies": [{ "text": "An answer." }] }
    ]));
    let plain = home.scratch.read("agent.toml");
    let unasked = "[tools.\"local/edit_file\"]\nrisk = \"low\"\n[tools.\"local/write_file\"]\nrisk = \"low\"\n";
    home.scratch.agent_toml(&format!("{plain}{unasked}"));
    home.scratch.write("a.txt", BEFORE);
    let run = home.run(["run", "--session", "s", "edit them"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Done.\n"), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), "one\n2\nthree\n");
    assert_eq!(home.run(["run", "--session", "s", "say something"]).code, Some(0));
    home
}

#[test]
fn the_difference_of_a_session_is_that_of_diff_u() {
    let home = changed();
    let run = home.run(["sessions", "diff", "s"]);
    let expected = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n\
                    --- /dev/null\n+++ b/new/b.txt\n@@ -0,0 +1 @@\n+new\n";
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), expected), "{run:?}");
    let run = home.run(["sessions", "diff", "s", "--turn", "2"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("turn 2 changed no file; these did: 1"), "{run:?}");
    let run = home.run(["sessions", "diff", "s", "--turn", "1", "--json"]);
    let told: Value = serde_json::from_str(&run.stdout).expect("one object");
    assert_eq!(told["changes"][0], json!({ "path": "a.txt", "before": BEFORE, "after": "one\n2\nthree\n" }));
}

#[test]
fn files_are_put_back_once_and_never_over_a_later_change_unasked() {
    let home = changed();
    home.scratch.write("a.txt", "mine\n");
    let run = home.run(["sessions", "undo", "s"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("a.txt: was changed since") && run.stderr.contains("--force"), "{run:?}");
    assert_eq!((home.scratch.read("a.txt").as_str(), home.scratch.read("new/b.txt").as_str()), ("mine\n", "new\n"));

    let run = home.run(["sessions", "undo", "s", "--force", "--json"]);
    let told: Value = serde_json::from_str(&run.stdout).expect("one object");
    assert_eq!(told, json!({ "session_id": "s", "undone": ["a.txt", "new/b.txt"] }), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), BEFORE);
    assert!(!home.scratch.join("new/b.txt").exists());

    let run = home.run(["sessions", "undo", "s"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("there is nothing to undo"), "{run:?}");
}

#[test]
fn a_chat_undoes_and_tells_the_model_so() {
    let home = changed();
    let run = home.agent(["chat", "--session", "s"]).stdin("/diff 1\n/undo\nthanks\n").run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.stdout, "An answer.\n", "what commands say is beside the answers");
    assert!(run.stderr.contains("\n-two\n+2\n"), "{run:?}");
    assert!(run.stderr.contains("a.txt: restored") && run.stderr.contains("new/b.txt: removed"), "{run:?}");
    let shown = home.run(["sessions", "show", "s"]).stdout;
    assert!(shown.contains("undone your changes of these files: a.txt, new/b.txt"), "{shown}");
}

#[test]
fn what_was_undone_in_one_session_is_not_told_in_another() {
    let home = changed();
    let run = home.agent(["chat", "--session", "s"]).stdin("/undo\n/new\nthanks\n").run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("a.txt: restored"), "{run:?}");
    let list: Value = serde_json::from_str(&home.run(["sessions", "list", "--json"]).stdout).expect("JSON");
    let ids = list["sessions"].as_array().expect("a list").iter().filter_map(|session| session["session_id"].as_str());
    let others: Vec<&str> = ids.filter(|id| *id != "s").collect();
    assert_eq!(others.len(), 1, "{list}");
    let shown = home.run(["sessions", "show", others[0]]).stdout;
    assert!(shown.contains("you: thanks") && !shown.contains("undone"), "{shown}");
}

/// A session whose turns 1 and 3 edit `a.txt`, and whose turn 2 says something.
fn edited_twice() -> Home {
    let home = changed();
    let plain = home.scratch.read("agent.toml");
    let edit = json!({ "path": "a.txt", "old": "three", "new": "3" });
    home.scratch.write(
        "s.json",
        json!([
            { "when": "Write the summary now", "replies": [{ "text": "a.txt was edited." }] },
            { "when": "edit again", "replies": [
                { "calls": [{ "name": "local/edit_file", "arguments": edit }] }, { "text": "Done again." }] },
            { "replies": [{ "text": "An answer." }] }
        ])
        .to_string(),
    );
    home.scratch.agent_toml(&plain);
    let run = home.run(["run", "--session", "s", "edit again"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Done again.\n"), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), "one\n2\n3\n");
    home
}

#[test]
fn a_session_is_taken_back_to_a_turn_with_its_files() {
    let home = edited_twice();
    let run = home.run(["sessions", "rewind", "s", "--to", "4"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("has 3 turns that ended; there is no turn 4"), "{run:?}");

    home.scratch.write("a.txt", "mine\n");
    let run = home.run(["sessions", "rewind", "s", "--to", "1"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("a.txt: was changed since") && run.stdout.is_empty(), "{run:?}");

    let run = home.run(["sessions", "rewind", "s", "--to", "1", "--force", "--json"]);
    let told: Value = serde_json::from_str(&run.stdout).expect("one object");
    assert_eq!((&told["of"], &told["undone"]), (&json!("s"), &json!(["a.txt"])), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), "one\n2\nthree\n", "the first turn's change stays");
    assert_eq!(home.scratch.read("new/b.txt"), "new\n");
    let shown = home.run(["sessions", "show", told["session_id"].as_str().expect("an id")]).stdout;
    assert!(shown.contains("edit them") && !shown.contains("say something"), "{shown}");

    let run = home.run(["sessions", "rewind", "s", "--to", "0", "--only", "files"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), BEFORE);
    assert!(!home.scratch.join("new/b.txt").exists());
}

#[test]
fn a_chat_goes_back_to_a_turn_and_continues_from_there() {
    let home = edited_twice();
    let lines = "/rewind\n/rewind 9\n/rewind 1\nthanks\n";
    let run = home.agent(["chat", "--session", "s"]).stdin(lines).run();
    assert!(run.stderr.contains("   1  edit them\n   2  say something\n   3  edit again\n"), "{run:?}");
    assert!(run.stderr.contains("there is no turn 9") && run.stderr.contains("/resume s"), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), "one\n2\nthree\n");
    let list: Value = serde_json::from_str(&home.run(["sessions", "list", "--json"]).stdout).expect("JSON");
    let newest = list["sessions"][0]["session_id"].as_str().expect("an id");
    let shown = home.run(["sessions", "show", newest]).stdout;
    assert!(shown.contains("edit them") && shown.contains("thanks") && !shown.contains("say something"), "{shown}");
    let whole = home.run(["sessions", "show", "s"]).stdout;
    assert!(whole.contains("edit again") && !whole.contains("thanks"), "the session itself stays: {whole}");
}

#[test]
fn a_chat_condenses_its_history_when_it_is_told_to() {
    let home = edited_twice();
    let run = home.agent(["chat", "--session", "s"]).stdin("/compact\nthanks\n/compact\n").run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("condensed 11 messages: about ") && run.stderr.contains(" now; "), "{run:?}");
    let exported = home.run(["sessions", "export", "s"]).stdout;
    assert_eq!(exported.matches("a.txt was edited.").count(), 2, "{exported}");
    assert!(home.run(["sessions", "show", "s"]).stdout.contains("edit again"), "the journal keeps what was said");
    let run = home.run(["replay", "--session", "s"]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

/// A session `s` whose only turn has a sub-agent edit `a.txt`, which has one of its own make `c.txt`, and edits `a.txt` again.
fn delegated() -> Home {
    let edit = |old: &str, new: &str| json!({ "calls": [{ "name": "local/edit_file", "arguments": { "path": "a.txt", "old": old, "new": new } }] });
    let asks = |agent: &str, task: &str| json!({ "calls": [{ "name": agent, "arguments": { "task": task } }] });
    let write =
        json!({ "calls": [{ "name": "local/write_file", "arguments": { "path": "c.txt", "content": "c\n" } }] });
    let home = Home::scripted(&json!([
        { "when": "part deep", "replies": [write, { "text": "did deep" }] },
        { "when": "part one", "replies": [edit("two", "2"), asks("agent/helper", "part deep"), { "text": "did one" }] },
        { "when": "go", "replies": [asks("agent/worker", "part one"), edit("2", "II"), { "text": "Done." }] },
        { "replies": [{ "text": "An answer." }] }
    ]));
    let plain = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!(
        "{plain}[policy]\nmode = \"edits\"\n\
         [[subagents]]\nid = \"worker\"\ndescription = \"Works.\"\nallow_tools = [\"local/*\", \"agent/*\"]\nmax_depth = 1\n\
         [[subagents]]\nid = \"helper\"\ndescription = \"Helps.\"\nallow_tools = [\"local/*\"]\n"
    ));
    home.scratch.write("a.txt", BEFORE);
    let run = home.run(["run", "--session", "s", "go"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Done.\n"), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), "one\nII\nthree\n", "{run:?}");
    assert_eq!(home.scratch.read("c.txt"), "c\n", "{run:?}");
    assert!(
        run.stderr.contains("\n    - two\n    + 2\n") && run.stderr.contains("\n      + c\n"),
        "each is shown: {run:?}"
    );
    home
}

/// What [`delegated`] changes in all.
const DELEGATED: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+II\n three\n\
                         --- /dev/null\n+++ b/c.txt\n@@ -0,0 +1 @@\n+c\n";

#[test]
fn what_sub_agents_change_is_a_change_of_the_turn_that_called_them() {
    let home = delegated();
    for which in [&["sessions", "diff", "s"][..], &["sessions", "diff", "s", "--turn", "1"]] {
        let run = home.run(which.iter().copied());
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), DELEGATED), "{run:?}");
    }
    let copy = home.run(["sessions", "fork", "s"]);
    let of_copy = home.run(["sessions", "diff", copy.stdout.trim()]);
    assert_eq!(
        (of_copy.code, of_copy.stdout.as_str()),
        (Some(0), DELEGATED),
        "a copy has the same children: {of_copy:?}"
    );

    let run = home.run(["sessions", "undo", "s"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("a.txt: restored") && run.stderr.contains("c.txt: removed"), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), BEFORE);
    assert!(!home.scratch.join("c.txt").exists());
}

#[test]
fn a_chat_undoes_and_rewinds_what_sub_agents_changed() {
    let home = delegated();
    let run = home.agent(["chat", "--session", "s"]).stdin("/diff\n/undo\n").run();
    assert!(run.code == Some(0) && run.stderr.contains("+++ b/c.txt"), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), BEFORE, "{run:?}");
    assert!(!home.scratch.join("c.txt").exists(), "{run:?}");

    let home = delegated();
    let run = home.run(["sessions", "rewind", "s", "--to", "0", "--only", "files"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(home.scratch.read("a.txt"), BEFORE, "{run:?}");
    let home = delegated();
    let run = home.agent(["chat", "--session", "s"]).stdin("/rewind 0 files\n").run();
    assert_eq!((run.code, home.scratch.read("a.txt").as_str()), (Some(0), BEFORE), "{run:?}");
}

#[test]
fn programs_see_what_an_edit_would_change_and_what_was_changed() {
    let edit =
        json!({ "calls": [{ "name": "local/edit_file", "arguments": { "path": "a.txt", "old": "two", "new": "2" } }] });
    let home = Home::scripted(&json!([{ "replies": [edit, { "text": "Done." }] }]));
    home.scratch.write("a.txt", BEFORE);
    let run = home.run(["run", "--output", "stream-json", "--approvals", "suspend", "go"]);
    let events = run.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect::<Vec<_>>();
    let asked = events.iter().find(|event| event["type"] == "approval.requested").expect("a question");
    let difference = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    assert_eq!(asked["difference"], difference, "{asked}");
    let run = home.run(["run", "--output", "json", "--mode", "edits", "go"]);
    let line: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"));
    assert_eq!(line["changes"], json!([{ "path": "a.txt", "before": BEFORE, "after": "one\n2\nthree\n" }]), "{line}");
}

#[test]
fn nothing_of_a_file_of_secrets_is_shown_before_a_yes() {
    let write =
        json!({ "calls": [{ "name": "local/write_file", "arguments": { "path": "hidden.txt", "content": "new\n" } }] });
    for (policy, is_shown) in [("", true), ("[policy]\nsecret_files = [\"hid*\"]\n", false)] {
        let home = Home::scripted(&json!([{ "replies": [write, { "text": "Done." }] }]));
        let plain = home.scratch.read("agent.toml");
        home.scratch.agent_toml(&format!("{plain}{policy}"));
        home.scratch.write("hidden.txt", "canary\n");
        let run = home.run(["run", "--output", "stream-json", "--approvals", "suspend", "--session", "s", "go"]);
        assert!(run.stdout.contains("approval.requested"), "{run:?}");
        assert_eq!(run.stdout.contains("canary"), is_shown, "{run:?}");
    }
}

#[test]
fn what_was_no_text_or_too_large_for_the_journal_is_put_back_as_it_was() {
    let write = |path: &str| json!({ "name": "local/write_file", "arguments": { "path": path, "content": "text\n" } });
    let calls = json!([write("small.bin"), write("large.txt")]);
    let home = Home::scripted(&json!([{ "replies": [{ "calls": calls }, { "text": "Done." }] }]));
    let (small, large) = (b"\x89PNG\r\n\xff\0".to_vec(), "a line\n".repeat(300_000).into_bytes());
    let files = [("small.bin", &small), ("large.txt", &large)];
    for store in ["json", "sqlite"] {
        for (name, content) in files {
            std::fs::write(home.scratch.join(name), content).expect("a file");
        }
        let run = home.agent(["run", "--session", store, "--mode", "edits", "go"]);
        assert_eq!(run.env("BOB__STORE__KIND", store).run().code, Some(0));
        let agent = |arguments: &[&str]| home.agent(arguments.iter().copied()).env("BOB__STORE__KIND", store).run();
        let shown = agent(&["sessions", "diff", store]);
        assert!(shown.stdout.contains("small.bin changed") && shown.stdout.contains("large.txt changed"), "{shown:?}");
        let copy = agent(&["sessions", "fork", store]).stdout.trim().to_owned();
        assert_eq!(agent(&["sessions", "delete", store]).code, Some(0));
        let run = agent(&["sessions", "undo", &copy]);
        assert_eq!(run.code, Some(0), "{run:?}");
        for (name, content) in files {
            let now = std::fs::read(home.scratch.join(name)).expect("a file");
            assert!(now == *content, "{store}: {name} has {} bytes: {run:?}", now.len());
        }
        let shown = agent(&["sessions", "diff", &copy]);
        assert!(shown.stdout.is_empty() && shown.stderr.contains("no changes of files"), "{shown:?}");
        let again = agent(&["sessions", "undo", &copy]);
        assert!(again.code == Some(2) && again.stderr.contains("there is nothing to undo"), "{again:?}");
    }
}
