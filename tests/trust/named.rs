//! A named configuration is trusted, and one line shows its changes since the last use.

use serde_json::json;

use crate::trust::found::{Found, scripted};

#[test]
fn a_named_configuration_was_decided_about() {
    let found = Found::with(&scripted("[policy]\nworkspace = \"..\"\n"));
    found.script("local/list_dir", &json!({}));
    let run = found.named(["run", "hi"]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "done"), "{run:?}");
    assert!(!run.stderr.contains("note:"), "nothing is known of an earlier use: {run:?}");
}

#[test]
fn what_a_named_configuration_does_now_and_did_not_before_is_told_once_in_one_line() {
    let found = Found::with(&scripted(""));
    found.script("local/list_dir", &json!({}));
    let notes = |run: &crate::support::program::Run| {
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stderr.lines().filter(|line| line.starts_with("note:")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(notes(&found.named(["run", "hi"])), [] as [&str; 0]);
    assert_eq!(notes(&found.named(["run", "hi"])), [] as [&str; 0]);
    found.configure(&scripted(
        "[[mcp.servers]]\nid = \"x\"\ncommand = \"true\"\nstart = \"lazy\"\n[policy]\nrequire_high_risk_approval = false\n",
    ));
    let told = notes(&found.named(["tools"]));
    let says = |part: &str| told.iter().any(|line| line.contains(part));
    assert!(told.len() == 1 && says("starts the tool server x") && says("high risk"), "{told:?}");
    assert_eq!(notes(&found.named(["run", "hi"])), [] as [&str; 0], "it is told once");
    found.configure(&scripted(""));
    let told = notes(&found.named(["run", "hi"]));
    assert!(told.len() == 1 && told[0].contains("no longer: the tool server x"), "{told:?}");
}

#[test]
fn a_hook_that_changed_is_told() {
    let hook = |name: &str| scripted(&format!("[hooks.guard]\non = \"before_call\"\ncommand = \"{name}\"\n"));
    let found = Found::with(&hook("true"));
    found.script("local/list_dir", &json!({}));
    assert_eq!(found.named(["run", "hi"]).code, Some(0));
    found.configure(&hook("false"));
    let run = found.named(["tools"]);
    let told: Vec<_> = run.stderr.lines().filter(|line| line.starts_with("note:")).collect();
    assert!(told.len() == 1 && told[0].contains("changed: the hook guard, before calls of tools"), "{run:?}");
}

#[test]
fn what_needs_no_trust_is_not_told() {
    let found = Found::with(&scripted(""));
    found.script("local/list_dir", &json!({}));
    assert_eq!(found.named(["run", "hi"]).code, Some(0));
    found.configure(&scripted("[log]\nlevel = \"error\"\n"));
    let run = found.named(["run", "hi"]);
    assert!(run.code == Some(0) && !run.stderr.contains("changed"), "{run:?}");
}

#[test]
fn a_value_that_changed_is_told_by_its_name() {
    let server = |value: &str| {
        scripted(&format!(
            "[[mcp.servers]]\nid = \"x\"\ncommand = \"true\"\nstart = \"lazy\"\nenv = {{ PROBE = \"{value}\" }}\n"
        ))
    };
    let found = Found::with(&server("canary-one"));
    found.script("local/list_dir", &json!({}));
    assert_eq!(found.named(["run", "hi"]).code, Some(0));
    found.configure(&server("canary-two"));
    let run = found.named(["run", "hi"]);
    let told: Vec<_> = run.stderr.lines().filter(|line| line.starts_with("note:")).collect();
    let says = "changed: the tool server x (another value of PROBE)";
    assert!(told.len() == 1 && told[0].contains(says) && !told[0].contains("canary"), "{run:?}");
}
