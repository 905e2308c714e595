//! `--plain` and a dumb terminal: lines that a screen reader reads, and nothing that is drawn.

use std::time::Duration;

use serde_json::json;

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_C, CTRL_D, Terminal};

fn home() -> Home {
    let call = json!({ "name": "local/read_file", "arguments": { "path": "notes.txt" } });
    let run = json!({ "name": "local/shell_exec", "arguments": { "command": "echo ran" } });
    let home = Home::scripted(&json!([
        { "when": "read", "replies": [{ "calls": [call] }, { "text": "It has **tea** in it." }] },
        { "when": "run", "replies": [{ "calls": [run] }, { "text": "It ran." }] },
        { "replies": [{ "text": "Something else." }] }
    ]));
    home.scratch.write("notes.txt", "tea\n");
    let plain = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{plain}[policy]\ndeny_tools = []\n"));
    home
}

/// What was written may break lines and ring, and that is all.
fn assert_undrawn(terminal: &Terminal) {
    let bytes = terminal.bytes();
    let bad = bytes.iter().position(|byte| *byte < b' ' && !b"\r\n\t\x07\x08".contains(byte));
    assert_eq!(bad, None, "{:?}", String::from_utf8_lossy(&bytes));
    let returns = bytes.windows(2).any(|two| two[0] == b'\r' && two[1] != b'\n' && two[1] != b'\r');
    assert!(!returns, "a line is written again: {:?}", String::from_utf8_lossy(&bytes));
}

fn prompts(terminal: &Terminal, count: usize) {
    terminal.wait_written("you> ", count);
}

#[test]
fn a_plain_chat_is_lines_and_states_are_sentences() {
    for (columns, args, term) in [
        (120, &["--plain", "chat", "--session", "s"][..], "xterm-256color"),
        (80, &["chat", "--plain", "--session", "s"], "xterm-256color"),
        (40, &["chat", "--session", "s"], "dumb"),
    ] {
        let home = home();
        let args = [&["--config", "agent.toml"], args].concat();
        let mut terminal = Terminal::start_on(columns, AGENT, &args, home.scratch.path(), &[("TERM", term)])
            .deadline(Duration::from_secs(60));
        prompts(&terminal, 1);
        terminal.type_line("read it");
        terminal.wait_written("The model is thinking.", 1);
        terminal.wait_written("A tool is running: local/read_file", 1);
        terminal.wait_written("The result: ok, ", 1);
        terminal.wait_written("It has **tea** in it.", 1);
        prompts(&terminal, 2);
        terminal.type_line("run it");
        terminal.wait_written("allow this command? (high risk)", 1);
        terminal.wait_written("allow? [y/s/a/e/N]", 1);
        terminal.type_line("y");
        terminal.wait_written("It ran.", 1);
        prompts(&terminal, 3);
        let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert!(!shown.contains(['┌', '│', '└', '⠋']), "{columns}: {shown}");
        assert_undrawn(&terminal);
        terminal.press(CTRL_D);
        assert!(terminal.wait_exit().success(), "{columns}");
    }
}

#[test]
fn at_a_plain_prompt_one_interrupt_clears_the_line_and_the_second_leaves() {
    for (args, term) in [(&["chat", "--plain"][..], "xterm-256color"), (&["chat"], "dumb")] {
        let home = home();
        let args = [&["--config", "agent.toml"], args].concat();
        let mut terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[("TERM", term)]);
        prompts(&terminal, 1);
        terminal.press(b"rea");
        terminal.wait_for("you> rea");
        terminal.press(CTRL_C);
        terminal.wait_for("press Ctrl-C again to leave");
        prompts(&terminal, 2);
        terminal.type_line("hello");
        terminal.wait_for("Something else.");
        prompts(&terminal, 3);
        terminal.press(CTRL_C);
        prompts(&terminal, 4);
        terminal.press(CTRL_C);
        terminal.wait_exit();
    }
}

#[test]
fn a_plain_question_keeps_the_indentation_of_the_lines_around_a_change() {
    let edit =
        json!({ "name": "local/edit_file", "arguments": { "path": "a.py", "old": "    b\n", "new": "    c\n" } });
    let home = Home::scripted(&json!([{ "replies": [{ "calls": [edit] }, { "text": "Done." }] }]));
    home.scratch.write("a.py", "def f():\n    a\n    b\n");
    let args = ["--config", "agent.toml", "chat", "--plain"];
    let mut terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60));
    prompts(&terminal, 1);
    terminal.type_line("go");
    terminal.wait_written("allow? [y/s/a/e/N]", 1);
    let screen = terminal.screen();
    for line in [" def f():", "     a", "-    b", "+    c"] {
        assert!(screen.lines().any(|shown| shown == line), "{line:?} in\n{screen}");
    }
}

#[test]
fn what_draws_says_what_to_use_instead() {
    let home = home();
    let args = ["--config", "agent.toml", "--plain", "top"];
    let terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60));
    assert_eq!(terminal.wait_exit().exit_code(), 2);
    terminal.wait_for("`cli-agent ps --watch`");
}

#[test]
fn a_plain_run_says_what_goes_on() {
    let run = home().run(["--plain", "run", "read it"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "It has **tea** in it.\n"), "{run:?}");
    assert!(run.stderr.contains("A tool is running: local/read_file") && run.stderr.contains("The result: ok, "));
}
