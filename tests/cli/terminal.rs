//! `chat` at a terminal of 80 columns and 24 rows.

use rustix::process::Signal;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::home::{AGENT, Home};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::stopwatch::Stopwatch;
use crate::support::terminal::{CTRL_C, CTRL_D, Terminal, UP};

const PROMPT: &str = "you>";

fn chat(home: &Home) -> Terminal {
    let state = home.scratch.join("state").display().to_string();
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[("XDG_STATE_HOME", &state)]);
    let terminal = terminal.deadline(Duration::from_secs(15));
    terminal.wait_for(PROMPT);
    terminal
}

/// How many prompts are on the screen.
fn wait_prompts(terminal: &Terminal, count: usize) {
    let what = format!("prompt number {count}");
    terminal.wait_until(&what, |screen| screen.contents().matches(PROMPT).count() >= count);
}

#[test]
fn an_answer_grows_and_a_call_is_one_line() {
    let provider = FakeProvider::start([
        Reply::call("c1", "local__list_dir", r#"{"path":"."}"#),
        Reply::text("There is a file of notes.").paced(Duration::from_millis(30)),
    ]);
    let home = Home::served_by(&provider);
    home.scratch.write("notes.txt", "x");
    let mut terminal = chat(&home);
    terminal.type_line("What is here?");
    terminal.wait_for("> local/list_dir {\"path\":\".\"}");
    terminal.wait_for("There is a file of notes.");
    wait_prompts(&terminal, 2);
    assert_eq!(terminal.screen().matches("There is a file of notes.").count(), 1, "{}", terminal.screen());
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn x2_ctrl_c_during_an_answer_cancels_it_and_the_talk_goes_on() {
    let provider = FakeProvider::start([Reply::text("Half an answer").stall_after(3), Reply::text("Here again.")]);
    let home = Home::served_by(&provider);
    let mut terminal = chat(&home);
    terminal.type_line("Talk.");
    terminal.wait_for("Half");
    terminal.press(CTRL_C);
    terminal.wait_for("[cancelled]");
    wait_prompts(&terminal, 2);
    terminal.type_line("Still there?");
    terminal.wait_for("Here again.");
    wait_prompts(&terminal, 3);
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn x2_ctrl_c_at_the_prompt_clears_the_line_and_then_leaves() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let mut terminal = chat(&home);
    terminal.press(b"half a thought");
    terminal.wait_for("half a thought");
    terminal.press(CTRL_C);
    wait_prompts(&terminal, 2);
    terminal.press(CTRL_C);
    terminal.wait_for("press Ctrl-C again to leave");
    wait_prompts(&terminal, 3);
    terminal.press(b"x");
    terminal.wait_for("you> x");
    terminal.press(CTRL_C);
    wait_prompts(&terminal, 4);
    terminal.press(CTRL_C);
    wait_prompts(&terminal, 5);
    terminal.press(CTRL_C);
    assert!(terminal.wait_exit().success());
}

#[test]
fn x1_signals_at_the_prompt_end_the_talk_with_their_codes() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let terminal = chat(&home);
        terminal.signal(signal);
        assert_eq!(terminal.wait_exit().exit_code(), code, "{signal:?}");
    }
}

#[test]
fn slash_commands_are_obeyed_and_history_is_kept_private() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let mut terminal = chat(&home);
    terminal.type_line("hi");
    terminal.wait_for("hello");
    terminal.type_line("/tools");
    // The list is longer than the screen.
    terminal.wait_written("local/read_file", 1);
    terminal.type_line("/nonsense");
    terminal.wait_for("there is no command /nonsense");
    terminal.type_line("/model openai:gpt-4o-mini");
    terminal.wait_for("OPENAI_API_KEY");
    terminal.type_line("/quit");
    assert!(terminal.wait_exit().success());
    drop(terminal);

    let histories = home.scratch.join("state/bob/histories");
    let history = histories.read_dir().expect("a folder").next().expect("a history").expect("an entry");
    let mode = history.metadata().expect("a history").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(home.run(["sessions", "list"]).stdout.lines().count(), 1, "the history is no session");
    let mut terminal = chat(&home);
    terminal.press(UP);
    terminal.wait_for("/quit");
}

#[test]
fn the_prompt_does_not_wait_for_the_model() {
    let start = "start = { command = \"sh\", args = [\"-c\", \"sleep 600\"] }\n";
    let tables = format!(
        "[providers.slow]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1/\"\napi_key = \"none\"\n{start}"
    );
    let home = Home::with("default_model = \"slow:m\"", &tables);
    let before = Stopwatch::start();
    let mut terminal = chat(&home);
    before.assert_within(Duration::from_secs(5), "the prompt");
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn g5_foreign_sequences_do_not_reach_the_terminal() {
    let hostile = "a\u{1b}[2Jb\u{1b}]0;owned\u{7}c\u{9b}31md";
    let provider = FakeProvider::start([Reply::text(hostile).splintered(2)]);
    let home = Home::served_by(&provider);
    let mut terminal = chat(&home);
    terminal.type_line("Attack me.");
    terminal.wait_for("abc31md");
    let bytes = terminal.bytes();
    for sequence in [&b"\x1b[2J"[..], b"\x1b]0;", b"\xc2\x9b"] {
        assert!(!bytes.windows(sequence.len()).any(|window| window == sequence), "{sequence:?} reached the terminal");
    }
}
