//! Questions about calls on a terminal: what a lasting yes covers, and what does not answer a question.

use serde_json::{Value, json};
use std::time::Duration;

use crate::cli::limits::{chat, leave};
use crate::home::{AGENT, Home};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::terminal::{ENTER, Terminal};

const PROMPT: &str = "you>";
/// How each question begins.
const QUESTION: &str = "allow this call?";
const ASKED: &str = "allow? [y/s/a/e/N]";

fn write(path: &str) -> Value {
    json!({ "name": "local/write_file", "arguments": { "path": path, "content": "y" } })
}

/// A model that makes these calls in one step, and is done.
fn home(calls: &[Value]) -> Home {
    let home = Home::scripted(&json!([{ "when": "go", "replies": [{ "calls": calls }, { "text": "It is done." }] },
                                      { "replies": [{ "text": "Something else." }] }]));
    for folder in ["src", "deep"] {
        std::fs::create_dir(home.scratch.join(folder)).expect("a folder");
    }
    home
}

#[test]
fn a_lasting_yes_answers_the_other_questions_of_its_step() {
    for (word, told) in [("s", "[allowed in this session]"), ("a", "[allowed always]")] {
        let home = home(&[write("src/a.rs"), write("src/b.rs"), write("deep/c.rs")]);
        let state = home.scratch.join("state").display().to_string();
        let args = ["--config", "agent.toml", "chat", "--session", "s"];
        let terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[("XDG_STATE_HOME", &state)]);
        let mut terminal = terminal.deadline(Duration::from_secs(60));
        terminal.wait_for(PROMPT);
        terminal.type_line("go");
        // The calls of a step are asked about in any order.
        for number in 1..=2 {
            terminal.wait_written(QUESTION, number);
            terminal.wait_until("the question and its prompt", |screen| {
                let text = screen.contents();
                text.rsplit_once(QUESTION).is_some_and(|(_, question)| question.contains(ASKED))
            });
            let screen = terminal.screen();
            let (_, question) = screen.rsplit_once(QUESTION).expect("a question");
            if question.contains("+++ b/deep/c.rs") {
                terminal.type_line("n");
            } else {
                terminal.type_line(word);
                terminal.wait_for(told);
            }
        }
        terminal.wait_for("It is done.");
        let asked = String::from_utf8_lossy(&terminal.bytes()).matches(QUESTION).count();
        assert_eq!(asked, 2, "one of the two in `src` answers the other");
        let there = ["src/a.rs", "src/b.rs", "deep/c.rs"].map(|path| home.scratch.join(path).exists());
        assert_eq!(there, [true, true, false], "{word}");
        leave(terminal);
    }
}

#[test]
fn a_lasting_yes_to_a_path_with_no_pattern_is_of_that_call_alone() {
    let home = home(&[write("src/../x")]);
    let mut terminal = chat(&home);
    terminal.type_line("go");
    terminal.wait_for(ASKED);
    assert!(terminal.screen().contains("s: this exact call, this session"), "{}", terminal.screen());
    terminal.type_line("s");
    terminal.wait_for("It is done.");
    leave(terminal);
    let script = json!([{ "replies": [{ "calls": [write("src/../x"), write("deep/other")] }, { "text": "Again." }] }]);
    home.scratch.write("s.json", script.to_string());
    let (code, line) = home.json(["--session", "s", "go"]);
    let statuses: Vec<&Value> =
        line["tool_transcript"].as_array().unwrap().iter().map(|call| &call["status"]).collect();
    assert_eq!((code, statuses), (Some(0), vec![&json!("ok"), &json!("denied")]), "{line}");
}

#[test]
fn a_paste_answers_no_question_and_is_sent_into_no_turn_before_a_key_is_pressed() {
    let home = home(&[write("src/a.rs")]);
    let script = json!([{ "when": "slow", "stall": true, "replies": [{ "text": "I begin" }] },
                        { "replies": [{ "calls": [write("src/a.rs")] }, { "text": "It is done." }] }]);
    home.scratch.write("s.json", script.to_string());
    let mut terminal = chat(&home);
    terminal.type_line("go");
    terminal.wait_for(ASKED);
    let tells_pastes = String::from_utf8_lossy(&terminal.bytes()).matches("\x1b[?2004h").count();
    assert!(tells_pastes >= 2, "at the prompt, and during the turn");
    terminal.press(b"\x1b[200~y\r\x1b[201~");
    terminal.wait_for("N] y↵");
    terminal.press(b"\x15");
    terminal.press(ENTER);
    terminal.wait_for("[denied]");
    assert!(!home.scratch.join("src/a.rs").exists());
    terminal.wait_for("It is done.");
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
    terminal.type_line("slow");
    terminal.wait_for("I begin");
    terminal.press(b"\x1b[200~one\rtwo\r\x1b[201~");
    terminal.wait_for("» one↵two↵▏");
    let steered = || home.run(["sessions", "export", "s"]).stdout.matches("\"steered\"").count();
    assert_eq!(steered(), 0);
    terminal.press(b"three\r");
    terminal.wait_for("» one\n");
    assert_eq!(steered(), 1);
    terminal.press(b"\x1b");
    terminal.wait_for("[cancelled]");
    leave(terminal);
}

#[test]
fn what_the_model_says_before_a_call_is_whole_above_the_question_about_it() {
    let words = "I looked at it.\n\nThe folder target is 3 GB, so I will delete it. This cannot be undone.";
    for plain in [&[][..], &["--plain"]] {
        let arguments = json!({ "path": "a.rs", "content": "y" }).to_string();
        let call = ("c1".to_owned(), "local__write_file".to_owned(), arguments);
        let replies = [Reply::TextAndCalls(words.to_owned(), vec![call]), Reply::text("It is done.")];
        let provider = FakeProvider::start(replies);
        let home = Home::served_by(&provider);
        let args = [&["--config", "agent.toml", "chat", "--session", "s"][..], plain].concat();
        let mut terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60));
        terminal.wait_for(PROMPT);
        terminal.type_line("go");
        terminal.wait_for(ASKED);
        let screen = terminal.screen();
        let (above, _) = screen.split_once(QUESTION).expect("a question");
        assert!(above.lines().any(|line| line.ends_with("This cannot be undone.")), "{screen}");
        terminal.type_line("y");
        terminal.wait_for("It is done.");
        let screen = terminal.screen();
        assert_eq!(screen.matches("cannot be undone").count(), 1, "{screen}");
        leave(terminal);
    }
}
