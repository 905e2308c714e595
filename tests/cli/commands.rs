//! The small commands: sessions, tools, doctor, init.

use serde_json::{Value, json};

use crate::home::{AGENT, Home, STORES};
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
    for kind in STORES {
        check_sessions(&home().keeping(kind));
    }
}

fn check_sessions(home: &Home) {
    assert!(home.run(["sessions", "list"]).stderr.contains("no sessions yet"));
    for (session, prompt) in [("one", "first"), ("two", "second")] {
        assert_eq!(home.run(["run", "--session", session, prompt]).code, Some(0));
    }
    let list = home.run(["sessions", "list"]);
    assert!(
        list.stdout.lines().all(|line| line.contains("  one  first") || line.contains("  two  second")),
        "{}",
        list.stdout
    );
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
    for kind in STORES {
        check_case(&home().keeping(kind));
    }
}

fn check_case(home: &Home) {
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
    assert!(run.stdout.contains("local/list_dir") && run.stdout.contains("local/shell_exec"), "{}", run.stdout);
    let denying = home.agent(["tools"]).env("BOB__POLICY__DENY_TOOLS", "[\"local/shell_exec\"]").run();
    assert!(denying.stdout.contains("local/list_dir") && !denying.stdout.contains("local/shell_exec"), "{denying:?}");
    let tools = parsed(&home.run(["tools", "--json"]));
    let first = &tools["tools"][0];
    for key in ["name", "title", "kind", "description", "source", "risk", "schema"] {
        assert!(!first[key].is_null(), "{key} is missing in {first}");
    }
    assert_eq!(home.scratch.list(".bob"), Vec::<String>::new(), "listing tools touches no store");
}

#[test]
fn doctor_finds_everything_fine() {
    for kind in STORES {
        check_fine(&home().keeping(kind));
    }
}

fn check_fine(home: &Home) {
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
    assert!(run.stdout.contains("FAIL   model") && run.stdout.contains("check the key"), "{}", run.stdout);

    let keyless = Home::with("default_model = \"openai:gpt-4o-mini\"", "").run(["doctor"]);
    assert_eq!(keyless.code, Some(2), "{keyless:?}");
    assert!(keyless.stdout.contains("OPENAI_API_KEY"), "{}", keyless.stdout);

    let unreadable = Scratch::new();
    let run = Program::new(AGENT).dir(unreadable.path()).args(["--config", "nowhere.toml", "doctor", "--json"]).run();
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(parsed(&run)["ok"], false);
}

#[test]
fn doctor_notices_a_store_that_cannot_be_written() {
    let home = home();
    home.scratch.write(".bob", "a file where a folder should be");
    check_faulty(&home, "");
    check_faulty(&home.keeping("json"), "");
}

#[test]
fn a_store_path_of_the_wrong_kind_says_what_to_write() {
    for kind in STORES {
        let home = home().keeping(kind);
        let config = home.scratch.read("agent.toml");
        home.scratch.agent_toml(&format!("{config}path = \"here\"\n"));
        let advice = match *kind {
            "json" => {
                home.scratch.write("here", "no journal");
                "name a folder, or set store.kind = \"sqlite\""
            }
            _ => {
                home.scratch.write("here/notes.txt", "a folder, then");
                "here/sessions.db, or set store.kind = \"json\""
            }
        };
        check_faulty(&home, advice);
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_file_that_is_no_database_is_named_and_left_alone() {
    let home = home();
    home.scratch.write(".bob/sessions.db", "precious notes");
    check_faulty(&home, ".bob/sessions.db is no database; it was left as it is");
    assert_eq!(home.scratch.read(".bob/sessions.db"), "precious notes");
}

/// A store error is found by `doctor`, reported by `run`, and has its exit code.
#[track_caller]
fn check_faulty(home: &Home, says: &str) {
    let run = home.run(["doctor"]);
    assert_eq!(run.code, Some(7), "{run:?}");
    assert!(run.stdout.contains("FAIL   store") && run.stdout.contains(says), "{}", run.stdout);
    let (code, line) = home.json(["hi"]);
    assert_eq!((code, &line["error"]["kind"]), (Some(7), &json!("store")), "{line}");
    assert!(line["error"]["message"].as_str().is_some_and(|message| message.contains(says)), "{line}");
    assert_eq!(home.run(["sessions", "list"]).code, Some(7));
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

/// What is beside the shipped file in its repository.
const SCRIPT: &str = "scripts/local-model.sh";

#[test]
fn init_writes_only_what_works_where_it_is_written() {
    let folder = Scratch::new();
    let agent = |args: &[&str]| Program::new(AGENT).dir(folder.path()).args(args.iter().copied()).run();
    let init = agent(&["init"]);
    assert_eq!((init.code, init.stderr.contains(SCRIPT)), (Some(0), false), "{init:?}");
    let written = folder.read("agent.toml");
    assert!(!written.contains(SCRIPT) && !written.contains("[mcp"), "{written}");
    assert!(written.contains("default_model = \"local:"), "{written}");
    assert_eq!(agent(&["config", "check"]).code, Some(0));
    folder.write(SCRIPT, "");
    assert_eq!(agent(&["init", "--force"]).code, Some(0));
    assert!(folder.read("agent.toml").contains(SCRIPT), "the shipped file");
}

#[cfg(feature = "soak")]
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

#[test]
fn sessions_have_titles_states_and_options_that_can_be_set() {
    let script = json!([{ "replies": [{ "text": "hello" }] }]);
    for kind in crate::home::STORES {
        let home = Home::scripted(&script).keeping(kind);
        home.run(["run", "--session", "notes", "Mend the roof,\nplease"]);
        let list = home.run(["sessions", "list"]);
        assert!(
            !list.stdout.contains("idle") && list.stdout.contains("notes  Mend the roof, please"),
            "{}",
            list.stdout
        );
        let json: Value = serde_json::from_str(&home.run(["sessions", "list", "--json"]).stdout).expect("JSON");
        assert_eq!((&json["sessions"][0]["state"], &json["sessions"][0]["turns"]), (&json!("idle"), &json!(1)));
        let begun = json["sessions"][0]["created_at"].clone();
        assert!(begun.as_i64().is_some_and(|at| at > 1_600_000_000_000), "{json}");
        let set = home.run(["sessions", "set", "notes", "--instructions", "Be brief.", "--cwd", "."]);
        assert_eq!(set.code, Some(0), "{}", set.stderr);
        let json: Value = serde_json::from_str(&home.run(["sessions", "list", "--json"]).stdout).expect("JSON");
        let cwd = home.scratch.path().canonicalize().expect("a folder").display().to_string();
        assert_eq!((&json["sessions"][0]["cwd"], &json["sessions"][0]["created_at"]), (&json!(cwd), &begun));
        let list = home.run(["sessions", "list"]).stdout;
        assert!(list.contains(&cwd), "{list}");
        let shown: Value =
            serde_json::from_str(&home.run(["sessions", "show", "notes", "--json"]).stdout).expect("JSON");
        assert_eq!(shown["options"]["instructions"], "Be brief.");
        assert!(shown["options"]["mode"].is_null(), "{shown}");
        let mode = |option: [&str; 2]| {
            let set = home.run(["sessions", "set", "notes", option[0], option[1], "--json"]);
            assert_eq!(set.code, Some(0), "{}", set.stderr);
            let said: Value = serde_json::from_str(&set.stdout).expect("JSON");
            said["options"]["mode"].clone()
        };
        assert_eq!((mode(["--mode", "plan"]), mode(["--clear", "mode"])), (json!("plan"), Value::Null));
        assert_eq!((&shown["title"], &shown["state"]), (&json!("Mend the roof, please"), &json!("idle")));
        assert_eq!(home.run(["sessions", "set", "notes", "--clear", "instructions"]).code, Some(0));
        let shown: Value =
            serde_json::from_str(&home.run(["sessions", "show", "notes", "--json"]).stdout).expect("JSON");
        assert!(shown["options"]["instructions"].is_null() && shown["options"]["cwd"].is_string(), "{shown}");
        for bad in [&["notes"][..], &["nobody", "--model", "a:b"], &["notes", "--cwd", ".."]] {
            let args: Vec<_> = ["sessions", "set"].iter().chain(bad).copied().collect();
            assert_eq!(home.run(args).code, Some(2), "{bad:?}");
        }
    }
}
