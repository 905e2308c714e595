//! The permission modes through the program: what runs, what asks and what is denied, against the contract.

use serde_json::{Value, json};

use crate::home::Home;

const MODES: [&str; 4] = ["plan", "ask", "edits", "auto"];

/// What the contract says of a call that no rule and no decision is about.
fn contract(mode: &str, risk: &str, is_own_edit: bool) -> &'static str {
    match (mode, risk) {
        (_, "low") | ("auto", _) => "runs",
        ("plan", _) => "denied",
        ("edits", "medium") if is_own_edit => "runs",
        _ => "asks",
    }
}

/// Calls of local tools that work in the folder of a test. A tool that is added needs a call here.
fn call(tool: &str) -> Option<Value> {
    Some(match tool {
        "local/read_file" => json!({ "path": "a.txt" }),
        "local/list_dir" => json!({ "path": "." }),
        "local/search_files" => json!({ "pattern": "text" }),
        "local/write_file" => json!({ "path": "new.txt", "content": "x" }),
        "local/edit_file" => json!({ "path": "a.txt", "old": "text", "new": "words" }),
        "local/shell_exec" => json!({ "command": "echo ran" }),
        "local/find_files" => json!({ "pattern": "*.txt" }),
        "local/todo" => json!({ "items": [{ "text": "look", "state": "active" }] }),
        _ => return None,
    })
}

fn home(tool: &str, policy: &str) -> Home {
    let arguments = call(tool).unwrap_or_default();
    let script = json!([{ "replies": [{ "calls": [{ "name": tool, "arguments": arguments }] }, { "text": "Done." }] }]);
    let tables =
        format!("[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n{policy}");
    let home = Home::with("default_model = \"demo:one\"", &tables);
    home.scratch.write("s.json", script.to_string());
    home.scratch.write("a.txt", "a text\n");
    home
}

/// What became of the call: with questions put off, and without.
fn seen(home: &Home, mode: &[&str]) -> &'static str {
    let args = |how: &'static str| [mode, &["--approvals", how, "go"]].concat();
    let (code, put_off) = home.json(args("suspend"));
    if code == Some(4) {
        let (_, denied) = home.json(args("deny"));
        assert_eq!(denied["tool_transcript"][0]["status"], "denied", "without a person to ask: {denied}");
        assert_eq!(denied["denied"].as_array().map(Vec::len), Some(1), "it is listed: {denied}");
        return "asks";
    }
    match put_off["tool_transcript"][0]["status"].as_str() {
        Some("ok") => "runs",
        Some("denied") => {
            assert!(put_off["denied"][0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{put_off}");
            "denied"
        }
        other => panic!("{other:?}: {put_off}"),
    }
}

#[test]
fn each_tool_in_each_mode_does_what_the_contract_says() {
    let listed = home("local/list_dir", "").run(["tools", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|why| panic!("{why}: {listed:?}"));
    let mut table = Vec::new();
    for tool in listed["tools"].as_array().expect("a list of tools") {
        let (name, risk) = (tool["name"].as_str().unwrap_or_default(), tool["risk"].as_str().unwrap_or_default());
        if call(name).is_none() {
            continue;
        }
        let is_own_edit = tool["kind"] == "edit" && name.starts_with("local/");
        for mode in MODES {
            let wanted = contract(mode, risk, is_own_edit);
            table.push((name.to_owned(), mode, wanted, seen(&home(name, ""), &["--mode", mode])));
        }
    }
    assert!(table.len() >= 6 * MODES.len(), "{table:?}");
    for (tool, mode, wanted, seen) in &table {
        assert_eq!(seen, wanted, "{tool} in {mode}, of {table:#?}");
    }
    for wanted in ["runs", "asks", "denied"] {
        assert!(table.iter().any(|row| row.2 == wanted), "the table has {wanted}: {table:?}");
    }
}

#[test]
fn the_mode_is_ask_and_the_configuration_may_name_another() {
    let write = "local/write_file";
    assert_eq!(seen(&home(write, ""), &[]), "asks");
    assert_eq!(seen(&home(write, "mode = \"plan\"\n"), &[]), "denied");
    assert_eq!(seen(&home(write, "mode = \"edits\"\n"), &[]), "runs");
    assert_eq!(seen(&home(write, "mode = \"edits\"\n"), &["--mode", "ask"]), "asks", "the command line counts");
    assert_eq!(seen(&home(write, "require_high_risk_approval = false\n"), &[]), "runs");
    assert_eq!(seen(&home(write, "require_high_risk_approval = false\n"), &["--mode", "ask"]), "asks");
}

#[test]
fn rules_over_calls_are_kept_and_deny_beats_ask_beats_allow() {
    let shell = "local/shell_exec";
    for (policy, mode, wanted) in [
        ("allow = [\"local/shell_exec(echo *)\"]\n", "ask", "runs"),
        ("allow = [\"local/shell_exec(echo *)\"]\n", "plan", "denied"),
        ("allow = [\"local/shell_exec(git *)\"]\n", "ask", "asks"),
        ("allow = [\"local/shell_exec\"]\nask = [\"local/shell_exec(echo ran)\"]\n", "auto", "asks"),
        ("allow = [\"local/shell_exec\"]\nask = [\"local/*\"]\ndeny = [\"local/*(echo *)\"]\n", "auto", "denied"),
    ] {
        assert_eq!(seen(&home(shell, policy), &["--mode", mode]), wanted, "{policy} in {mode}");
    }
    let edits = "allow = [\"local/write_file(*.txt)\"]\nask = [\"local/edit_file\"]\n";
    assert_eq!(seen(&home("local/write_file", edits), &[]), "runs");
    assert_eq!(seen(&home("local/edit_file", edits), &["--mode", "auto"]), "asks");
    assert_eq!(seen(&home("local/read_file", "deny = [\"local/read_file(a*)\"]\n"), &[]), "denied");
    let listed = home("local/list_dir", "deny = [\"local/read_file\"]\n").run(["tools"]);
    assert!(!listed.stdout.contains("local/read_file") && listed.stdout.contains("local/list_dir"), "{listed:?}");
    let bad = home("local/list_dir", "allow = [\"local/shell_exec(git *\"]\n").run(["tools"]);
    assert!(bad.code == Some(2) && bad.stderr.contains("local/shell_exec(git *)"), "it says how: {bad:?}");
}

/// A model that makes one call, in a folder whose configuration says nothing of the policy.
fn unconfigured(tool: &str, arguments: &Value) -> Home {
    let call = json!({ "calls": [{ "name": tool, "arguments": arguments }] });
    let home = Home::scripted(&json!([{ "replies": [call, { "text": "Done." }] }]));
    home.scratch.write("a.txt", "a text\n");
    home
}

#[test]
fn the_shell_asks_where_nothing_is_configured() {
    let home = unconfigured("local/shell_exec", &json!({ "command": "echo ran" }));
    assert_eq!(seen(&home, &[]), "asks");
    assert_eq!(seen(&home, &["--mode", "edits"]), "asks");
    assert_eq!(seen(&home, &["--mode", "plan"]), "denied");
    assert_eq!(seen(&home, &["--mode", "auto"]), "runs");
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&config.replace("[runtime]\n", "[runtime]\nprofile = \"strict\"\n"));
    let listed = home.run(["tools"]);
    assert!(listed.stdout.contains("local/list_dir") && !listed.stdout.contains("local/shell_exec"), "{listed:?}");
    assert_eq!(seen(&home, &["--mode", "auto"]), "denied");
}

#[test]
fn removing_a_file_asks_in_every_mode_and_runs_after_a_yes() {
    let home = unconfigured("local/shell_exec", &json!({ "command": "rm a.txt" }));
    for mode in ["ask", "edits", "auto"] {
        assert_eq!(seen(&home, &["--mode", mode]), "asks", "{mode}");
    }
    let (code, asked) = home.json(["--mode", "auto", "--approvals", "suspend", "go"]);
    assert_eq!(code, Some(4), "{asked}");
    assert_eq!(home.scratch.read("a.txt"), "a text\n");
    let run = home.run(["resume", asked["token"].as_str().unwrap_or_default(), "allow"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!home.scratch.join("a.txt").exists());
    let privileged = unconfigured("local/shell_exec", &json!({ "command": "sudo rm a.txt" }));
    assert_eq!(seen(&privileged, &["--mode", "auto"]), "denied");
}
