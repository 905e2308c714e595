//! Coming back to sessions: by words, by the beginning of an id, from a list; titles, copies and searches.

use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{AGENT, Home, STORES};
use crate::support::program::Run;
use crate::support::terminal::{CTRL_D, Terminal};

const PROMPT: &str = "you>";

fn home() -> Home {
    Home::scripted(&json!([{ "when": "second", "replies": [{ "text": "The second answer." }] },
                           { "replies": [{ "text": "An answer." }] }]))
}

fn failed(run: &Run, with: &str) {
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains(with), "{}", run.stderr);
}

fn sessions(home: &Home) -> Vec<Value> {
    let list: Value = serde_json::from_str(&home.run(["sessions", "list", "--json"]).stdout).expect("JSON");
    list["sessions"].as_array().expect("a list").clone()
}

fn chat(home: &Home, args: &[&str]) -> Terminal {
    let args = [&["--config", "agent.toml", "chat"], args].concat();
    Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60))
}

fn wait_prompt(terminal: &Terminal) {
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
}

#[test]
fn words_without_a_command_begin_a_chat_and_a_mistyped_command_does_not() {
    let home = home();
    let run = home.agent(["begin with this", "--session", "s"]).stdin("second\n").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "An answer.\nThe second answer.\n"), "{}", run.stderr);
    let run = home.agent(["-c", "once", "more"]).stdin("").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "An answer.\n"), "{}", run.stderr);
    let shown = home.run(["sessions", "show", "s"]).stdout;
    assert!(shown.contains("you: begin with this\n") && shown.contains("you: once more\n"), "{shown}");
    failed(&home.agent(["sesions", "list"]).stdin("").run(), "'sessions'");
    failed(&home.agent(["chat", "--resume"]).stdin("").run(), "--resume needs an ID");
    failed(&home.agent(["--nonsense"]).stdin("").run(), "--nonsense");
}

#[test]
fn the_beginning_of_an_id_is_enough_where_a_session_must_be_there() {
    for kind in STORES {
        let home = home().keeping(kind);
        for session in ["alpha-one", "alpha-two", "beta"] {
            assert_eq!(home.run(["run", "--session", session, "hi"]).code, Some(0));
        }
        assert!(home.run(["sessions", "show", "be"]).stdout.contains("you: hi"));
        assert_eq!(home.run(["run", "--resume", "alpha-t", "second"]).code, Some(0));
        let ambiguous = home.run(["sessions", "show", "alpha"]);
        failed(&ambiguous, "2 sessions begin with alpha");
        assert!(ambiguous.stderr.contains("  alpha-one  ") && ambiguous.stderr.contains("  alpha-two  "));
        failed(&home.run(["run", "--resume", "gamma", "hi"]), "there is no session gamma");
        // --session creates, also where the beginning of another id is given.
        assert_eq!(home.run(["run", "--session", "alpha", "hi"]).code, Some(0));
        assert!(home.run(["sessions", "show", "alpha"]).stdout.starts_with("you: hi\n"), "the whole id wins");
        assert_eq!(home.run(["sessions", "delete", "alpha-o"]).code, Some(0));
        assert_eq!(sessions(&home).len(), 3);
    }
}

#[test]
fn sessions_are_renamed_copied_searched_and_exported() {
    for kind in STORES {
        let home = home().keeping(kind);
        for prompt in ["the first question", "second", "third"] {
            assert_eq!(home.run(["run", "--session", "s", prompt]).code, Some(0));
        }
        assert_eq!(home.run(["sessions", "rename", "s", "A", "better", "title"]).code, Some(0));
        assert!(home.run(["sessions", "list"]).stdout.contains("  s  A better title"));
        let forked = home.run(["sessions", "fork", "s", "--at", "2"]);
        let new = forked.stdout.trim();
        let shown = home.run(["sessions", "show", new]).stdout;
        assert_eq!(shown, "you: the first question\nmodel: An answer.\nyou: second\nmodel: The second answer.\n");
        failed(&home.run(["sessions", "fork", "s", "--at", "4"]), "3 turns");
        failed(&home.run(["sessions", "fork", "s", "--at", "0"]), "there is no turn 0");
        // The copy goes its own way, and the session stays as it was.
        assert_eq!(home.run(["run", "--resume", new, "second again"]).code, Some(0));
        assert_eq!(home.run(["sessions", "show", new]).stdout.matches("The second answer.").count(), 2);
        assert_eq!(home.run(["sessions", "show", "s"]).stdout.matches("you: ").count(), 3);
        let title = sessions(&home)[0]["title"].clone();
        assert_eq!(title, "the first question (fork)");

        let found = home.run(["sessions", "search", "SECOND", "answer"]).stdout;
        assert_eq!(found.matches("model: The second answer.").count(), 3, "{found}");
        let found = home.run(["sessions", "search", "better"]).stdout;
        assert!(found.contains("A better title") && found.lines().count() == 1, "{found}");
        assert!(home.run(["sessions", "search", "xyzzy"]).stderr.contains("no session contains xyzzy"));
        assert_eq!(home.run(["sessions", "list", "--limit", "1"]).stdout.lines().count(), 1);

        let exported = home.run(["sessions", "export", "--markdown", "s"]).stdout;
        assert!(exported.starts_with("# A better title\n\nSession `s`, begun 20"), "{exported}");
        assert!(exported.contains("\n## You\n\nthe first question\n\n## demo:one\n\nAn answer.\n"), "{exported}");
    }
}

#[test]
fn a_session_is_chosen_from_a_list_and_its_end_is_shown() {
    let home = home();
    for (session, prompt) in [("one", "about apples"), ("two", "second, about pears")] {
        assert_eq!(home.run(["run", "--session", session, prompt]).code, Some(0));
    }
    let mut terminal = chat(&home, &["--resume"]);
    terminal.wait_for("number, or text to search>");
    assert!(terminal.screen().contains("1  just now  two  second, about pears"), "{}", terminal.screen());
    terminal.type_line("apples");
    wait_prompt(&terminal);
    let screen = terminal.screen();
    assert!(screen.contains("you> about apples\nAn answer.\n"), "{screen}");
    terminal.type_line("/resume");
    terminal.wait_until("the list again", |screen| screen.contents().matches("number, or text").count() == 2);
    terminal.type_line("1");
    wait_prompt(&terminal);
    assert!(terminal.screen().contains("session two\nyou> second, about pears\nThe second answer.\n"));
    terminal.press(CTRL_D);
    terminal.wait_for("To continue: cli-agent --config agent.toml chat --resume two");
    assert!(terminal.wait_exit().success());

    let mut terminal = chat(&home, &["--resume", "tw"]);
    wait_prompt(&terminal);
    assert!(terminal.screen().contains("The second answer."));
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn a_new_session_works_in_the_folder_it_was_given() {
    let home = home();
    home.scratch.write("sub/file.txt", "x");
    assert_eq!(home.agent(["chat", "--cwd", "sub", "--session", "s"]).stdin("hi\n").run().code, Some(0));
    let cwd = sessions(&home)[0]["cwd"].as_str().expect("a folder").to_owned();
    assert!(cwd.ends_with("/sub"), "{cwd}");
    failed(&home.agent(["chat", "--cwd", "/"]).stdin("").run(), "outside policy.workspace");
}
