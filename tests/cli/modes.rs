//! The permission modes through the program: what runs, what asks and what is denied, against the contract.

use serde_json::{Value, json};

use crate::home::{AGENT, Home};

const MODES: [&str; 4] = ["plan", "ask", "edits", "auto"];

/// The table of docs/approvals.md with this head: its rows, each by its first cell.
fn documented(head: &str) -> Vec<Vec<String>> {
    let page = include_str!("../../docs/approvals.md");
    let table =
        page.lines().skip_while(|line| !line.starts_with(head)).skip(2).take_while(|line| line.starts_with('|'));
    let rows = table.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect());
    let rows: Vec<Vec<String>> = rows.collect();
    assert_eq!(rows.len(), MODES.len(), "{head}: {rows:?}");
    rows
}

/// What the contract says of a call of this tool that no rule and no decision is about.
fn contract(rows: &[Vec<String>], mode: &str, risk: &str, tool: &str) -> &'static str {
    let row = rows.iter().find(|row| row[0].starts_with(&format!("`{mode}`"))).expect("a row for each mode");
    let cell = &row[1 + ["low", "medium", "high"].iter().position(|known| *known == risk).expect("a risk")];
    match cell.as_str() {
        "runs" => "runs",
        "denied" => "denied",
        "asks" => "asks",
        named if named.ends_with("the rest asks") => {
            if named.contains(&format!("`{tool}`")) {
                "runs"
            } else {
                "asks"
            }
        }
        other => panic!("{other:?} says nothing of {tool}"),
    }
}

/// What the page says of each tool in each mode.
fn of_tools() -> Vec<(String, &'static str, String)> {
    let page = include_str!("../../docs/approvals.md");
    let rows =
        page.lines().skip_while(|line| !line.starts_with("| tool | `plan` | `ask` | `edits` | `auto` |")).skip(2);
    let mut all = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        for tool in cells[0].split('`').skip(1).step_by(2) {
            let tool = if tool == "agent/ID" { "agent/helper" } else { tool };
            all.extend(MODES.iter().zip(&cells[1..]).map(|(mode, cell)| (tool.to_owned(), *mode, (*cell).to_owned())));
        }
    }
    all
}

/// A call of each tool. A tool that is added needs one here.
fn call(tool: &str) -> Value {
    match tool {
        "local/read_file" => json!({ "path": "a.txt" }),
        "local/list_dir" => json!({ "path": "." }),
        "local/search_files" => json!({ "pattern": "text" }),
        "local/write_file" => json!({ "path": "new.txt", "content": "x" }),
        "local/edit_file" => json!({ "path": "a.txt", "old": "text", "new": "words" }),
        "local/shell_exec" => json!({ "command": "echo ran" }),
        "local/find_files" => json!({ "pattern": "*.txt" }),
        "local/todo" => json!({ "items": [{ "text": "look", "state": "active" }] }),
        // They run, and say that there is no such thing.
        "local/shell_output" | "local/shell_stop" => json!({ "id": 1 }),
        "local/read_artifact" => json!({ "id": "none" }),
        // A private address, which is refused without a connection.
        "local/web_fetch" => json!({ "url": "http://127.0.0.1:9/" }),
        "local/use_skill" => json!({ "name": "painting" }),
        "agent/helper" => json!({ "task": "part" }),
        "mcp/x/echo" => json!({ "text": "hello" }),
        other => panic!("{other} needs a call here, so that it is tried in each mode"),
    }
}

/// One that offers all tools there are.
fn home(tool: &str, policy: &str) -> Home {
    let call = json!({ "calls": [{ "name": tool, "arguments": call(tool) }] });
    let script = json!([{ "when": "part", "replies": [{ "text": "A part." }] },
                        { "replies": [call, { "text": "Done." }] }]);
    let tables = format!(
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\nweb_fetch = true\n{policy}\
         [[subagents]]\nid = \"helper\"\ndescription = \"Helps.\"\n"
    );
    let home = Home::with("default_model = \"demo:one\"", &tables);
    home.scratch.write("s.json", script.to_string());
    home.scratch.write("a.txt", "a text\n");
    home
}

/// Adds a tool server, and a folder of skills.
fn with_more(home: &Home) {
    let more = format!(
        "[[skills.sources]]\npath = \"skills\"\n[[mcp.servers]]\nid = \"x\"\ncommand = \"{AGENT}\"\nargs = [\"drill-server\"]\n"
    );
    home.scratch.agent_toml(&(home.scratch.read("agent.toml") + &more));
    home.scratch
        .write("skills/painting/SKILL.md", "---\nname: painting\ndescription: How to paint.\n---\nWith a brush.\n");
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
        // It ran, and its own work failed.
        Some("ok" | "error") => "runs",
        Some("denied") => {
            assert!(put_off["denied"][0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{put_off}");
            "denied"
        }
        other => panic!("{other:?}: {put_off}"),
    }
}

#[test]
fn each_tool_in_each_mode_does_what_the_page_says() {
    let all = home("local/list_dir", "");
    with_more(&all);
    let listed = all.run(["tools", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|why| panic!("{why}: {listed:?}"));
    let rows = documented("| mode | low | medium | high |");
    let mut table = Vec::new();
    for tool in listed["tools"].as_array().expect("a list of tools") {
        let (name, risk) = (tool["name"].as_str().unwrap_or_default(), tool["risk"].as_str().unwrap_or_default());
        // One tool of a server stands for all of them.
        if name.starts_with("mcp/") && name != "mcp/x/echo" {
            continue;
        }
        for mode in MODES {
            let home = home(name, "");
            if name.starts_with("mcp/") || name == "local/use_skill" {
                with_more(&home);
            }
            table.push((name.to_owned(), mode, contract(&rows, mode, risk, name), seen(&home, &["--mode", mode])));
        }
    }
    for (tool, mode, wanted, seen) in &table {
        assert_eq!(seen, wanted, "{tool} in {mode}, of {table:#?}");
    }
    let mut own: Vec<_> = table.iter().filter(|row| !row.0.starts_with("mcp/")).collect();
    own.sort_by_key(|row| row.0.clone());
    let own: Vec<_> = own.into_iter().map(|(tool, mode, _, seen)| (tool.clone(), *mode, (*seen).to_owned())).collect();
    let mut told = of_tools();
    told.sort_by_key(|row| row.0.clone());
    assert_eq!(own, told, "what was seen, and what the page says of each tool");
    for tool in ["local/shell_stop", "local/web_fetch", "local/use_skill", "agent/helper", "mcp/x/echo"] {
        assert!(table.iter().any(|row| row.0 == tool), "{tool} is tried: {table:#?}");
    }
    for wanted in ["runs", "asks", "denied"] {
        assert!(table.iter().any(|row| row.2 == wanted), "the table has {wanted}: {table:?}");
    }
}

#[test]
fn without_a_person_run_and_batch_do_what_the_page_says() {
    let tools = ["local/read_file", "local/write_file", "local/shell_exec"];
    for row in documented("| `run --mode` |") {
        let mode = row[0].trim_start_matches('`').split('`').next().unwrap_or_default().to_owned();
        for (tool, wanted) in tools.iter().zip(&row[1..]) {
            let home = home(tool, "");
            let (_, line) = home.json(["--mode", &mode, "go"]);
            let batch =
                home.agent(["batch", "--mode", &mode, "-"]).stdin("{\"session\": \"b\", \"prompt\": \"go\"}\n").run();
            let of_batch: Value = serde_json::from_str(&batch.stdout).unwrap_or_else(|why| panic!("{why}: {batch:?}"));
            for line in [line, of_batch] {
                assert_eq!(line["tool_transcript"][0]["status"], wanted.as_str(), "{tool} in {mode}: {line}");
                let listed = line["denied"].as_array().map(Vec::len);
                assert_eq!(listed, Some(usize::from(wanted == "denied")), "{tool} in {mode}: {line}");
            }
        }
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

#[test]
fn commands_that_remove_files_ask_beside_rules_of_ones_own_and_no_usual_command_does() {
    for (policy, line, wanted) in [
        ("", "rm a.txt", "asks"),
        ("ask = [\"local/shell_exec(git push *)\"]\n", "rm a.txt", "asks"),
        ("allow = [\"local/shell_exec\"]\n", "find . -name a.txt -delete", "asks"),
        ("ask_commands = []\n", "rm a.txt", "runs"),
        ("ask_commands = [\"ec*\"]\n", "echo ran", "asks"),
        ("", "find . -name \"*.toml\"", "runs"),
        ("", "timeout 5 ls *.toml", "runs"),
        ("", "ls | xargs -n1 echo $HOME", "runs"),
    ] {
        let home = unconfigured("local/shell_exec", &json!({ "command": line }));
        let plain = home.scratch.read("agent.toml");
        home.scratch.agent_toml(&format!("{plain}[policy]\n{policy}"));
        assert_eq!(seen(&home, &["--mode", "auto"]), wanted, "{policy}: {line}");
    }
    let bad = home("local/list_dir", "ask_commands = [\"rm -r\"]\n").run(["tools"]);
    assert!(
        bad.code != Some(0) && bad.stderr.contains("the name of one program without a folder"),
        "it says how: {bad:?}"
    );
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
