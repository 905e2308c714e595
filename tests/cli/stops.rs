//! Ctrl-Z and `fg` in a chat, under a shell with jobs: the terminal is the shell's while the chat is stopped, and the
//! chat's again behind it.

use std::time::Duration;

use serde_json::json;

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_D, Terminal};

const CTRL_Z: &[u8] = b"\x1a";
const ESCAPE: &[u8] = b"\x1b";
const SHELL: &str = "sh$ ";

/// A chat that a shell has begun, with this behind its arguments.
fn chat(home: &Home, more: &str) -> Terminal {
    let env = [("PS1", SHELL)];
    let args = ["--norc", "--noprofile", "--noediting", "-i"];
    let terminal = Terminal::start("bash", &args, home.scratch.path(), &env);
    let mut terminal = terminal.deadline(Duration::from_secs(60));
    terminal.wait_for(SHELL.trim_end());
    terminal.type_line(&format!("{AGENT} --config agent.toml chat --session s{more}"));
    wait_end(&terminal, "you>");
    terminal
}

fn wait_end(terminal: &Terminal, end: &str) {
    terminal
        .wait_until(&format!("{end:?} at the end"), |screen| screen.contents().trim_end().ends_with(end.trim_end()));
}

/// Stops the chat; the shell has its terminal as it was: what is typed is echoed, and a line is a line.
fn stop(terminal: &mut Terminal) {
    terminal.press(CTRL_Z);
    terminal.wait_for("Stopped");
    wait_end(terminal, SHELL);
    terminal.type_line("stty -a | grep -o -e '-*icanon' -e '-*echo ' | tr '\\n' ,");
    wait_end(terminal, &format!("icanon,echo ,{SHELL}"));
    terminal.type_line("clear");
    wait_end(terminal, SHELL);
    terminal.wait_until("an empty screen", |screen| screen.contents().trim() == SHELL.trim());
}

fn leave(mut terminal: Terminal) {
    wait_end(&terminal, "you>");
    terminal.press(CTRL_D);
    terminal.wait_for("To continue");
    wait_end(&terminal, SHELL);
}

#[test]
fn at_the_prompt_the_line_is_there_again() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "An answer." }] }]));
    let mut terminal = chat(&home, "");
    terminal.press(b"half a\x1b[D");
    terminal.wait_for("you> half a");
    stop(&mut terminal);
    terminal.type_line("fg");
    wait_end(&terminal, "you> half a");
    // The cursor is before the last letter, and the terminal does not echo.
    terminal.press(b"n \r");
    terminal.wait_for("An answer.");
    wait_end(&terminal, "you>");
    let screen = terminal.screen();
    assert!(screen.contains("you> half n a\nAn answer.\n"), "{screen}");
    leave(terminal);
}

#[test]
fn during_an_answer_the_keys_are_heard_again() {
    let home = Home::scripted(&json!([{ "when": "slow", "stall": true, "replies": [{ "text": "I begin" }] },
                                      { "replies": [{ "text": "Something else." }] }]));
    let mut terminal = chat(&home, "");
    terminal.type_line("slow please");
    terminal.wait_for("I begin");
    terminal.press(b"typed");
    terminal.wait_for("» typed");
    stop(&mut terminal);
    terminal.type_line("fg");
    terminal.wait_for("» typed");
    terminal.press(b" more");
    terminal.wait_for("» typed more");
    terminal.press(ESCAPE);
    terminal.wait_for("[cancelled]");
    wait_end(&terminal, "you> typed more");
    let screen = terminal.screen();
    assert_eq!((screen.matches("I begin").count(), screen.matches("typed").count()), (1, 1), "{screen}");
    terminal.press(b"\r");
    terminal.wait_for("Something else.");
    leave(terminal);
}

#[test]
fn a_question_is_asked_again_and_answered() {
    let call = json!({ "calls": [{ "name": "local/write_file", "arguments": { "path": "made", "content": "x" } }] });
    let home = Home::scripted(&json!([{ "replies": [call, { "text": "Done." }] }]));
    let mut terminal = chat(&home, "");
    terminal.type_line("go");
    terminal.wait_for("allow? [y/s/a/e/N]");
    stop(&mut terminal);
    terminal.type_line("fg");
    terminal.wait_for("allow? [y/s/a/e/N]");
    terminal.type_line("y");
    terminal.wait_for("[allowed once]");
    terminal.wait_for("Done.");
    assert_eq!(home.scratch.read("made"), "x");
    leave(terminal);
}

#[test]
fn on_a_plain_terminal_the_prompt_is_there_again() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "An answer." }] }]));
    let mut terminal = chat(&home, " --plain");
    stop(&mut terminal);
    terminal.type_line("fg");
    wait_end(&terminal, "you>");
    terminal.type_line("hi");
    terminal.wait_for("An answer.");
    leave(terminal);
}
