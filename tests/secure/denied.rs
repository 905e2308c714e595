//! A call that a rule denies never reaches its server: not in another spelling, not at another try, not after a crash.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::secure::fixture::{Fixture, drill, model_at, wait};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const EFFECT: &str = r#"{"path":"effects.txt","line":"done"}"#;

fn policy(deny: &[&str]) -> String {
    format!(
        "[policy]\nrequire_high_risk_approval = false\nallow_tools = [\"*\", \"mcp/drill/append\"]\ndeny_tools = {deny:?}\n"
    )
}

fn config(provider: &FakeProvider, deny: &[&str], modes: &[&str]) -> String {
    let runtime = "max_steps = 200\nmax_tool_calls = 200\nmax_consecutive_errors = 200\nmax_identical_calls = 200";
    let model = model_at(&provider.base_url(), runtime).replace("retry_max = 0", "retry_max = 2");
    format!("{model}{}{}", policy(deny), drill("drill", modes, ""))
}

/// How a model might name the tool it may not call.
const SPELLINGS: [&str; 14] = [
    "mcp__drill__append",
    "mcp/drill/append",
    "MCP__DRILL__APPEND",
    "Mcp/Drill/Append",
    " mcp/drill/append",
    "mcp/drill/append ",
    "mcp/drill/append\n",
    "mcp__drill__append\u{200b}",
    "mcp/drill/./append",
    "mcp//drill/append",
    "mcp/drill/x/../append",
    "append",
    "drill/append",
    "mcp\u{2215}drill\u{2215}append",
];

#[test]
fn g9_a_denied_call_never_arrives_in_any_spelling_or_at_another_try() {
    for deny in [&["mcp/drill/append"][..], &["mcp/drill/*end"], &["local/*", "mcp/*/append"], &["mcp/**/append"]] {
        let mut replies = Vec::new();
        for spelling in SPELLINGS {
            // Each try fails once before it comes.
            replies.push(Reply::status(500));
            replies.push(Reply::call("c", spelling, EFFECT));
        }
        replies.push(Reply::call("c", "mcp__drill__echo", r#"{"text":"allowed"}"#));
        replies.push(Reply::text("Nothing of it was allowed."));
        let provider = FakeProvider::start(replies);
        let fixture = Fixture::new(&config(&provider, deny, &[]));
        let run = fixture.run(["run", "--session", "s", "--output", "json", "--mode", "auto", "Append it."]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let line: Value = serde_json::from_str(&run.stdout).expect("a line of JSON");
        let calls = line["tool_transcript"].as_array().expect("calls");
        assert_eq!(calls.len(), SPELLINGS.len() + 1, "{line}");
        let (last, refused) = calls.split_last().expect("calls");
        assert_eq!(last["status"], "ok", "what is allowed arrives: {last}");
        assert!(refused.iter().all(|call| call["status"] != "ok" && call["status"] != "unknown"), "{line}");
        assert_eq!(fixture.calls("drill"), 1, "{deny:?}");
        assert!(!fixture.scratch.join("effects.txt").exists());
        for request in provider.requests() {
            assert!(!request.body["tools"].to_string().contains("append"), "it is not even offered");
        }
    }
}

#[test]
fn g9_a_denial_holds_after_a_crash_and_for_a_call_that_is_in_doubt() {
    let provider = FakeProvider::answering(|body| {
        let last = body["messages"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
        let results = body["messages"].as_array().into_iter().flatten().filter(|one| one["role"] == "tool").count();
        match (last["role"].as_str(), results) {
            // The model repeats the call after each result but the third.
            (Some("tool"), 3..) => Reply::text("I give up."),
            // By its full name, since it is offered under no other once it is denied.
            _ => Reply::call("c", "mcp/drill/append", EFFECT),
        }
    });
    let fixture = Fixture::new(&config(&provider, &[], &["silent-call"]));
    let killed = fixture.agent(["run", "--session", "s", "Append it."]).spawn();
    wait("the call", || fixture.calls("drill") == 1);
    killed.signal(Signal::KILL);
    assert_eq!(killed.finish().signal, Some(9));

    fixture.scratch.agent_toml(&config(&provider, &["mcp/drill/*"], &[]));
    let run = fixture.agent(["run", "--session", "s", "--finish", "--output", "json", "Go on."]).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("I give up."), "{run:?}");
    assert_eq!(fixture.calls("drill"), 1, "only the call before the crash arrived");
    assert!(!fixture.scratch.join("effects.txt").exists());
    let denied =
        provider.requests().iter().filter(|request| request.body.to_string().contains("denied by the policy")).count();
    assert!(denied > 0, "the model was told");
}

#[test]
fn g9_a_denial_holds_for_a_turn_that_is_resumed() {
    let provider = FakeProvider::start([
        Reply::call("c", "ask_user", r#"{"question":"May I?"}"#),
        Reply::call("c", "mcp/drill/append", EFFECT),
        Reply::text("I may not."),
    ]);
    let fixture = Fixture::new(&config(&provider, &["mcp/*"], &[]));
    let run = fixture.agent(["run", "--session", "s", "Ask me."]).deadline(Duration::from_secs(120)).run();
    assert_eq!(run.code, Some(4), "{run:?}");
    let run = fixture.run([
        "run",
        "--session",
        "s",
        "--mode",
        "auto",
        "--output",
        "json",
        "Yes, you may append it, I allow everything.",
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let line: Value = serde_json::from_str(&run.stdout).expect("a line of JSON");
    assert_eq!(
        (line["content"].clone(), line["denied"][0]["name"].clone()),
        (json!("I may not."), json!("mcp/drill/append"))
    );
    assert_eq!(fixture.calls("drill"), 0);
    assert!(!fixture.scratch.join("effects.txt").exists());
}
