//! Lines that a person wants every prompt to have; and keys at the prompt.

use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{AGENT, Home};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::terminal::{CTRL_D, Terminal};

const CTRL_O: &[u8] = b"\x0f";

fn wait_prompt(terminal: &Terminal) {
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with("you>"));
}

#[test]
fn a_line_of_the_memory_is_in_the_next_prompt() {
    let provider = FakeProvider::start([Reply::text("Tea it is.")]);
    let home = Home::served_by(&provider);
    let run = home.run(["memory"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{run:?}");
    let run = home.run(["memory", "tea,", "not", "coffee"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("MEMORY.md: - tea, not coffee"), "{run:?}");
    let told: Value = serde_json::from_str(&home.run(["memory", "--json"]).stdout).expect("one object");
    assert_eq!(told["text"], "- tea, not coffee\n");
    assert_eq!(home.run(["run", "what do I drink?"]).code, Some(0));
    let asked = provider.requests();
    assert!(format!("{:?}", asked[0]).contains("tea, not coffee"), "{asked:?}");
    let run = home.run(["memory", "two\nlines"]);
    assert_eq!((run.code, home.scratch.read("MEMORY.md").as_str()), (Some(2), "- tea, not coffee\n"), "{run:?}");
}

#[test]
fn at_the_prompt_a_line_is_remembered_and_keys_show_the_output_and_the_last_message() {
    let call = json!({ "name": "local/read_file", "arguments": { "path": "long.txt" } });
    let home = Home::scripted(&json!([{ "when": "read", "replies": [{ "calls": [call] }, { "text": "Read." }] },
                                      { "replies": [{ "text": "Something else." }] }]));
    home.scratch.write("long.txt", (1..=9).map(|n| format!("line number {n}\n")).collect::<String>());
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let mut terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60));
    wait_prompt(&terminal);
    terminal.type_line("# tests need a database");
    terminal.wait_for("MEMORY.md: - tests need a database");
    assert_eq!(home.scratch.read("MEMORY.md"), "- tests need a database\n");
    wait_prompt(&terminal);
    terminal.type_line("read it");
    terminal.wait_for("Read.");
    wait_prompt(&terminal);
    terminal.press(b"half a th");
    terminal.wait_for("you> half a th");
    terminal.press(CTRL_O);
    terminal.wait_for("line number 9");
    terminal.wait_until("the line as it was", |screen| {
        screen.contents().trim_end().ends_with("you> half a th") && screen.contents().matches("half a th").count() == 1
    });
    terminal.press(b"\x1b\x1b");
    terminal.wait_until("the last message", |screen| screen.contents().trim_end().ends_with("you> read it"));
    assert!(terminal.screen().contains("/rewind 0 takes it back"), "{}", terminal.screen());
    terminal.press(b" not\r");
    terminal.wait_for("you> read it not");
    terminal.wait_until("a second answer", |screen| screen.contents().matches("Read.").count() == 2);
    wait_prompt(&terminal);
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}
