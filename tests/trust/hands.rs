//! Local tools do not write files that govern the agent.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::trust::found::{Found, scripted};

/// Runs a turn in which the model makes this call, with everything approved that can be; the entry of its transcript.
#[track_caller]
fn called(found: &Found, tool: &str, arguments: &Value) -> Value {
    called_with_cache(found, found.scratch.join("cache"), tool, arguments)
}

#[track_caller]
fn called_with_cache(found: &Found, cache: PathBuf, tool: &str, arguments: &Value) -> Value {
    found.script(tool, arguments);
    let run = found.program(["--config", "agent.toml", "run", "--mode", "auto", "--output", "json", "hi"]);
    let run = run.env("XDG_CACHE_HOME", cache).run();
    let line: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"));
    line["tool_transcript"][0].clone()
}

#[test]
fn g18_a_model_cannot_switch_its_own_approvals_off() {
    let config = scripted("[policy]\ndeny_tools = []\n");
    let found = Found::with(&config);
    for (tool, arguments) in [
        ("local/edit_file", json!({"path": "agent.toml", "old": "deny_tools = []", "new": "deny_commands = []"})),
        ("local/write_file", json!({"path": "./x/../agent.toml", "content": ""})),
        ("local/write_file", json!({"path": ".git/hooks/pre-commit", "content": "x"})),
        ("local/write_file", json!({"path": "MEMORY.md", "content": "x"})),
        ("local/write_file", json!({"path": "s.json", "content": "x"})),
        ("local/write_file", json!({"path": ".bob/sessions.db", "content": ""})),
    ] {
        let entry = called(&found, tool, &arguments);
        let why = entry["result"].to_string();
        assert!(entry["status"] == "denied" && why.contains("governs the agent"), "{arguments}: {entry}");
    }
    assert_eq!(found.scratch.read("folder/agent.toml"), config);
    assert!(!found.is_there("folder/.git") && !found.is_there("folder/MEMORY.md") && !found.is_there("folder/x"));
    let sessions = found.named(["sessions", "list"]);
    assert!(sessions.code == Some(0) && sessions.stdout.lines().count() == 6, "all are there: {sessions:?}");
    let entry = called(&found, "local/write_file", &json!({"path": "src/new.rs", "content": "x"}));
    assert_eq!(entry["status"], "ok", "{entry}");
}

#[test]
fn a_model_sees_neither_secrets_nor_what_the_agent_keeps() {
    let found = Found::with(&scripted(""));
    found.scratch.write("folder/.env", "KEY=plan-secret\n");
    found.scratch.write("folder/.bob/chat_history", "plan-typed\n");
    found.scratch.write("folder/src/a.rs", "// the plan-code\n");
    let hits = called(&found, "local/search_files", &json!({"pattern": "plan-"}))["result"].to_string();
    assert!(hits.contains("plan-code") && !hits.contains("plan-secret") && !hits.contains("plan-typed"), "{hits}");
    for (tool, arguments, says) in [
        ("local/read_file", json!({"path": ".env"}), "secrets"),
        ("local/read_file", json!({"path": ".bob/chat_history"}), "agent's own"),
        ("local/list_dir", json!({"path": ".bob"}), "agent's own"),
        ("local/search_files", json!({"path": ".bob", "pattern": "plan"}), "agent's own"),
    ] {
        let entry = called(&found, tool, &arguments);
        let why = entry["result"].to_string();
        assert!(entry["status"] == "denied" && why.contains(says), "{arguments}: {entry}");
        assert!(!why.contains("plan-"), "{entry}");
    }
    found.configure(&scripted("[policy]\nsecret_files = [\"*.rs\"]\n"));
    assert_eq!(called(&found, "local/read_file", &json!({"path": ".env"}))["status"], "ok", "the list is one's own");
    assert_eq!(called(&found, "local/read_file", &json!({"path": "src/a.rs"}))["status"], "denied");
    fs::remove_dir_all(found.folder().join(".bob")).expect("it was a folder");
}

#[test]
fn what_the_agent_keeps_in_the_home_is_neither_read_nor_written() {
    let found = Found::with(&scripted("[policy]\nworkspace = \"${HOME}\"\n"));
    found.scratch.write("home/.cache/bob/models.json", "{}");
    let called = |tool, arguments: &_| called_with_cache(&found, found.scratch.join("home/.cache"), tool, arguments);
    for (tool, arguments, says) in [
        ("local/read_file", json!({"path": ".cache/bob/models.json"}), "agent's own"),
        ("local/write_file", json!({"path": ".cache/bob/models.json", "content": "cheap"}), "governs the agent"),
        ("local/write_file", json!({"path": ".cache/bob/.tools/bin/x", "content": "#!/bin/sh"}), "governs the agent"),
    ] {
        let entry = called(tool, &arguments);
        let why = entry["result"].to_string();
        assert!(entry["status"] == "denied" && why.contains(says), "{arguments}: {entry}");
    }
    assert_eq!(found.scratch.read("home/.cache/bob/models.json"), "{}");
    assert!(!found.is_there("home/.cache/bob/.tools"));
    let entry = called("local/write_file", &json!({"path": ".cache/other", "content": "x"}));
    assert_eq!(entry["status"], "ok", "the cache of other programs: {entry}");
}

/// The calls of a step are judged before the first of them runs, and that one may lead the path of another elsewhere.
#[test]
fn a_path_that_a_call_of_the_same_step_leads_to_a_file_that_governs_is_not_written() {
    let rules = "[policy]\nallow = [\"local/shell_exec(ln -s *)\", \"local/write_file(ok/**)\"]\n\
                 ask = [\"local/write_file(asked/**)\"]\ndeny = [\"local/write_file(kept/**)\"]\n";
    let config = scripted(rules);
    let found = Found::with(&config);
    for folder in ["folder/.git/hooks", "folder/kept", "folder/asked", "folder/ok"] {
        found.scratch.folder(folder);
    }
    let link = |to: &str, name: &str| json!({"name": "local/shell_exec", "arguments": {"command": format!("ln -s {to} {name}")}});
    let write = |path: &str| json!({"name": "local/write_file", "arguments": {"path": path, "content": "OWNED"}});
    let calls = [
        (link(".git/hooks", "hh"), "ok"),
        (link("agent.toml", "zz"), "ok"),
        (link("kept", "k"), "ok"),
        (link("asked", "a"), "ok"),
        (link("../asked", "ok/a"), "ok"),
        (write("hh/pre-commit"), "error"),
        (write("zz"), "error"),
        (write("k/new.txt"), "denied"),
        (write("a/new.txt"), "error"),
        (write("ok/a/new.txt"), "error"),
        (write("ok/plain.txt"), "ok"),
        (write("plain.txt"), "ok"),
    ];
    let script: Vec<&Value> = calls.iter().map(|(call, _)| call).collect();
    found.scratch.write("folder/s.json", json!([{"replies": [{"calls": script}, {"text": "done"}]}]).to_string());
    for mode in ["edits", "auto"] {
        let run = found.named(["run", "--mode", mode, "--output", "json", "hi"]);
        let line: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"));
        let entries = line["tool_transcript"].as_array().expect("a list");
        assert_eq!(entries.len(), calls.len(), "{line}");
        for (entry, (call, status)) in entries.iter().zip(&calls) {
            assert_eq!(entry["status"], *status, "{mode}: {call}: {entry}");
        }
        assert!(entries[6]["result"].to_string().contains("governs the agent"), "{line}");
        assert!(entries[8]["result"].to_string().contains("no rule allows unasked"), "{line}");
        assert_eq!(found.scratch.read("folder/agent.toml"), config);
        for written in [".git/hooks/pre-commit", "kept/new.txt", "asked/new.txt"] {
            assert!(!found.is_there(&format!("folder/{written}")), "{mode}: {written}");
        }
        assert_eq!(found.scratch.read("folder/plain.txt"), "OWNED");
        ["hh", "zz", "k", "a", "ok/a"]
            .iter()
            .for_each(|name| fs::remove_file(found.folder().join(name)).expect("a link"));
    }
}
