//! Copies of sessions: what belongs to the session alone stays there.

use serde_json::json;

use crate::home::Home;

/// A home with an agent that works in the background and outlives its turn; `log.txt` has a line for each turn that its
/// result began.
fn home() -> Home {
    let shell = |command: &str| json!({ "name": "local/shell_exec", "arguments": { "command": command } });
    let script = json!([
        { "when": "begin", "replies": [
            { "calls": [{ "name": "agent/worker", "arguments": { "task": "part one" } }] }, { "text": "It works." }] },
        { "when": "part one", "replies": [{ "text": "the result" }] },
        { "when": "finished", "replies": [{ "calls": [shell("echo result >> log.txt")] }, { "text": "Noted." }] },
        { "replies": [{ "text": "An answer." }] }
    ]);
    let home = Home::with(
        "default_model = \"demo:one\"",
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n\
         [policy]\nallow_tools = [\"*\"]\ndeny_tools = []\nmode = \"auto\"\n\
         [[subagents]]\nid = \"worker\"\ndescription = \"Works.\"\nmode = \"async\"\non_parent_end = \"continue\"\n",
    );
    home.scratch.write("s.json", script.to_string());
    home
}

fn results(home: &Home) -> usize {
    std::fs::read_to_string(home.scratch.join("log.txt")).map_or(0, |log| log.lines().count())
}

fn say(home: &Home, session: &str, text: &str) {
    let run = home.run(["run", "--session", session, text]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn the_result_of_a_task_begins_a_turn_of_its_session_and_none_of_a_copy() {
    let home = home();
    say(&home, "s", "begin");
    let before = home.run(["sessions", "fork", "s"]).stdout;
    // The sub-agent may have been left to a later process.
    let came = (0..20).any(|_| {
        say(&home, "s", "hello");
        results(&home) > 0
    });
    assert!(came, "its result began a turn");
    let behind = home.run(["sessions", "rewind", "s", "--to", "1", "--only", "conversation"]).stdout;
    for copy in [before.trim(), behind.trim()] {
        for _ in 0..3 {
            say(&home, copy, "hello");
        }
        assert_eq!(results(&home), 1, "the copy {copy} has no result of it");
        let shown = home.run(["sessions", "show", copy]).stdout;
        assert!(shown.contains("you: begin\n") && shown.contains("model: It works.\n"), "{shown}");
    }
}
