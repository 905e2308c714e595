//! Terminals that get another width while something is on them.

use serde_json::{Value, json};
use std::time::Duration;

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_C, CTRL_D, ENTER, Terminal};

/// The emulator of the tests does not wrap anew what is on it; xterm does not either, and says who it is.
const XTERM: &[(&str, &str)] = &[("XTERM_VERSION", "XTerm(390)")];

fn terminal(columns: u16, home: &Home, command: &[&str]) -> Terminal {
    let args = [&["--config", "agent.toml"], command].concat();
    let terminal = Terminal::start_on(columns, AGENT, &args, home.scratch.path(), XTERM);
    terminal.deadline(Duration::from_secs(60))
}

/// Words of seven letters: five of them are a row of 40 columns, and ten one of 80.
fn words() -> String {
    (0..30).map(|word| format!("word{word:03}")).collect::<Vec<_>>().join(" ")
}

fn stalls() -> Value {
    json!([{ "when": "slow", "stall": true, "replies": [{ "text": words() }] },
           { "replies": [{ "text": "Something else." }] }])
}

/// Leaves behind the second answer.
fn leave(mut terminal: Terminal) {
    terminal.wait_for("Something else.");
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with("you>"));
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

/// How many rows hold this text.
fn rows(screen: &vt100::Screen, text: &str) -> usize {
    screen.rows(0, screen.size().1.into()).filter(|row| row.contains(text)).count()
}

#[test]
fn an_answer_on_its_way_is_drawn_again_for_another_width() {
    let home = Home::scripted(&stalls());
    let mut terminal = terminal(80, &home, &["chat", "--session", "s"]);
    terminal.wait_for("you>");
    terminal.type_line("slow please");
    terminal.wait_for("word020 word021 word022 word023 word024 word025 word026 word027 word028 word029");
    terminal.press(b"typed in the meantime");
    terminal.wait_for("typed in the meantime");
    for (columns, row) in [(40, "word025 word026 word027 word028 word029"), (60, "word021 word022 word023 word024")] {
        terminal.resize(columns);
        terminal.wait_until("the answer at its new width", |screen| {
            rows(screen, "writing") == 1
                && rows(screen, "typed in the meantime") == 1
                && rows(screen, row) == 1
                && rows(screen, "word029") == 1
        });
    }
    terminal.press(CTRL_C);
    terminal.wait_for("[cancelled]");
    terminal.wait_for("you> typed in the meantime");
    let screen = terminal.screen();
    let shown: Vec<_> = screen.split_whitespace().filter(|word| word.starts_with("word")).collect();
    // What is drawn in the moment of the change is drawn for the width before it, and a row of that may stay above.
    assert!(shown.ends_with(&words().split(' ').collect::<Vec<_>>()), "{screen}");
    terminal.press(ENTER);
    leave(terminal);
}

#[test]
fn a_line_that_is_being_typed_is_whole_at_another_width() {
    let home = Home::scripted(&stalls());
    let mut terminal = terminal(80, &home, &["chat", "--session", "s"]);
    terminal.wait_for("you>");
    let line = words()[..60].to_owned();
    terminal.press(line.as_bytes());
    terminal.wait_for(&line);
    terminal.resize(40);
    terminal.press(b" end");
    terminal.wait_for(" end");
    terminal.press(ENTER);
    leave(terminal);
    let shown = home.run(["sessions", "show", "s"]).stdout;
    assert!(shown.contains(&format!("you: {line} end\n")), "{shown}");
}

#[test]
fn top_fits_another_width() {
    let home = Home::scripted(&stalls());
    let mut chat = terminal(80, &home, &["chat", "--session", "s"]);
    chat.wait_for("you>");
    chat.type_line("slow please");
    chat.wait_for("word029");
    let mut top = terminal(110, &home, &["top"]);
    top.wait_for("last error");
    top.resize(40);
    top.wait_until("the list at its new width", |screen| {
        let rows: Vec<_> = screen.rows(0, 40).collect();
        rows.iter().any(|row| row.starts_with(" actor ") && row.trim_end().ends_with(" age"))
            && rows.iter().any(|row| row.starts_with("   s ") && row.contains("running"))
            && rows.iter().any(|row| row.contains("q quit"))
    });
    // The key comes with the change of the width.
    top.resize(100);
    top.press(b"q");
    assert!(top.wait_exit().success());
}
