//! `approvals`: lasting decisions are listed and revoked.

use serde_json::{Value, json};

use crate::home::Home;
use crate::support::program::Run;

/// A model that has a line run by the shell, and then is done; `log.txt` has a line for each run.
fn home() -> Home {
    let call = json!({ "calls": [{ "name": "local/shell_exec", "arguments": { "command": "echo ran >> log.txt" } }] });
    let home = Home::with(
        "default_model = \"demo:one\"",
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n",
    );
    home.scratch.write("s.json", json!([{ "replies": [call, { "text": "It is done." }] }]).to_string());
    home
}

fn times_run(home: &Home) -> usize {
    std::fs::read_to_string(home.scratch.join("log.txt")).map_or(0, |log| log.lines().count())
}

/// A turn whose call needs a person: its exit code, and the token if it waits.
fn go(home: &Home, session: &str) -> (Option<i32>, String) {
    let (code, line) = home.json(["--session", session, "--approvals", "suspend", "go"]);
    (code, line["token"].as_str().unwrap_or_default().to_owned())
}

#[track_caller]
fn decided(home: &Home) -> Vec<Value> {
    let run = home.run(["approvals", "list", "--json"]);
    let list: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"));
    list["decisions"].as_array().expect("decisions").clone()
}

#[track_caller]
fn refused(run: &Run, why: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.stderr.contains(why), "{}", run.stderr);
}

#[test]
fn where_always_is_not_offered_no_hint_names_it_and_no_reply_is_it() {
    let home = home();
    let listed = home.run(["config", "get", "policy.offer_always"]);
    assert_eq!((listed.code, listed.stdout.trim()), (Some(0), "true"), "{listed:?}");
    let config = home.scratch.read("agent.toml").replace("[policy]\n", "[policy]\noffer_always = false\n");
    home.scratch.agent_toml(&config);
    let suspended = home.run(["run", "--session", "s", "--approvals", "suspend", "go"]);
    assert_eq!(suspended.code, Some(4), "{suspended:?}");
    let hint = "allow, or allow-session, deny REASON, edit JSON]";
    assert!(suspended.stderr.contains(hint), "{}", suspended.stderr);
    let (code, token) = go(&home, "t");
    assert_eq!(code, Some(4));
    for reply in ["always", "deny-always no"] {
        let run = home.run(["resume", token.as_str(), reply]);
        refused(&run, "is not offered here (policy.offer_always = false); nothing was decided");
    }
    assert_eq!(home.run(["resume", token.as_str(), "allow"]).code, Some(0));
    assert_eq!((times_run(&home), decided(&home).len()), (1, 0));
    let json = home.run(["run", "--output", "json", "--session", "u", "--approvals", "suspend", "go"]);
    assert!(json.stderr.contains(hint), "{}", json.stderr);
}

#[test]
fn what_was_allowed_for_good_is_listed_and_asked_about_again_once_it_is_taken_back() {
    let home = home();
    let none = home.run(["approvals", "list"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
    assert!(none.stderr.contains("no lasting decisions for "), "{}", none.stderr);

    let (code, token) = go(&home, "first");
    assert_eq!(code, Some(4));
    assert_eq!(home.run(["resume", token.as_str(), "always"]).code, Some(0));
    assert_eq!((go(&home, "second").0, times_run(&home)), (Some(0), 2), "nobody is asked");

    let list = decided(&home);
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!((&list[0]["decision"], &list[0]["tool"]), (&json!("allow"), &json!("local/shell_exec")));
    assert_eq!(list[0]["arguments"], json!({ "command": "echo ran >> log.txt" }));
    assert!(list[0]["decided_at"].as_i64().is_some_and(|at| at > 1_600_000_000_000), "{list:?}");
    let id = list[0]["id"].as_str().expect("an id").to_owned();
    let text = home.run(["approvals", "list"]).stdout;
    assert!(text.starts_with(&format!("{id}  allow  2")) && text.contains("  local/shell_exec  exactly {"), "{text}");
    assert!(!text.trim_end().contains('\n'), "{text}");

    // One that is not there takes none back, not even those beside it.
    refused(&home.run(["approvals", "revoke", id.as_str(), "nonsense"]), "there is no decision nonsense");
    assert_eq!(decided(&home).len(), 1);
    let run = home.run(["approvals", "revoke", id.as_str()]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{run:?}");
    assert!(run.stderr.contains(&format!("revoked: {id}  allow")), "{}", run.stderr);
    assert!(decided(&home).is_empty());
    refused(&home.run(["approvals", "revoke", id.as_str()]), "`cli-agent approvals list` lists them");

    // In other sessions, and in the one whose journal still has the decision.
    for session in ["third", "second", "first"] {
        assert_eq!((go(&home, session).0, times_run(&home)), (Some(4), 2), "{session}");
    }
}

#[test]
fn what_is_taken_back_can_be_decided_anew_and_for_the_session_alone() {
    let home = home();
    let (_, token) = go(&home, "s");
    assert_eq!(home.run(["resume", token.as_str(), "deny-always", "never"]).code, Some(0));
    let list = decided(&home);
    assert_eq!((&list[0]["decision"], &list[0]["reason"]), (&json!("deny"), &json!("never")), "{list:?}");
    let revoke = || {
        let list = decided(&home);
        let id = list[0]["id"].as_str().expect("an id").to_owned();
        let run = home.run(["approvals", "revoke", "--json", id.as_str()]);
        assert_eq!(run.stdout, format!("{{\"revoked\":[\"{id}\"]}}\n"), "{run:?}");
    };
    revoke();
    let (code, token) = go(&home, "s");
    assert_eq!((code, times_run(&home)), (Some(4), 0), "it is asked about again");
    assert_eq!(home.run(["resume", token.as_str(), "always"]).code, Some(0));
    assert_eq!((go(&home, "s").0, go(&home, "t").0, times_run(&home)), (Some(0), Some(0), 3));
    revoke();
    let (code, token) = go(&home, "s");
    assert_eq!((code, times_run(&home)), (Some(4), 3));
    assert_eq!(home.run(["resume", token.as_str(), "allow-session"]).code, Some(0));
    assert_eq!((go(&home, "s").0, go(&home, "t").0, times_run(&home)), (Some(0), Some(4), 5), "for this session");
    assert!(decided(&home).is_empty());
}

#[test]
fn a_decision_for_a_session_does_not_apply_to_a_copy_of_it() {
    let home = home();
    let (_, token) = go(&home, "s");
    assert_eq!(home.run(["resume", token.as_str(), "allow-session"]).code, Some(0));
    assert_eq!((go(&home, "s").0, times_run(&home)), (Some(0), 2));
    let copies = [&["sessions", "fork", "s"][..], &["sessions", "rewind", "s", "--to", "1", "--only", "conversation"]];
    for copy in copies {
        let copy = home.run(copy.iter().copied());
        assert_eq!((go(&home, copy.stdout.trim()).0, times_run(&home)), (Some(4), 2), "{copy:?}");
    }
}

#[test]
fn a_memory_that_cannot_be_read_is_no_empty_one() {
    let home = home();
    home.scratch.write("state/bob/approvals.jsonl/in-the-way", "");
    refused(&home.run(["approvals", "list"]), "cannot read ");
    refused(&home.run(["approvals", "revoke", "12345678"]), "cannot read ");
}
