//! `run`: one turn, in each of its forms.

use serde_json::{Value, json};
use std::time::Duration;

use crate::home::{Home, KEYS};
use crate::support::clean::assert_clean;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

fn lister() -> Home {
    let call = json!({ "calls": [{ "name": "local/list_dir", "arguments": { "path": "." } }] });
    let home = Home::scripted(&json!([{ "when": "list", "replies": [call, { "text": "There you are." }] },
                                      { "replies": [{ "text": "hello" }] }]));
    home.scratch.write("notes.txt", "x");
    home
}

#[test]
fn the_answer_is_on_stdout_and_the_rest_on_stderr() {
    let run = lister().run(["run", "list the files"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "There you are.\n"), "{}", run.stderr);
    assert!(run.stderr.contains("> local/list_dir {\"path\":\".\"}"), "{}", run.stderr);
    assert!(run.stderr.contains("  ok, "), "{}", run.stderr);
}

#[test]
fn json_is_one_line_with_the_transcript() {
    let (code, line) = lister().json(["--session", "s", "list the files"]);
    assert_eq!(code, Some(0));
    assert_eq!((&line["session_id"], &line["finish_reason"]), (&json!("s"), &json!("final")));
    assert_eq!((&line["content"], &line["steps"]), (&json!("There you are."), &json!(2)));
    assert_eq!((&line["saved"], &line["error"], &line["model"]), (&json!(true), &Value::Null, &json!("demo:one")));
    let call = &line["tool_transcript"][0];
    assert_eq!((&call["name"], &call["status"]), (&json!("local/list_dir"), &json!("ok")));
    assert!(call["result"].as_str().is_some_and(|result| result.contains("notes.txt")), "{call}");
}

#[test]
fn stream_json_begins_and_ends_as_promised() {
    let run = lister().run(["run", "--output", "stream-json", "list the files"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_clean(&run.stdout);
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (first, last) = (&events[0], &events[events.len() - 1]);
    assert_eq!((&first["type"], &first["version"]), (&json!("turn.started"), &json!(env!("CARGO_PKG_VERSION"))));
    for key in ["model", "cwd", "tools", "servers", "session_id", "turn_id", "seq", "time", "trace_id"] {
        assert!(!first[key].is_null(), "{key} is missing in {first}");
    }
    assert_eq!(last["type"], "turn.finished");
    for key in KEYS {
        assert!(last.get(key).is_some(), "{key} is missing in {last}");
    }
    let ends = events.iter().filter(|event| event["type"] == "turn.finished").count();
    assert_eq!(ends, 1);
    // Pieces of text that wait for a slow reader are joined, so numbers may be left out; they never go back.
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
    assert!(seqs.is_sorted_by(|one, next| one < next), "{seqs:?}");
}

#[test]
fn stdin_is_the_prompt_when_there_is_no_other() {
    let home = lister();
    assert_eq!(home.agent(["run"]).stdin("list them").run().stdout, "There you are.\n");
    assert_eq!(home.agent(["run", "-"]).stdin("list them").run().stdout, "There you are.\n");
}

#[test]
fn what_stdin_has_follows_a_prompt_and_a_silent_one_is_not_waited_for() {
    let home = lister();
    assert_eq!(home.agent(["run", "please"]).stdin("list them").run().stdout, "There you are.\n");
    let journal = home.run(["sessions", "search", "list them"]).stdout;
    assert!(journal.contains("please list them"), "{journal}");
    let running = home.agent(["run", "hi"]).open_stdin().spawn();
    running.wait_stdout("hello\n");
    running.wait_stderr("[stdin had nothing within 0.2 s and is not read; ");
}

#[test]
fn a_session_goes_on_over_processes() {
    let provider = FakeProvider::start(["one", "two", "three"].map(Reply::text));
    let home = Home::served_by(&provider);
    assert_eq!(home.run(["run", "--session", "talk", "first"]).stdout, "one\n");
    assert_eq!(home.run(["run", "--resume", "talk", "second"]).stdout, "two\n");
    let last = home.run(["run", "-c", "third"]);
    assert_eq!((last.code, last.stdout.as_str()), (Some(0), "three\n"), "{}", last.stderr);
    let body = provider.requests()[2].body.to_string();
    for said in ["first", "one", "second", "two", "third"] {
        assert!(body.contains(said), "{said} is missing in {body}");
    }
}

#[test]
fn a_session_made_for_one_run_can_be_continued() {
    let home = lister();
    let (_, first) = home.json(["hi"]);
    let id = first["session_id"].as_str().expect("a session id").to_owned();
    let (code, second) = home.json(["-c", "hi again"]);
    assert_eq!((code, second["session_id"].as_str()), (Some(0), Some(id.as_str())));
}

#[test]
fn the_working_folder_stays_with_the_session() {
    let home = lister();
    home.scratch.write("inner/deep.txt", "x");
    let result = |line: &Value| line["tool_transcript"][0]["result"].as_str().unwrap_or_default().to_owned();
    let (_, line) = home.json(["--session", "s", "--cwd", "inner", "list"]);
    assert!(result(&line).contains("deep.txt") && !result(&line).contains("notes.txt"), "{line}");
    let (_, line) = home.json(["--session", "s", "list"]);
    assert!(result(&line).contains("deep.txt"), "{line}");
}

#[test]
fn guards_from_the_command_line_hold() {
    let home = lister();
    let (code, line) = home.json(["--max-steps", "1", "list the files"]);
    assert_eq!((code, &line["guard_reason"]), (Some(3), &json!("max_steps")), "{line}");
    let stalled = Home::scripted(&json!([{ "replies": ["stall"] }]));
    let (code, line) = stalled.json(["--timeout-ms", "1500", "hi"]);
    assert_eq!((code, &line["guard_reason"]), (Some(3), &json!("turn_timeout")), "{line}");
    assert!(line["content"].as_str().is_some_and(|content| content.contains("1500")), "{line}");
}

#[test]
fn x7_a_reader_that_leaves_ends_the_run_quietly() {
    let slow = json!([{ "replies": [{ "text": "a b c" }], "delay_ms": 300 }]);
    let home = Home::scripted(&slow);
    let script = format!(
        "{{ '{}' --config agent.toml run --session s --output stream-json hi; echo code $? >&2; }} | head -n 1",
        crate::home::AGENT
    );
    let shell = crate::support::program::Program::new("/bin/sh").args(["-c", &script]).dir(home.scratch.path());
    let run = shell.deadline(Duration::from_secs(20)).run();
    assert!(run.stdout.contains("turn.started") && run.stdout.lines().count() == 1, "{run:?}");
    assert_eq!(run.stderr, "code 141\n", "128 and the number of SIGPIPE, and not a word");
    assert!(home.run(["sessions", "show", "s"]).stdout.contains("you: hi"));
}

/// A model that wants to run a shell command, where policy leaves that to a person.
fn risky() -> Home {
    let call = json!({ "calls": [{ "name": "local/shell_exec", "arguments": { "command": "echo ran" } }] });
    let script = json!([{ "replies": [call, { "text": "Done." }] }]);
    let tables = "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n";
    let home = Home::with("default_model = \"demo:one\"", tables);
    home.scratch.write("s.json", script.to_string());
    home
}

#[test]
fn headless_runs_fail_closed_and_say_what_was_denied() {
    let (code, line) = risky().json(["do it"]);
    assert_eq!((code, &line["finish_reason"]), (Some(0), &json!("final")), "{line}");
    assert_eq!(line["tool_transcript"][0]["status"], "denied");
    assert_eq!(line["denied"][0]["name"], "local/shell_exec");
}

/// The mode is that of the command line, of the session or of the policy, in this order.
#[test]
fn a_denial_names_its_mode_and_what_would_allow_the_call() {
    let denied = |home: &Home, args: &[&str]| {
        let (_, line) = home.json(args.iter().copied().chain(["do it"]));
        (line["denied"][0]["mode"].clone(), line["denied"][0]["allowed_by"].clone())
    };
    let (home, asks) = (risky(), json!(["--mode auto", "--approvals suspend", "policy.allow"]));
    assert_eq!(denied(&home, &["--session", "s"]), (json!("ask"), asks.clone()));
    assert_eq!(denied(&home, &["--mode", "edits"]), (json!("edits"), asks.clone()));
    assert_eq!(denied(&home, &["--mode", "plan"]), (json!("plan"), json!(["--mode auto"])));
    assert_eq!(home.run(["sessions", "set", "s", "--mode", "edits"]).code, Some(0));
    assert_eq!(denied(&home, &["--session", "s"]), (json!("edits"), asks.clone()));
    let shown: Value = serde_json::from_str(&home.run(["sessions", "show", "s", "--json"]).stdout).expect("JSON");
    assert_eq!(shown["last"]["denied"][0]["mode"], "edits");
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}mode = \"plan\"\n"));
    assert_eq!(denied(&home, &[]), (json!("plan"), json!(["--mode auto"])));
    let lines = home.agent(["batch", "-"]).stdin("{\"session\":\"b\",\"prompt\":\"do it\"}\n").run();
    let line: Value = serde_json::from_str(&lines.stdout).expect("JSON");
    assert_eq!(line["denied"][0]["mode"], "plan", "{lines:?}");
    // What the policy denies, no mode allows.
    home.scratch
        .agent_toml(&config.replace("deny_tools = []", "deny_tools = []\ndeny = [\"local/shell_exec(echo *)\"]"));
    assert_eq!(denied(&home, &["--mode", "auto"]), (json!("auto"), json!([])));
}

#[test]
fn approvals_can_be_given_beforehand_or_put_off() {
    let (code, line) = risky().json(["--mode", "auto", "do it"]);
    assert_eq!((code, &line["tool_transcript"][0]["status"]), (Some(0), &json!("ok")), "{line}");
    assert!(line["tool_transcript"][0]["result"].as_str().is_some_and(|result| result.contains("ran")), "{line}");
    for mode in ["plan", "ask", "edits"] {
        let (_, line) = risky().json(["--mode", mode, "do it"]);
        assert_eq!(line["tool_transcript"][0]["status"], "denied", "{line}");
    }
    for gone in [&["--approve", "all", "do it"][..], &["do it", "--approve"]] {
        let (code, line) = risky().json(gone.iter().copied());
        let told = line["error"]["message"].as_str().unwrap_or_default();
        assert_eq!((code, told), (Some(2), "--approve is replaced by --mode plan|ask|edits|auto"), "{line}");
    }
    let (code, line) = risky().json(["--approvals", "suspend", "do it"]);
    assert_eq!((code, &line["finish_reason"]), (Some(4), &json!("suspended")), "{line}");
    assert!(line["token"].is_string() && line["question"].is_string(), "{line}");
}

/// A PNG of one pixel.
const PIXEL: [u8; 16] = *b"\x89PNG\r\n\x1a\n12345678";

#[test]
fn attached_files_reach_models_that_take_them_and_are_refused_by_name_otherwise() {
    let provider = FakeProvider::start([Reply::text("a pixel"), Reply::text("a note")]);
    let home = Home::served_by(&provider);
    home.scratch.write("pixel.png", PIXEL);
    home.scratch.write("note.md", "# remember");
    home.scratch.write("junk.bin", [0xff, 0x00, 0xfe]);
    let (code, line) = home.json(["--session", "s", "--attach", "pixel.png", "what is this?"]);
    assert_eq!(code, Some(2), "{line}");
    assert!(line["error"]["message"].as_str().is_some_and(|why| why.contains("image")), "{line}");
    let (code, line) = home.json(["--attach", "junk.bin", "what is this?"]);
    assert!(code == Some(2) && line["error"]["message"].as_str().is_some_and(|why| why.contains("neither")), "{line}");
    assert!(provider.requests().is_empty(), "nothing was sent");
    let config = home.scratch.read("agent.toml").replace("native_tools = true,", "native_tools = true, images = true,");
    home.scratch.agent_toml(&config);
    let (code, line) = home.json(["--session", "s", "--attach", "pixel.png", "what is this?"]);
    assert_eq!((code, &line["content"]), (Some(0), &json!("a pixel")), "{line}");
    let body = provider.requests().remove(0).body.to_string();
    assert!(body.contains("iVBORw0KGgoxMjM0NTY3OA==") && body.contains("image/png"), "{body}");
    let (code, _) = home.json(["--session", "s", "--attach", "note.md", "and this?"]);
    assert_eq!(code, Some(0));
    let body = provider.requests().remove(1).body.to_string();
    assert!(body.contains("# remember") && body.contains("note.md"), "{body}");
}
