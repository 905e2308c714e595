//! Invalid input: one clear message with advice, the correct exit code, no panic, and no unrequested output on
//! stdout.

use serde_json::json;
use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;

use crate::home::{Home, the_line};
use crate::support::clean::assert_clean;
use crate::support::program::Run;

fn home() -> Home {
    Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]))
}

/// Refused with code 2, on stderr, naming this.
#[track_caller]
fn assert_refused(run: &Run, names: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.stderr.contains(names), "{names:?} is not in {:?}", run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    assert_clean(&run.stderr);
}

#[test]
fn b1_a_missing_configuration_says_how_to_get_one() {
    let home = home();
    assert_refused(&home.run(["--config", "nowhere.toml", "run", "hi"]), "cli-agent init");
    assert_refused(&home.run(["--config", "nowhere.toml"]), "nowhere.toml");
}

#[test]
fn b1_a_bad_configuration_is_told_all_at_once_with_places() {
    let home = home();
    home.scratch.agent_toml("[runtime]\nmax_steps = 0\nmax_stepz = 1\n[store]\nkind = \"floppy\"\n");
    let run = home.run(["run", "hi"]);
    assert_refused(&run, "agent.toml:2:");
    for problem in ["max_stepz", "floppy", "default_model", "agent.toml:3:", "agent.toml:5:"] {
        assert!(run.stderr.contains(problem), "{problem} is not in {}", run.stderr);
    }
}

#[test]
fn b3_session_ids_are_judged_before_anything_happens() {
    let home = home();
    let long = "a".repeat(1024);
    for id in [
        "a/b",
        "../x",
        "..",
        "/etc",
        ".hidden",
        "-rf",
        "",
        "a b",
        "ä",
        "a\u{2215}b",
        "a\\b",
        long.as_str(),
        "a\u{1b}[31mb",
        "\u{202e}x",
    ] {
        for option in ["--session", "--resume"] {
            let run = home.run(["run", &format!("{option}={id}"), "hi"]);
            assert_refused(&run, "session id");
            assert!(run.stderr.len() < 400, "the complaint repeats too much: {}", run.stderr);
        }
        assert_eq!(home.run(["sessions", "show", id]).code, Some(2), "{id:?}");
        assert_eq!(home.run(["chat", &format!("--session={id}")]).code, Some(2), "{id:?}");
    }
    assert_eq!(home.scratch.list(".bob"), Vec::<String>::new(), "nothing was made for a refused id");
}

#[test]
fn a_session_that_must_exist_is_looked_for() {
    let home = home();
    assert_refused(&home.run(["run", "--resume", "nobody", "hi"]), "there is no session nobody");
    assert_refused(&home.run(["run", "-c", "hi"]), "no session to continue");
    // The one word may be the message.
    for word in ["nobody", "what is this?"] {
        assert_refused(
            &home.run(["run", "--resume", word]),
            "`cli-agent run --continue MESSAGE` continues the session",
        );
    }
    for command in ["show", "export", "delete"] {
        assert_refused(&home.run(["sessions", command, "nobody"]), "there is no session nobody");
    }
}

#[test]
fn unknown_models_and_missing_keys_are_named() {
    let home = home();
    assert_refused(&home.run(["run", "--model", "nobody:x", "hi"]), "nobody");
    assert_refused(&home.run(["run", "--model", "openai:gpt-4o-mini", "hi"]), "OPENAI_API_KEY");
    assert_refused(&home.run(["run", "--model", "nonsense", "hi"]), "provider:model");
    assert_refused(&home.run(["chat", "--model", "anthropic:claude-haiku-4-5"]), "ANTHROPIC_API_KEY");
}

#[test]
fn b2_prompts_that_are_none_are_refused() {
    let home = home();
    assert_refused(&home.run(["run", ""]), "empty");
    assert_refused(&home.run(["run", " \n"]), "empty");
    assert_refused(&home.run(["run"]), "empty");
    assert_refused(&home.agent(["run", "-"]).stdin(b"caf\xe9").run(), "UTF-8");
    assert_refused(&home.agent(["run"]).arg(OsStr::from_bytes(b"caf\xe9")).run(), "UTF-8");
    let run = home.agent(["run", "a prompt"]).stdin(b"caf\xe9").run();
    assert_refused(&run, "stdin is not valid UTF-8 at byte 3");
    assert_refused(&home.run(["run", "two", "words"]), "tip: quote a message of several words");
    let run = home.agent(["run"]).stdin(vec![b'a'; (1 << 20) + 1]).run();
    assert_refused(&run, "1048576");
}

#[test]
fn b2_a_prompt_at_the_limit_is_taken() {
    let run = home().agent(["run"]).stdin(vec![b'a'; 1 << 20]).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{}", run.stderr);
}

#[test]
fn b2_control_characters_in_a_prompt_are_kept_and_never_shown() {
    let home = home();
    let run = home.agent(["run", "--session", "s"]).stdin(b"a\0b\x1b]0;title\x07c\r\n").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{}", run.stderr);
    let shown = home.run(["sessions", "show", "s"]);
    assert_clean(&shown.stdout);
    let exported = home.run(["sessions", "export", "s"]);
    assert_clean(&exported.stdout);
    assert!(exported.stdout.contains(r"a\u0000b\u001b]0;title\u0007c\r\n"), "{}", exported.stdout);
}

#[test]
fn a_folder_outside_the_workspace_is_refused() {
    let home = home();
    assert_refused(&home.run(["run", "--cwd", "nowhere", "hi"]), "--cwd");
    assert_refused(&home.run(["run", "--cwd", "/", "hi"]), "policy.workspace");
    assert_refused(&home.run(["run", "--cwd", "agent.toml", "hi"]), "not a folder");
}

#[test]
fn a_port_that_refuses_is_a_model_failure() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let home = Home::at(&format!("http://127.0.0.1:{port}/v1/"));
    let (code, line) = home.json(["--session", "s", "hi"]);
    assert_eq!((code, &line["finish_reason"]), (Some(5), &json!("error")), "{line}");
    assert_eq!(line["error"]["kind"], "llm");
    assert_eq!(line["saved"], true);
    let shown = home.run(["sessions", "show", "s"]);
    assert!(shown.stdout.contains("you: hi"), "{}", shown.stdout);
}

#[test]
fn whoever_asks_for_json_gets_one_line_whatever_is_wrong() {
    let home = home();
    for args in [
        &["run", "--output", "json", ""][..],
        &["run", "--output", "json", "--nonsense", "hi"],
        &["run", "--output=json", "--max-steps", "0", "hi"],
        &["run", "--output-format", "json", "--session", "a/b", "hi"],
        &["run", "--output", "json", "--resume", "nobody", "hi"],
        &["run", "--output", "json", "--model", "nobody:x", "hi"],
        &["--config", "nowhere.toml", "run", "--output", "json", "hi"],
    ] {
        let run = home.run(args.iter().copied());
        let line = the_line(&run);
        assert_eq!(run.code, Some(2), "{args:?}");
        assert_eq!((&line["finish_reason"], &line["content"]), (&json!("error"), &json!("")), "{args:?}");
        assert!(line["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{args:?}: {line}");
    }
}

#[test]
fn a_stream_that_cannot_begin_still_ends() {
    let run = home().run(["run", "--output", "stream-json", ""]);
    assert_eq!(run.code, Some(2));
    let line: serde_json::Value = serde_json::from_str(&run.stdout).expect("one line of JSON");
    assert_eq!(line["type"], "turn.finished");
}
