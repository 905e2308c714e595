//! `resume`: a suspended turn is continued in another process.

use rustix::process::Signal;
use serde_json::{Value, json};

use std::time::Duration;

use crate::home::{AGENT, Home, the_line};
use crate::support::program::Run;
use crate::support::terminal::{CTRL_D, Terminal};

/// A model that runs a shell line and then replies; `log.txt` has a line for each run.
fn home() -> Home {
    let call = json!({ "calls": [{ "name": "local/shell_exec", "arguments": { "command": "echo ran >> log.txt" } }] });
    let ask = json!({ "calls": [{ "name": "ask_user", "arguments": { "question": "Which colour?" } }] });
    let script = json!([{ "when": "ask", "replies": [ask, { "text": "As you like." }] },
                        { "replies": [call, { "text": "It is done." }] }]);
    let home = Home::with(
        "default_model = \"demo:one\"",
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n",
    );
    home.scratch.write("s.json", script.to_string());
    home
}

fn times_run(home: &Home) -> usize {
    std::fs::read_to_string(home.scratch.join("log.txt")).map_or(0, |log| log.lines().count())
}

/// A turn that waits for a decision: its token.
#[track_caller]
fn suspended(home: &Home, session: &str) -> String {
    let (code, line) = home.json(["--session", session, "--approvals", "suspend", "go"]);
    assert_eq!((code, &line["finish_reason"]), (Some(4), &json!("suspended")), "{line}");
    assert_eq!(times_run(home), 0, "nothing ran unasked");
    line["token"].as_str().expect("a token").to_owned()
}

#[track_caller]
fn resume(home: &Home, token: &str, reply: &[&str]) -> (Run, Value) {
    let args = ["resume", "--output", "json", token].into_iter().chain(reply.iter().copied());
    let run = home.run(args);
    let line = the_line(&run);
    (run, line)
}

#[test]
fn a_turn_whose_process_was_killed_goes_on_by_its_token_and_its_tool_runs_once() {
    let home = home();
    let mut killed = home.agent(["batch", "--approvals", "suspend", "-"]).open_stdin().spawn();
    killed.type_line(&json!({"session": "s", "prompt": "go"}).to_string());
    let line: Value = serde_json::from_str(&killed.next_line().expect("a line")).expect("JSON");
    let token = line["token"].as_str().expect("a token").to_owned();
    assert!(token.starts_with("s~"), "it names its session: {token}");
    killed.signal(Signal::KILL);
    assert_eq!((killed.finish().signal, times_run(&home)), (Some(9), 0));

    let (run, line) = resume(&home, &token, &["allow"]);
    assert_eq!((run.code, &line["content"]), (Some(0), &json!("It is done.")), "{}", run.stderr);
    assert_eq!((&line["saved"], times_run(&home)), (&json!(true), 1));
    // A repeated reply is refused, and nothing runs twice.
    let (again, line) = resume(&home, &token, &["allow"]);
    assert_eq!((again.code, &line["error"]["kind"], times_run(&home)), (Some(2), &json!("invalid"), 1));
    assert!(again.stderr.contains("answered already"), "{}", again.stderr);
}

#[test]
fn each_decision_does_what_it_says() {
    let home = home();
    let token = suspended(&home, "denied");
    let (_, line) = resume(&home, &token, &["deny", "not", "here"]);
    assert_eq!((&line["denied"][0]["reason"], times_run(&home)), (&json!("denied: not here"), 0));

    let token = suspended(&home, "edited");
    let (_, line) = resume(&home, &token, &["edit", "{\"command\": \"echo other >> other.txt\"}"]);
    assert_eq!(line["tool_transcript"][0]["arguments"], json!({"command": "echo other >> other.txt"}));
    assert_eq!((home.scratch.read("other.txt").as_str(), times_run(&home)), ("other\n", 0));

    // An invalid decision has no effect: the token stays valid.
    let token = suspended(&home, "asked");
    for reply in [&["perhaps"][..], &["allow", "it"], &["edit", "nonsense"]] {
        let (run, _) = resume(&home, &token, reply);
        assert_eq!((run.code, times_run(&home)), (Some(2), 0), "{reply:?}: {}", run.stderr);
    }
    let run = home.agent(["resume", token.as_str()]).stdin("allow-session\n").run();
    assert_eq!((run.code, run.stdout.as_str(), times_run(&home)), (Some(0), "It is done.\n", 1), "{}", run.stderr);
    // For the session: the line is not asked about again there, but is in other sessions.
    let (code, _) = home.json(["--session", "asked", "--approvals", "suspend", "go"]);
    assert_eq!((code, times_run(&home)), (Some(0), 2));
    let (code, line) = home.json(["--session", "elsewhere", "--approvals", "suspend", "go"]);
    assert_eq!((code, times_run(&home)), (Some(4), 2));
    // Lasting: in all sessions of this configuration.
    let (run, _) = resume(&home, line["token"].as_str().unwrap(), &["always"]);
    assert_eq!((run.code, times_run(&home)), (Some(0), 3), "{}", run.stderr);
    let (code, _) = home.json(["--session", "third", "--approvals", "deny", "go"]);
    assert_eq!((code, times_run(&home)), (Some(0), 4));
}

#[test]
fn a_denial_for_good_is_not_asked_about_again() {
    let home = home();
    let token = suspended(&home, "one");
    let (run, _) = resume(&home, &token, &["deny-always", "never"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let (code, line) = home.json(["--session", "two", "--approvals", "suspend", "--mode", "auto", "go"]);
    assert_eq!((code, &line["denied"][0]["reason"]), (Some(0), &json!("denied: never")));
    assert_eq!(times_run(&home), 0);
}

#[test]
fn a_question_is_answered_by_its_token_or_as_the_next_message() {
    let home = home();
    let asked = home.run(["run", "--session", "a", "ask"]);
    assert_eq!((asked.code, asked.stdout.trim()), (Some(4), "Which colour?"), "{}", asked.stderr);
    let how = asked.stderr.lines().find(|line| line.contains("cli-agent resume a~")).expect("it says how to go on");
    let token = how.split(' ').find(|word| word.starts_with("a~")).expect("the token");
    let run = home.run(["resume", token, "blue"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "As you like.\n"), "{}", run.stderr);

    assert_eq!(home.run(["run", "--session", "b", "ask"]).code, Some(4));
    let run = home.run(["run", "--session", "b", "green"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "As you like.\n"), "{}", run.stderr);
    assert!(home.run(["sessions", "show", "b"]).stdout.contains("green"));
}

#[test]
fn a_turn_that_waits_is_shown_with_what_it_waits_for() {
    let home = home();
    suspended(&home, "s");
    let shown = home.run(["sessions", "show", "s"]);
    assert_eq!(shown.stdout, "you: go\n> local/shell_exec {\"command\":\"echo ran >> log.txt\"}\n");
    for said in
        ["it waits for a decision; `cli-agent chat --session s` asks for it", "0 turns ended, one is unfinished"]
    {
        assert!(shown.stderr.contains(said), "{}", shown.stderr);
    }
    assert_eq!(home.run(["run", "--session", "a", "ask"]).code, Some(4));
    let shown = home.run(["sessions", "show", "a"]);
    assert_eq!(shown.stdout, "you: ask\nmodel: Which colour?\n");
    assert!(shown.stderr.contains("`cli-agent run --session a ANSWER`"), "{}", shown.stderr);
}

#[test]
fn a_reply_that_is_missing_is_told_with_what_it_may_be() {
    let home = home();
    let token = suspended(&home, "s");
    for missing in [&["resume", &token][..], &["resume", &token, ""], &["resume", &token, "-"]] {
        let run = home.run(missing.iter().copied());
        assert_eq!((run.code, times_run(&home)), (Some(2), 0), "{run:?}");
        let why = "a decision behind the token: allow, allow-session, always, deny [REASON]";
        assert!(run.stderr.contains(why) && run.stderr.contains("the token stays valid"), "{run:?}");
    }
    let (_, line) = home.json(["--session", "q", "--approvals", "suspend", "ask"]);
    let run = home.run(["resume", line["token"].as_str().expect("a token")]);
    assert!(run.code == Some(2) && run.stderr.contains("the answer is empty; write it behind the token"), "{run:?}");
}

#[test]
fn what_is_no_good_token_is_a_usage_error() {
    let home = home();
    for token in ["", "x", "s~guess", "no/session~x", "~", &suspended(&home, "t").replace('~', "~0")] {
        let run = home.run(["resume", token, "allow"]);
        assert_eq!((run.code, times_run(&home)), (Some(2), 0), "{token:?}: {}", run.stderr);
    }
}

#[test]
fn an_expired_token_is_refused_and_the_session_goes_on() {
    let home = home();
    let config = home.scratch.read("agent.toml").replace("[runtime]\n", "[runtime]\nsuspend_timeout_ms = 1\n");
    home.scratch.agent_toml(&config);
    let token = suspended(&home, "s");
    let (run, line) = resume(&home, &token, &["allow"]);
    assert_eq!((run.code, times_run(&home)), (Some(2), 0));
    assert!(line["error"]["message"].as_str().unwrap().contains("expired"), "{line}");
    let run = home.run(["run", "--session", "s", "ask"]);
    assert_eq!(run.code, Some(4), "the session takes the next message: {}", run.stderr);
    let run = home.run(["run", "--session", "s", "blue"]);
    assert_eq!(run.code, Some(0), "and a question its answer: {}", run.stderr);
}

/// `resume TOKEN` at a terminal.
fn at_terminal(home: &Home, token: &str) -> Terminal {
    let args = ["--config", "agent.toml", "resume", token];
    let terminal = Terminal::start_on(120, AGENT, &args, home.scratch.path(), &[]);
    terminal.deadline(Duration::from_secs(60))
}

#[test]
fn at_a_terminal_a_decision_is_asked_for_as_in_a_chat() {
    let edit = json!({ "name": "local/edit_file", "arguments": { "path": "a.txt", "old": "one", "new": "two" } });
    let script = json!([{ "replies": [{ "calls": [edit] }, { "text": "It is done." }] }]);
    for (answers, text) in [
        (&["perhaps", "y"][..], "two\n"),
        (&["allow"], "two\n"),
        (&["n not now"], "one\n"),
        (&[""], "one\n"),
        (&["e", "{\"path\": \"a.txt\", \"old\": \"one\", \"new\": \"three\"}"], "three\n"),
    ] {
        let home = Home::scripted(&script);
        home.scratch.write("a.txt", "one\n");
        let (code, line) = home.json(["--session", "s", "--approvals", "suspend", "go"]);
        assert_eq!(code, Some(4), "{line}");
        let mut terminal = at_terminal(&home, line["token"].as_str().expect("a token"));
        terminal.wait_for("allow? [y/s/a/e/N]");
        let screen = terminal.screen();
        for shown in ["allow this call? local/edit_file", "--- a/a.txt", "-one", "+two", "n [REASON]: no"] {
            assert!(screen.contains(shown), "{shown}: {screen}");
        }
        for answer in answers {
            terminal.type_line(answer);
            match *answer {
                "perhaps" => terminal.wait_for("[enter y, s, a, e, n or never; Enter alone means no]"),
                "e" => terminal.wait_for("arguments>"),
                _a_decision => {}
            }
        }
        terminal.wait_for("It is done.");
        assert!(terminal.wait_exit().success(), "{answers:?}");
        assert_eq!(home.scratch.read("a.txt"), text, "{answers:?}");
    }
}

#[test]
fn at_a_terminal_an_answer_ends_at_enter_and_none_leaves_the_question_open() {
    let home = home();
    let (code, line) = home.json(["--session", "s", "--approvals", "suspend", "ask me"]);
    assert_eq!(code, Some(4), "{line}");
    let token = line["token"].as_str().expect("a token");
    let mut terminal = at_terminal(&home, token);
    terminal.wait_for("Which colour?");
    terminal.wait_for("answer>");
    terminal.press(CTRL_D);
    terminal.wait_for("nothing was decided; the token stays valid");
    assert_eq!(terminal.wait_exit().exit_code(), 2);
    let mut terminal = at_terminal(&home, token);
    terminal.wait_for("answer>");
    terminal.type_line("blue");
    terminal.wait_for("As you like.");
    assert!(terminal.wait_exit().success());
}
