//! A chat asks at a limit, before the turn ends; anything else ends there as before.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_D, ENTER, Terminal};

const PROMPT: &str = "you>";
const ASKED: &str = "go on? [y/N]";

/// A model that reads the file four times, each time otherwise, and then answers.
fn script() -> Value {
    let read = |limit: u32| {
        let call = json!({ "name": "local/read_file", "arguments": { "path": "notes.txt", "limit": limit } });
        json!({ "calls": [call] })
    };
    json!([{ "when": "read", "replies": [read(1), read(2), read(3), read(4), { "text": "All of it is read." }] },
           { "when": "hang", "replies": ["stall"] },
           { "replies": [{ "text": "Something else." }] }])
}

fn home(runtime: &str) -> Home {
    let tables = "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n";
    let home = Home::with(&format!("default_model = \"demo:one\"\n{runtime}"), tables);
    home.scratch.write("s.json", script().to_string());
    home.scratch.write("notes.txt", "one\ntwo\n");
    home
}

/// A chat of the session `s`, at its first prompt.
pub(crate) fn chat(home: &Home) -> Terminal {
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60));
    terminal.wait_for(PROMPT);
    terminal
}

/// Leaves a chat at its prompt.
pub(crate) fn leave(mut terminal: Terminal) {
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn a_yes_gives_another_portion_and_a_no_ends_the_turn() {
    let home = home("max_tool_calls = 2");
    let mut terminal = chat(&home);
    terminal.type_line("read it");
    terminal.wait_for(ASKED);
    // A person who looked away is called.
    let notified = b"\x1b]9;cli-agent: a question\x07";
    assert!(terminal.bytes().windows(notified.len()).any(|bytes| bytes == notified), "a notification");
    let screen = terminal.screen();
    assert!(screen.contains("┌ go on? 2 tool calls used in this turn (runtime.max_tool_calls)"), "{screen}");
    assert!(screen.contains("the turn ends in 10 min without an answer"), "{screen}");
    assert!(screen.contains("y: yes, 2 more · n: no, end the turn"), "{screen}");
    // An answer that is typed before the complaint about the one before it is read is not lost.
    terminal.type_line("perhaps");
    terminal.type_line("y");
    terminal.wait_for("Enter alone means no");
    terminal.wait_for("[the turn goes on]");
    terminal.wait_for("All of it is read.");
    leave(terminal);

    let mut terminal = chat(&home);
    terminal.type_line("read it");
    terminal.wait_for(ASKED);
    terminal.press(ENTER);
    terminal.wait_for("[the turn ends]");
    terminal.wait_for("Stopped: 2 tool calls used in this turn");
    // It is not asked a second time.
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
    leave(terminal);
}

#[test]
fn the_question_is_asked_again_when_the_program_was_killed_at_it() {
    let home = home("max_steps = 2");
    let mut terminal = chat(&home);
    terminal.type_line("read it");
    terminal.wait_for(ASKED);
    terminal.signal(Signal::KILL);
    terminal.wait_exit();

    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let mut terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60));
    terminal.wait_for("go on? 2 model calls used");
    terminal.wait_for(ASKED);
    terminal.type_line("y");
    // The limit is four now: with the fifth call it asks again.
    terminal.wait_for("go on? 4 model calls used");
    terminal.wait_until("the second prompt", |screen| screen.contents().trim_end().ends_with(&format!("{ASKED} ▏")));
    terminal.type_line("y");
    terminal.wait_for("All of it is read.");
    leave(terminal);
}

#[test]
fn a_turn_without_progress_is_asked_about_while_the_model_is_silent() {
    let home = home("progress_timeout_ms = 1500");
    let mut terminal = chat(&home);
    terminal.type_line("hang");
    terminal.wait_for("go on? no progress for 1.5 s");
    terminal.wait_for(ASKED);
    terminal.type_line("y");
    terminal.wait_written("go on? no progress for 1.5 s", 2);
    terminal.wait_until("the second prompt", |screen| screen.contents().trim_end().ends_with(&format!("{ASKED} ▏")));
    terminal.type_line("n");
    terminal.wait_for("Stopped: no progress for 1.5 s");
    leave(terminal);
}

#[test]
fn a_run_and_a_chat_on_a_pipe_end_at_the_limit_without_a_question() {
    let home = home("max_tool_calls = 2");
    let run = home.run(["run", "read it"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(!run.stderr.contains("go on?"), "{run:?}");
}
