//! What a person can do at a terminal beside sending messages: commands during an answer, Esc, files, own commands.

use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_C, CTRL_D, Terminal, UP};

const PROMPT: &str = "you>";
const ESCAPE: &[u8] = b"\x1b";
const CTRL_O: &[u8] = b"\x0f";

fn chat(columns: u16, home: &Home) -> Terminal {
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let terminal = Terminal::start_on(columns, AGENT, &args, home.scratch.path(), &[]);
    let terminal = terminal.deadline(Duration::from_secs(60));
    terminal.wait_for(PROMPT);
    terminal
}

fn wait_prompt(terminal: &Terminal) {
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
}

fn leave(mut terminal: Terminal) {
    wait_prompt(&terminal);
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

fn slow() -> Value {
    json!([{ "when": "slow", "stall": true, "replies": [{ "text": "I begin" }] },
           { "replies": [{ "text": "Something else." }] }])
}

#[test]
fn commands_that_only_look_are_obeyed_during_an_answer_and_escape_interrupts_it() {
    let home = Home::scripted(&slow());
    let mut terminal = chat(80, &home);
    terminal.type_line("slow please");
    terminal.wait_for("I begin");
    terminal.type_line("/cost");
    terminal.wait_for("no usage in this session yet");
    terminal.type_line("/status");
    terminal.wait_for("session  s\n");
    assert!(terminal.screen().contains("model    demo:one"), "{}", terminal.screen());
    terminal.type_line("/new");
    terminal.wait_for("/new will run when this answer is finished");
    // An arrow begins with the byte of Esc, and interrupts nothing.
    terminal.press(UP);
    terminal.type_line("/context");
    terminal.wait_for("demo:one: nothing is used yet");
    assert!(!terminal.screen().contains("[cancelled]"), "{}", terminal.screen());
    terminal.press(ESCAPE);
    terminal.wait_for("[cancelled]");
    terminal.wait_for("you> /new\n");
    leave(terminal);
}

#[test]
fn what_does_not_touch_the_answer_is_obeyed_during_it() {
    let home = Home::scripted(&slow());
    let mut terminal = chat(120, &home);
    terminal.type_line("slow please");
    terminal.wait_for("I begin");
    terminal.type_line("/rename my plan");
    terminal.wait_for("this session is now called: my plan");
    terminal.type_line("/mode edits");
    terminal.wait_for("mode edits: ");
    terminal.wait_for("from the next turn on, this answer continues in ask");
    terminal.type_line("/permissions");
    terminal.wait_for("mode     ask: ");
    terminal.wait_for("next     edits: ");
    terminal.press(b"\x1b[Z\x1b[Z");
    terminal.wait_for("mode plan: ");
    terminal.type_line("/mcp restart none");
    terminal.wait_for("there is no tool server none");
    terminal.type_line("/mcp reload");
    terminal.wait_for("no tool server is configured");
    assert!(!terminal.screen().contains("will run when"), "{}", terminal.screen());
    terminal.press(ESCAPE);
    terminal.wait_for("[cancelled]");
    terminal.wait_until("the prompt of that mode", |screen| screen.contents().trim_end().ends_with("plan>"));
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
    let listed = home.run(["sessions", "list"]).stdout;
    assert!(listed.contains("my plan"), "{listed}");
}

#[test]
fn what_is_for_the_program_waits_and_is_not_sent_into_the_answer() {
    let home = Home::scripted(&slow());
    let mut terminal = chat(80, &home);
    terminal.type_line("slow please");
    terminal.wait_for("I begin");
    terminal.type_line("#tests need a database");
    terminal.wait_for("#tests need a database will run when this answer is finished");
    terminal.type_line("exit");
    terminal.wait_for("exit will run when this answer is finished");
    terminal.press(ESCAPE);
    assert!(terminal.wait_exit().success());
    assert_eq!(home.scratch.read("MEMORY.md"), "- tests need a database\n");
    let journal = home.run(["sessions", "export", "s"]).stdout;
    assert!(journal.contains("slow please") && !journal.contains("database"), "{journal}");
}

#[test]
fn shift_tab_goes_through_the_modes_and_keeps_the_line() {
    let home = Home::scripted(&slow());
    let mut terminal = chat(80, &home);
    terminal.press(b"half a line");
    for mode in ["edits> ", "auto> ", "plan> ", "you> "] {
        terminal.press(b"\x1b[Z");
        let line = format!("{mode}half a line");
        terminal.wait_until(&line, |screen| screen.contents().trim_end().ends_with(&line));
    }
    terminal.press(CTRL_C);
    leave(terminal);
}

#[test]
fn the_whole_result_of_a_call_is_shown_on_demand() {
    let call = json!({ "name": "local/read_file", "arguments": { "path": "long.txt" } });
    let home = Home::scripted(&json!([{ "when": "read", "replies": [{ "calls": [call] }, { "text": "Read." }] },
                                      { "when": "slow", "stall": true, "replies": [{ "text": "I begin" }] }]));
    let lines: String = (1..=12).map(|n| format!("line number {n}\n")).collect();
    home.scratch.write("long.txt", &lines);
    let mut terminal = chat(40, &home);
    terminal.type_line("/output");
    terminal.wait_for("no such call in this session yet");
    terminal.type_line("read it");
    terminal.wait_for("Read.");
    wait_prompt(&terminal);
    terminal.type_line("/output");
    terminal.wait_for("line number 12");
    assert!(terminal.screen().contains("local/read_file  ok, "), "{}", terminal.screen());
    wait_prompt(&terminal);
    terminal.type_line("/output 2");
    terminal.wait_until("two refusals", |screen| screen.contents().matches("no such call in this").count() == 2);
    wait_prompt(&terminal);
    terminal.type_line("slow");
    terminal.wait_for("I begin");
    terminal.press(CTRL_O);
    terminal.wait_written("line number 12", 2);
    terminal.press(ESCAPE);
    terminal.wait_for("[cancelled]");
    leave(terminal);
}

#[test]
fn files_go_with_a_message_and_own_commands_are_messages() {
    let home = Home::scripted(&json!([{ "when": "what is in", "replies": [{ "text": "I have the notes." }] },
                                      { "when": "Review src", "replies": [{ "text": "I review." }] },
                                      { "replies": [{ "text": "Something else." }] }]));
    home.scratch.write("notes.txt", "the content of the notes");
    home.scratch.write(".bob/commands/review.md", "Review $ARGUMENTS carefully.\n");
    let mut terminal = chat(80, &home);
    terminal.press(b"what is in @no\t");
    terminal.wait_for("you> what is in @notes.txt");
    terminal.press(b"\r");
    terminal.wait_for("I have the notes.");
    wait_prompt(&terminal);
    terminal.press(b"/rev\t");
    terminal.wait_for("you> /review ");
    terminal.type_line("src");
    terminal.wait_for("I review.");
    wait_prompt(&terminal);
    terminal.type_line("!echo made by $((20 + 22)) > made.txt; pwd; exit 3");
    terminal.wait_for("[exit status: 3]");
    assert_eq!(home.scratch.read("made.txt"), "made by 42\n");
    wait_prompt(&terminal);
    terminal.type_line("/help");
    terminal.wait_for("Of this project (.bob/commands):");
    wait_prompt(&terminal);
    terminal.type_line("exit");
    assert!(terminal.wait_exit().success());
    let journal = home.run(["sessions", "export", "s"]).stdout;
    assert!(
        journal.contains("/notes.txt") && journal.contains("the content of the notes") && !journal.contains("made by"),
        "{journal}"
    );
}

#[cfg(feature = "sqlite")]
#[test]
fn a_session_that_was_deleted_meanwhile_is_told_of() {
    let home = Home::with(
        "default_model = \"demo:one\"\npassivate_after_ms = 100",
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n",
    );
    let home = home.keeping("sqlite");
    home.scratch.write("s.json", json!([{ "replies": [{ "text": "An answer." }] }]).to_string());
    let mut terminal = chat(120, &home);
    terminal.type_line("hi");
    terminal.wait_for("An answer.");
    wait_prompt(&terminal);
    // The chat lets its session go while nothing is said in it.
    while home.run(["sessions", "delete", "s"]).code != Some(0) {
        std::thread::yield_now();
    }
    terminal.type_line("hi again");
    terminal.wait_for("[session s is not in the store: it was deleted, or never saved; this message begins it anew]");
    leave(terminal);
    let shown = home.run(["sessions", "show", "s"]).stdout;
    assert!(shown.contains("hi again") && shown.matches("you: ").count() == 1, "{shown}");
}

#[test]
fn what_stands_behind_a_command_that_takes_nothing_is_refused() {
    let home = Home::scripted(&slow());
    let mut terminal = chat(80, &home);
    terminal.type_line("/new x");
    terminal.wait_for("/new takes nothing behind it; /help lists the commands");
    terminal.type_line("/sesions");
    terminal.wait_for("there is no command /sesions; did you mean /sessions?");
    leave(terminal);
}

#[test]
fn a_letter_behind_escape_is_typed() {
    let home = Home::scripted(&slow());
    let mut terminal = chat(80, &home);
    terminal.press(ESCAPE);
    // Words of the editor's own keys stay: Alt-B goes back by one.
    terminal.press(b"hello there\x1bbover ");
    terminal.wait_for("you> hello over there");
    terminal.type_line("");
    terminal.wait_for("Something else.");
    wait_prompt(&terminal);
    // On an empty line there is no word to which they could do something.
    terminal.press(ESCAPE);
    terminal.press(b"do it");
    terminal.wait_for("you> do it");
    terminal.type_line("");
    leave(terminal);
}
