//! A conversation on terminals of 120, 80 and 40 columns, and `top` beside it.

use serde_json::json;
use std::time::Duration;

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_D, Terminal};

/// Words of seven letters and a blank: ten are a row of 80 columns, five one of 40; a row has 100 columns at most, which are
/// twelve.
fn words() -> String {
    (0..30).map(|word| format!("word{word:03}")).collect::<Vec<_>>().join(" ")
}

fn terminal(columns: u16, home: &Home, command: &[&str]) -> Terminal {
    let args = [&["--config", "agent.toml"], command].concat();
    Terminal::start_on(columns, AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60))
}

/// What is on the screen, row by row, without the blanks behind it.
fn rows(terminal: &Terminal) -> Vec<String> {
    terminal.screen().lines().map(|row| row.trim_end().to_owned()).collect()
}

#[track_caller]
fn has(terminal: &Terminal, wanted: &[&str]) {
    let rows = rows(terminal);
    for wanted in wanted {
        assert!(rows.iter().any(|row| row == wanted), "{wanted:?} in\n{}", rows.join("\n"));
    }
}

fn wait_prompt(terminal: &Terminal) {
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with("you>"));
}

#[test]
fn a_conversation_fits_each_width() {
    for columns in [120_u16, 80, 40] {
        let edit = json!({ "name": "local/edit_file", "arguments": { "path": "a.txt", "old": "two", "new": "2" } });
        let text = format!("{}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", words());
        let home = Home::scripted(&json!([
            { "when": "edit", "replies": [{ "calls": [edit] }, { "text": text }] },
            { "when": "wait", "stall": true, "replies": [{ "text": "I begin" }] },
            { "replies": [{ "text": "Hello." }] }
        ]));
        home.scratch.write("a.txt", "one\ntwo\nthree\n");
        let mut chat = terminal(columns, &home, &["chat", "--session", "s"]);
        chat.wait_for("you>");
        chat.type_line("edit it");
        chat.wait_for("allow? [y/s/a/e/N]");
        // Each line of the difference has a row, behind the frame of the question.
        has(&chat, &["│ @@ -1,3 +1,3 @@", "│  one", "│ -two", "│ +2", "│  three"]);
        chat.type_line("y");
        chat.wait_for("1 │ 2");
        wait_prompt(&chat);
        let all = words();
        // Longer rows than these are hard to read.
        let in_a_row = usize::from(columns.min(100)) / 8;
        let wrapped: Vec<String> =
            all.split(' ').collect::<Vec<_>>().chunks(in_a_row).map(|row| row.join(" ")).collect();
        has(&chat, &wrapped.iter().map(String::as_str).collect::<Vec<_>>());
        has(&chat, &["a │ b", "──┼──", "1 │ 2"]);

        chat.type_line("wait");
        chat.wait_for("I begin");
        let mut top = terminal(columns, &home, &["top"]);
        top.wait_until("the session", |screen| {
            let rows: Vec<_> = screen.rows(0, columns).collect();
            rows.iter().any(|row| row.starts_with("   s ") && row.contains("running"))
                && rows.iter().any(|row| row.starts_with(" actor "))
                && rows.iter().any(|row| row.contains("q quit"))
        });
        top.press(b"q");
        assert!(top.wait_exit().success(), "{columns}");
        chat.press(b"\x1b");
        chat.wait_for("[cancelled]");
        wait_prompt(&chat);
        chat.press(CTRL_D);
        assert!(chat.wait_exit().success(), "{columns}");
    }
}
