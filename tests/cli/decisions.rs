//! The questions of a turn that was suspended for several decisions, in a chat.

use serde_json::json;

use crate::cli::talk::{ASKED, chat_soon, home, leave};

#[test]
fn each_question_of_a_suspended_turn_is_asked_and_a_pipe_is_told_of_it() {
    let calls: Vec<_> = ["one", "two"]
        .map(|name| json!({ "name": "local/shell_exec", "arguments": { "command": format!("echo > {name}.txt") } }))
        .into();
    let script = json!([{ "when": "run", "replies": [{ "calls": calls }, { "text": "It is done." }] },
                        { "replies": [{ "text": "Something else." }] }]);
    let home = home(&script);
    let suspended = |session: &str| {
        let run = home.run(["run", "--session", session, "--approvals", "suspend", "run it"]);
        assert_eq!(run.code, Some(4), "{run:?}");
    };
    suspended("s");
    let mut terminal = chat_soon(80, &home, &[]);
    for name in ["one", "two"] {
        terminal.wait_for(&format!("echo > {name}.txt"));
        terminal.wait_until("the question", |screen| screen.contents().trim_end().ends_with(ASKED));
        terminal.type_line("y");
    }
    terminal.wait_for("It is done.");
    leave(terminal);
    assert!(home.scratch.join("one.txt").exists() && home.scratch.join("two.txt").exists());
    suspended("piped");
    let run = home.agent(["chat", "--session", "piped"]).stdin("").run();
    assert!(run.stderr.contains("the turn waits for a decision: `cli-agent resume"), "{run:?}");
    let shown = home.run(["sessions", "show", "piped"]);
    assert!(shown.stderr.contains("allow` or `deny` answers it"), "{shown:?}");
}

#[test]
fn a_hint_names_only_modes_that_would_have_allowed_the_call() {
    let call = json!({ "name": "local/shell_exec", "arguments": { "command": "echo hi" } });
    let home = home(&json!([{ "replies": [{ "calls": [call] }, { "text": "It is denied." }] }]));
    let run = home.run(["run", "--mode", "edits", "go"]);
    let hint = "[--mode auto allows commands and other tools; --approvals suspend has them decided later";
    assert!(run.stderr.contains(hint) && !run.stderr.contains("--mode edits"), "{run:?}");
    let chat = home.agent(["chat"]).stdin("go\n").run();
    let hint = "[--mode auto allows commands and other tools; rules of [policy] allow single ones]";
    assert!(chat.stderr.contains(hint), "{chat:?}");
}
