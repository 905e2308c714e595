//! `chat` on terminals of several kinds: questions, typed input and output during a turn.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_C, CTRL_D, ENTER, Terminal};

const PROMPT: &str = "you>";
pub(crate) const ASKED: &str = "allow? [y/s/a/e/N]";

/// A home whose model may ask for the shell.
pub(crate) fn home(script: &Value) -> Home {
    let tables = "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n\
                  [prices.\"demo:one\"]\ninput = 1\noutput = 2\n";
    let home = Home::with("default_model = \"demo:one\"", tables);
    home.scratch.write("s.json", script.to_string());
    home
}

/// A model that calls the shell and then reports success.
fn shell(command: &str) -> Value {
    let call = json!({ "name": "local/shell_exec", "arguments": { "command": command } });
    json!([{ "when": "run", "replies": [{ "calls": [call] }, { "text": "It is done." }] },
           { "replies": [{ "text": "Something else." }] }])
}

/// A chat that may begin with something else than its prompt.
pub(crate) fn chat_soon(columns: u16, home: &Home, env: &[(&str, &str)]) -> Terminal {
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    Terminal::start_on(columns, AGENT, &args, home.scratch.path(), env).deadline(Duration::from_secs(30))
}

fn chat_on(columns: u16, home: &Home, env: &[(&str, &str)]) -> Terminal {
    let terminal = chat_soon(columns, home, env);
    terminal.wait_for(PROMPT);
    terminal
}

/// The program is killed during a question about a call.
fn killed_at_a_question(home: &Home) {
    let mut terminal = chat(home);
    terminal.type_line("run it");
    terminal.wait_for(ASKED);
    terminal.signal(Signal::KILL);
    terminal.wait_exit();
}

fn chat(home: &Home) -> Terminal {
    chat_on(80, home, &[])
}

/// Waits until the prompt is the last thing on the screen again.
fn wait_prompt(terminal: &Terminal) {
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
}

pub(crate) fn leave(mut terminal: Terminal) {
    wait_prompt(&terminal);
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

/// Whether the shell has made its file.
fn made(home: &Home) -> bool {
    home.scratch.join("made.txt").exists()
}

#[test]
fn g6_a_call_that_needs_a_person_is_asked_about_in_full_and_runs_once_it_is_allowed() {
    let home = home(&shell("echo \u{200b}hi > made.txt"));
    let mut terminal = chat(&home);
    terminal.type_line("run it");
    terminal.wait_for(ASKED);
    let screen = terminal.screen();
    assert!(screen.contains("allow this command? (high risk)"), "{screen}");
    assert!(screen.contains("│ $ echo <U+200B>hi > made.txt"), "{screen}");
    assert!(!made(&home), "nothing runs before it is allowed");
    terminal.type_line("perhaps");
    terminal.wait_for("Enter alone means no");
    // Input before the prompt reappears is not an answer.
    terminal.wait_until("the prompt again", |screen| screen.contents().trim_end().ends_with("N] ▏"));
    assert!(!made(&home));
    terminal.type_line("y");
    terminal.wait_for("[allowed once]");
    terminal.wait_for("It is done.");
    assert!(made(&home));
    terminal.wait_for("tokens in");
    leave(terminal);
}

#[test]
fn g12_an_empty_line_is_a_no_and_a_reason_reaches_the_model() {
    let home = home(&shell("echo hi > made.txt"));
    let mut terminal = chat(&home);
    terminal.type_line("run it");
    terminal.wait_for(ASKED);
    terminal.press(ENTER);
    terminal.wait_for("It is done.");
    wait_prompt(&terminal);
    terminal.type_line("run it again");
    terminal.wait_for(ASKED);
    terminal.type_line("n not on a Sunday");
    terminal.wait_for("[denied: not on a Sunday]");
    wait_prompt(&terminal);
    assert!(!made(&home));
    let journal = home.run(["sessions", "export", "s"]).stdout;
    assert!(journal.contains("not on a Sunday"), "{journal}");
    leave(terminal);
}

#[test]
fn arguments_are_edited_on_a_line_of_their_own() {
    let home = home(&shell("echo hi > other.txt"));
    let mut terminal = chat(&home);
    terminal.type_line("run it");
    terminal.wait_for(ASKED);
    terminal.type_line("e");
    terminal.wait_for("arguments> {\"command\":\"echo hi > other.txt\"}");
    terminal.press(b"\x15");
    terminal.type_line("not json");
    terminal.wait_for("invalid JSON");
    terminal.wait_until("the line again", |screen| screen.contents().matches("arguments> not json").count() == 2);
    terminal.press(b"\x15");
    terminal.type_line("{\"command\": \"echo hi > made.txt\"}");
    terminal.wait_for("It is done.");
    assert!(made(&home) && !home.scratch.join("other.txt").exists());
    leave(terminal);
}

#[test]
fn the_end_of_a_line_that_was_begun_before_the_question_is_no_answer_to_it() {
    for (term, said) in [("xterm-256color", true), ("dumb", false)] {
        let home = home(&shell("echo hi > made.txt"));
        let mut terminal = chat_on(80, &home, &[("TERM", term)]);
        terminal.press(b"run it\n");
        terminal.wait_for("allow this command?");
        terminal.press(b"s\n");
        terminal.wait_for(ASKED);
        assert!(!made(&home) && !terminal.screen().contains("[allowed"), "{}", terminal.screen());
        terminal.press(b"n\n");
        terminal.wait_for("[denied");
        terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
        // Where typed input is visible, it is sent into the turn.
        assert_eq!(home.run(["sessions", "export", "s"]).stdout.contains("steered"), said, "{term}");
        assert!(!made(&home));
        terminal.press(b"/quit\n");
        assert!(terminal.wait_exit().success());
    }
}

#[test]
fn ctrl_c_at_a_question_cancels_the_turn() {
    let home = home(&shell("echo hi > made.txt"));
    let mut terminal = chat(&home);
    terminal.type_line("run it");
    terminal.wait_for(ASKED);
    terminal.press(CTRL_C);
    terminal.wait_for("[cancelled]");
    wait_prompt(&terminal);
    assert!(!made(&home) && !terminal.screen().contains(ASKED), "{}", terminal.screen());
    terminal.type_line("hello");
    terminal.wait_for("Something else.");
    leave(terminal);
}

#[test]
fn a_question_that_was_open_when_the_program_died_is_asked_again() {
    let home = home(&shell("echo hi >> made.txt"));
    killed_at_a_question(&home);
    assert!(!made(&home));

    let mut terminal = chat_soon(80, &home, &[]);
    terminal.wait_for("resuming the turn that waits");
    terminal.wait_for(ASKED);
    terminal.type_line("y");
    terminal.wait_for("It is done.");
    assert_eq!(home.scratch.read("made.txt"), "hi\n", "the call ran once");
    leave(terminal);
}

#[test]
fn a_turn_that_is_taken_up_again_is_shown_while_it_goes_on() {
    let home = home(&shell("echo hi"));
    killed_at_a_question(&home);

    // The next one begins its answer, and has no end.
    let mut endless = shell("echo hi");
    endless[0]["stall"] = json!(true);
    home.scratch.write("s.json", endless.to_string());
    let mut terminal = chat_soon(80, &home, &[]);
    terminal.wait_for(ASKED);
    terminal.type_line("y");
    terminal.wait_for("It is done.");
    terminal.press(CTRL_C);
    terminal.wait_for("[cancelled]");
    wait_prompt(&terminal);
    leave(terminal);
}

#[test]
fn the_next_line_answers_a_question_of_the_model_also_after_the_program_died() {
    let ask = json!({ "name": "ask_user", "arguments": { "question": "Which file?" } });
    let home = home(&json!([{ "when": "look", "replies": [{ "calls": [ask] }, { "text": "I looked." }] }]));
    let mut terminal = chat(&home);
    terminal.type_line("look at it");
    terminal.wait_for("Which file?");
    terminal.wait_for("answer>");
    terminal.signal(Signal::KILL);
    terminal.wait_exit();
    drop(terminal);

    let terminal = Terminal::start(AGENT, &["--config", "agent.toml", "chat"], home.scratch.path(), &[]);
    let mut terminal = terminal.deadline(Duration::from_secs(30));
    terminal.wait_for(PROMPT);
    terminal.type_line("/resume s");
    terminal.wait_for("Which file?");
    terminal.wait_for("answer>");
    terminal.type_line("the first one");
    terminal.wait_for("I looked.");
    leave(terminal);
}

#[test]
fn what_is_typed_while_an_answer_grows_is_said_into_the_turn_or_waits_and_is_never_lost() {
    let home = home(&json!([{ "when": "slow", "stall": true, "replies": [{ "text": "I begin" }] },
                            { "replies": [{ "text": "Something else." }] }]));
    let mut terminal = chat(&home);
    terminal.type_line("slow please");
    terminal.wait_for("I begin");
    terminal.type_line("make it short");
    terminal.wait_for("» make it short");
    terminal.press(b"half a th");
    terminal.wait_for("» half a th");
    terminal.press(CTRL_C);
    terminal.wait_for("[cancelled]");
    terminal.wait_for("[not read yet: make it short; the model sees it with your next message]");
    terminal.wait_for("you> half a th");
    let journal = home.run(["sessions", "export", "s"]).stdout;
    assert!(journal.contains("steered") && journal.contains("make it short"), "{journal}");
    let exported = home.run(["sessions", "export", "s", "--markdown"]).stdout;
    assert!(exported.contains("\nI begin\n\n*The turn was cancelled.*\n"), "{exported}");
    terminal.type_line("ought");
    terminal.wait_for("Something else.");
    leave(terminal);
    let shown = home.run(["sessions", "show", "s"]).stdout;
    let order = "you: slow please\nmodel: I begin\n\n(interrupted)\nyou: make it short\nyou: half a thought\n";
    assert!(shown.starts_with(order), "it is not answered by what was interrupted: {shown}");
}

#[test]
fn a_chat_whose_session_is_taken_says_so_of_what_was_typed() {
    let home = home(&json!([{ "when": "slow", "stall": true, "replies": [{ "text": "I begin" }] }]));
    let mut terminal = chat(&home);
    terminal.type_line("slow please");
    terminal.wait_for("I begin");
    let taken = home.run(["sessions", "take", "s"]);
    assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    assert!(taken.stderr.starts_with("took s from cli-agent (process "), "{}", taken.stderr);
    // What is written next is refused.
    terminal.type_line("make it short");
    terminal.wait_for("was taken over by another owner");
    terminal.wait_for("[not read: make it short; the session was taken from this process, and may not");
    terminal.wait_for("[session s was taken from this process; no process is known to have it now]");
    assert!(!terminal.screen().contains("not read yet"), "{}", terminal.screen());
    let journal = home.run(["sessions", "export", "s"]).stdout;
    assert!(!journal.contains("make it short"), "{journal}");
    leave(terminal);
}

#[test]
fn markdown_is_printed_as_it_is_meant_and_fits_a_narrow_terminal() {
    let text = "# Title\n\nSome **bold** words that are longer than forty columns of a terminal.\n\n- `one`\n- 漢字 \
                 and more words behind them that wrap\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    let home = home(&json!([{ "replies": [{ "text": text }] }]));
    let mut terminal = chat_on(40, &home, &[("NO_COLOR", "1")]);
    terminal.type_line("hi");
    terminal.wait_for("1 │ 2");
    wait_prompt(&terminal);
    let screen = terminal.screen();
    for row in ["Title", "• `one`", "• 漢字 and more words behind them that", "  wrap", "a │ b", "──┼──"]
    {
        assert!(screen.lines().any(|line| line.trim_end() == row), "{row:?} in\n{screen}");
    }
    assert!(!screen.contains("**") && !screen.contains("# Title"), "{screen}");
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(bytes.contains("\u{1b}[1m") && !bytes.contains("\u{1b}[2m"), "{bytes:?}");
    assert!((30..38).all(|colour| !bytes.contains(&format!("\u{1b}[{colour}m"))), "{bytes:?}");
    leave(terminal);
}

#[test]
fn a_dumb_terminal_gets_no_escape_codes_and_still_asks() {
    let home = home(&shell("echo hi > made.txt"));
    let mut terminal = chat_on(80, &home, &[("TERM", "dumb")]);
    terminal.press(b"run it\n");
    terminal.wait_for(ASKED);
    terminal.press(b"y\n");
    terminal.wait_for("It is done.");
    terminal.press(b"/help\n");
    terminal.wait_for("!COMMAND");
    terminal.press(b"/quit\n");
    assert!(terminal.wait_exit().success());
    assert!(made(&home));
    assert!(!terminal.bytes().contains(&0x1b), "{:?}", String::from_utf8_lossy(&terminal.bytes()));
}

#[test]
fn tab_completes_and_a_message_may_have_several_lines() {
    let home = home(&json!([{ "when": "one\ntwo", "replies": [{ "text": "Two lines." }] },
                            { "replies": [{ "text": "One line." }] }]));
    let mut terminal = chat(&home);
    terminal.type_line("hi");
    terminal.wait_for("One line.");
    wait_prompt(&terminal);
    terminal.press(b"/res\t");
    terminal.wait_for("/resume [ID]");
    terminal.press(b"\t");
    terminal.wait_for("you> /resume s");
    terminal.press(ENTER);
    terminal.wait_for("session s");
    wait_prompt(&terminal);
    terminal.type_line("one\\");
    terminal.type_line("two");
    terminal.wait_for("Two lines.");
    wait_prompt(&terminal);
    terminal.press(b"\x1b[200~one\ntwo\x1b[201~");
    terminal.press(ENTER);
    terminal.wait_until("the answer twice", |screen| screen.contents().matches("Two lines.").count() == 2);
    wait_prompt(&terminal);
    terminal.type_line("/cost");
    terminal.wait_for("last turn  demo:one");
    leave(terminal);
}

#[test]
fn behind_a_limit_a_chat_asks_whether_to_go_on() {
    let call = |n: u32| json!([{ "name": "local/list_dir", "arguments": { "path": format!("./{}", "./".repeat(n as usize)) } }]);
    let script = json!([{ "when": "continue", "replies": [{ "text": "Here I am again." }] },
                        { "replies": [{ "calls": call(1) }, { "calls": call(2) }, { "text": "Never." }] }]);
    let home = Home::with(
        "default_model = \"demo:one\"\nmax_tool_calls = 1\napproval_timeout_ms = 300",
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n",
    );
    home.scratch.write("s.json", script.to_string());
    let mut terminal = chat_on(120, &home, &[]);
    terminal.type_line("look around");
    // The question before the end is not answered in time, and the turn ends.
    terminal.wait_for("Stopped: 1 tool call");
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with("go on? [y/N]"));
    let screen = terminal.screen();
    let stopped = "Stopped: 1 tool call used in this turn. Type \"continue\", or raise runtime.max_tool_calls.";
    assert!(screen.contains(stopped), "{screen}");
    assert!(!screen.contains("(max_tool_calls)"), "it is said once: {screen}");
    terminal.type_line("y");
    terminal.wait_for("Here I am again.");
    leave(terminal);
}

#[test]
fn two_refusals_and_a_wrong_path_do_not_end_a_turn() {
    let shell = |n: u32| json!([{ "name": "local/shell_exec", "arguments": { "command": format!("echo {n}") } }]);
    let wrong = json!([{ "name": "local/read_file", "arguments": { "path": "nowhere.txt" } }]);
    let replies = json!([{ "calls": shell(1) }, { "calls": shell(2) }, { "calls": wrong }, { "text": "As you wish." }]);
    let home = home(&json!([{ "replies": replies }]));
    let config = home.scratch.read("agent.toml").replace("[runtime]\n", "[runtime]\nprofile = \"strict\"\n");
    home.scratch.agent_toml(&config);
    let mut terminal = chat(&home);
    terminal.type_line("run it");
    for n in 1..=2 {
        let command = format!("echo {n}");
        terminal.wait_until("the question", |screen| {
            screen.contents().rsplit_once(&command).is_some_and(|(_, after)| after.contains(ASKED))
        });
        terminal.type_line("n");
    }
    terminal.wait_for("As you wish.");
    leave(terminal);
}
