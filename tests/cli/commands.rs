//! The small commands: sessions, tools, doctor, init.

use serde_json::{Value, json};

use crate::home::{AGENT, Home};
use crate::support::program::{Program, Run};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::scratch::Scratch;

fn home() -> Home {
    Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]))
}

#[track_caller]
fn parsed(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"))
}

#[test]
fn sessions_are_listed_shown_exported_and_deleted() {
    let home = home();
    assert!(home.run(["sessions", "list"]).stderr.contains("no sessions yet"));
    for (session, prompt) in [("one", "first"), ("two", "second")] {
        assert_eq!(home.run(["run", "--session", session, prompt]).code, Some(0));
    }
    let list = home.run(["sessions", "list"]);
    assert!(list.stdout.lines().all(|line| line.ends_with("one") || line.ends_with("two")), "{}", list.stdout);
    let list = parsed(&home.run(["sessions", "list", "--json"]));
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(2), "{list}");
    assert_eq!(list["quarantined"], json!([]));

    let shown = home.run(["sessions", "show", "one"]);
    assert_eq!(shown.stdout, "you: first\nmodel: hello\n");
    let shown = parsed(&home.run(["sessions", "show", "one", "--json"]));
    assert_eq!((&shown["turns"], &shown["last"]["content"]), (&json!(1), &json!("hello")));

    let exported = home.run(["sessions", "export", "one"]);
    let kinds: Vec<Value> = exported.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(kinds.iter().any(|record: &Value| record["kind"] == "outcome"), "{}", exported.stdout);

    assert_eq!(home.run(["sessions", "delete", "one"]).code, Some(0));
    assert_eq!(home.run(["sessions", "show", "one"]).code, Some(2));
    assert_eq!(home.run(["sessions", "show", "two"]).code, Some(0));
}

#[test]
fn ids_that_differ_in_case_are_two_sessions() {
    let home = home();
    for session in ["Case", "case", "CON"] {
        assert_eq!(home.run(["run", "--session", session, session]).code, Some(0), "{session}");
    }
    assert!(home.run(["sessions", "show", "Case"]).stdout.contains("you: Case"));
    assert!(home.run(["sessions", "show", "case"]).stdout.contains("you: case"));
}

#[test]
fn tools_are_listed_as_policy_offers_them() {
    let home = home();
    let run = home.run(["tools"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("local/list_dir") && !run.stdout.contains("local/shell_exec"), "{}", run.stdout);
    let tools = parsed(&home.run(["tools", "--json"]));
    let first = &tools["tools"][0];
    for key in ["name", "title", "kind", "description", "source", "risk", "schema"] {
        assert!(!first[key].is_null(), "{key} is missing in {first}");
    }
    assert_eq!(home.scratch.list(".bob"), Vec::<String>::new(), "listing tools touches no store");
}

#[test]
fn doctor_finds_everything_fine() {
    let home = home();
    let run = home.run(["doctor"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    for check in ["ok     config", "ok     key", "ok     model", "ok     tools", "ok     store"] {
        assert!(run.stdout.contains(check), "{check} is not in {}", run.stdout);
    }
    assert_eq!(home.run(["sessions", "list"]).stdout, "", "its own session is gone");
    let json = parsed(&home.run(["doctor", "--json"]));
    assert_eq!((&json["ok"], &json["checks"][0]["check"]), (&json!(true), &json!("config")));
}

#[test]
fn doctor_says_what_is_wrong_and_what_to_do() {
    let unauthorised = FakeProvider::repeating([Reply::status(401)]);
    let run = Home::served_by(&unauthorised).run(["doctor"]);
    assert_eq!(run.code, Some(5), "{run:?}");
    assert!(run.stdout.contains("FAULT  model") && run.stdout.contains("check the key"), "{}", run.stdout);

    let keyless = Home::with("default_model = \"openai:gpt-4o-mini\"", "").run(["doctor"]);
    assert_eq!(keyless.code, Some(2), "{keyless:?}");
    assert!(keyless.stdout.contains("OPENAI_API_KEY"), "{}", keyless.stdout);

    let unreadable = Scratch::new();
    let run = Program::new(AGENT).dir(unreadable.path()).args(["doctor", "--json"]).run();
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(parsed(&run)["ok"], false);
}

#[test]
fn doctor_notices_a_store_that_cannot_be_written() {
    let home = home();
    home.scratch.write(".bob", "a file where a folder should be");
    let run = home.run(["doctor"]);
    assert_eq!(run.code, Some(7), "{run:?}");
    assert!(run.stdout.contains("FAULT  store"), "{}", run.stdout);
    let (code, line) = home.json(["hi"]);
    assert_eq!((code, &line["error"]["kind"]), (Some(7), &json!("store")), "{line}");
}

#[test]
fn init_writes_the_shipped_configuration_once() {
    let folder = Scratch::new();
    let init = |args: &[&str]| Program::new(AGENT).dir(folder.path()).args(args.iter().copied()).run();
    assert_eq!(init(&["init"]).code, Some(0));
    assert!(folder.read("agent.toml").contains("default_model"));
    folder.write("agent.toml", "mine");
    let again = init(&["init"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    assert_eq!(folder.read("agent.toml"), "mine");
    assert_eq!(init(&["init", "--force"]).code, Some(0));
    assert_ne!(folder.read("agent.toml"), "mine");
}

#[cfg(feature = "drill")]
#[test]
fn the_drill_server_needs_no_configuration_and_is_offered_nowhere() {
    let scratch = Scratch::new();
    scratch.agent_toml("this is [ no TOML");
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    for mode in ["healthy", "launcher"] {
        let run = Program::new(AGENT).dir(scratch.path()).args(["drill-server", "--mode", mode]).stdin(ping).run();
        let pong = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), pong, ""), "{mode}");
    }
    assert_eq!(Program::new(AGENT).args(["drill-server", "--mode", "odd"]).run().code, Some(2));
    for offer in [vec!["--help"], vec!["completions", "bash"], vec!["completions", "fish"]] {
        assert!(!Program::new(AGENT).args(offer.clone()).run().stdout.contains("drill"), "{offer:?}");
    }
}
