//! Hooks through the program: real scripts, around calls of local tools and of a tool server, at questions and at the end.

use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_D, Terminal};

const WRITE: &str = "local/write_file";

/// A model that makes one call and ends, with these tables beside it.
fn calling(tool: &str, arguments: &Value, tables: &str) -> Home {
    let call = json!({ "name": tool, "arguments": arguments });
    let script = json!([{ "replies": [{ "calls": [call] }, { "text": "Done." }] }]);
    let tables =
        format!("[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n{tables}");
    let home = Home::with("default_model = \"demo:one\"", &tables);
    home.scratch.write("s.json", script.to_string());
    home
}

fn writing(tables: &str) -> Home {
    calling(WRITE, &json!({ "path": "new.txt", "content": "x" }), tables)
}

/// The table of a hook that runs these words of a shell.
fn hook(name: &str, on: &str, script: &str, keys: &str) -> String {
    format!("[hooks.{name}]\non = \"{on}\"\ncommand = \"sh\"\nargs = [\"-c\", '''{script}''']\n{keys}\n")
}

/// What still runs of a process group. A zombie has ended: the first process of the machine reaps it at its leisure.
fn of_group(group: &str) -> Vec<String> {
    let listed = Command::new("ps").args(["-A", "-o", "pgid=,stat="]).output().expect("ps runs");
    let rows = String::from_utf8_lossy(&listed.stdout).into_owned();
    let runs = |row: &&str| row.split_whitespace().next() == Some(group) && !row.contains(" Z");
    rows.lines().filter(runs).map(str::to_owned).collect()
}

fn is_made(home: &Home) -> bool {
    home.scratch.join("new.txt").exists()
}

const DENY: &str = r#"cat > seen.json; echo '{"decision": "deny", "reason": "not on a Friday"}'"#;

#[test]
fn a_call_that_a_hook_denies_does_not_run_and_is_listed_with_the_reason() {
    for mode in ["edits", "auto"] {
        let home = writing(&hook("guard", "before_call", DENY, &format!("calls = [\"{WRITE}\"]")));
        let (code, line) = home.json(["--session", "s", "--mode", mode, "go"]);
        let call = &line["tool_transcript"][0];
        assert_eq!((code, &call["status"]), (Some(0), &json!("denied")), "{line}");
        let reason = "denied: the hook guard denies it: not on a Friday";
        assert_eq!(
            (&line["denied"][0]["name"], &line["denied"][0]["reason"]),
            (&json!(WRITE), &json!(reason)),
            "{line}"
        );
        assert!(call["result"].as_str().is_some_and(|result| result.contains(reason)), "the model reads it: {line}");
        assert!(!is_made(&home));
        assert!(home.run(["sessions", "export", "s"]).stdout.contains(reason), "it is in the journal");
        let seen: Value = serde_json::from_str(&home.scratch.read("seen.json")).expect("JSON on stdin");
        assert_eq!((&seen["session_id"], &seen["mode"]), (&json!("s"), &json!(mode)), "{seen}");
        assert_eq!(seen["call"]["arguments"], json!({ "path": "new.txt", "content": "x" }));
    }
    // It is about nothing else, and what a mode denies is not asked about.
    let home = writing(&hook("guard", "before_call", DENY, "calls = [\"local/edit_file\"]"));
    assert_eq!(home.json(["--mode", "auto", "go"]).1["tool_transcript"][0]["status"], "ok");
    let home = writing(&hook("guard", "before_call", DENY, ""));
    assert_eq!(home.json(["--mode", "plan", "go"]).1["tool_transcript"][0]["status"], "denied");
    assert!(!home.scratch.join("seen.json").exists());
}

#[test]
fn a_hook_has_a_person_asked_in_the_mode_auto_and_allows_nothing_that_asks() {
    let ask = r#"echo run >> runs; echo '{"decision": "ask", "reason": "it is Friday"}'"#;
    let home = writing(&hook("guard", "before_call", ask, ""));
    let (code, line) = home.json(["--session", "s", "--mode", "auto", "--approvals", "suspend", "go"]);
    assert_eq!(code, Some(4), "{line}");
    assert!(!is_made(&home));
    let token = line["token"].as_str().expect("a token");
    let resumed = home.run(["resume", token, "allow"]);
    assert!(resumed.code == Some(0) && is_made(&home), "{resumed:?}");
    let (_, line) = home.json(["--mode", "auto", "--approvals", "deny", "go"]);
    assert_eq!(line["denied"].as_array().map(Vec::len), Some(1), "without a person: {line}");

    let allow = hook("guard", "before_call", r#"echo '{"decision": "allow"}'"#, "");
    let home = writing(&allow);
    assert_eq!(home.json(["--approvals", "suspend", "go"]).0, Some(4), "the mode ask asks");
    let home = writing(&format!("deny = [\"{WRITE}(*.txt)\"]\n{allow}"));
    assert_eq!(home.json(["--mode", "auto", "go"]).1["tool_transcript"][0]["status"], "denied");
}

#[test]
fn a_hook_that_fails_denies_unless_it_is_told_otherwise() {
    let canary = "canary-of-the-environment";
    for (script, why) in [
        ("exit 3", "it ended with status 3"),
        ("kill -9 $$", "it was ended by signal 9"),
        ("echo certainly", "not the JSON that was expected"),
        ("yes", "it said more than 65536 bytes"),
        ("trap '' TERM; echo $$ > pid; sleep 600 & sleep 600", "it took longer than 500 ms"),
        ("env >&2; exit 1", "it ended with status 1, last output: "),
    ] {
        let keys = if why.contains("longer") { "timeout_ms = 500" } else { "" };
        let home = writing(&hook("guard", "before_call", script, keys));
        let agent = home.agent(["run", "--mode", "auto", "--output", "json", "go"]).env("OPENAI_API_KEY", canary);
        let run = agent.env("PROBE", canary).run();
        let line: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        let reason = line["denied"][0]["reason"].as_str().unwrap_or_default();
        assert!(reason.starts_with("denied: the hook guard that guards it failed: ") && reason.contains(why), "{line}");
        assert!(!is_made(&home) && !run.stdout.contains(canary) && !run.stderr.contains(canary), "{run:?}");
        assert!(run.stderr.contains("a hook failed"), "{run:?}");
        if let Ok(pid) = std::fs::read_to_string(home.scratch.join("pid")) {
            let until = Instant::now() + Duration::from_secs(30);
            while !of_group(pid.trim()).is_empty() {
                assert!(Instant::now() < until, "its group has not ended: {:?}", of_group(pid.trim()));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    let home = writing(&hook("guard", "before_call", "exit 3", "on_failure = \"allow\""));
    assert_eq!(home.json(["--mode", "auto", "go"]).1["tool_transcript"][0]["status"], "ok");
    let home = writing(&hook("guard", "before_call", "exit 3", "on_failure = \"ask\""));
    assert_eq!(home.json(["--mode", "auto", "--approvals", "suspend", "go"]).0, Some(4));
}

#[test]
fn what_a_hook_says_after_a_call_is_read_by_the_model() {
    let note = r#"cat > after.json; echo '{"note": "not formatted"}'"#;
    let home = writing(&hook("lint", "after_call", note, "calls = [\"local/write_file(*.txt)\"]"));
    let (_, line) = home.json(["--mode", "auto", "go"]);
    let result = line["tool_transcript"][0]["result"].as_str().unwrap_or_default();
    assert!(result.ends_with("[the hook lint says: not formatted]"), "{line}");
    let seen: Value = serde_json::from_str(&home.scratch.read("after.json")).expect("JSON on stdin");
    assert_eq!(seen["result"]["changed_files"], json!(["new.txt"]));
}

#[test]
fn a_hook_is_asked_about_calls_of_a_tool_server() {
    let server = format!("[[mcp.servers]]\nid = \"x\"\ncommand = \"{AGENT}\"\nargs = [\"drill-server\"]\n");
    let guard = hook("guard", "before_call", DENY, "calls = [\"mcp/x/*\"]");
    let home = calling("mcp/x/echo", &json!({ "text": "hi" }), &format!("{server}{guard}"));
    let (_, line) = home.json(["--mode", "auto", "go"]);
    assert_eq!(line["denied"][0]["reason"], "denied: the hook guard denies it: not on a Friday", "{line}");
    let home = calling("mcp/x/echo", &json!({ "text": "hi" }), &server);
    assert_eq!(home.json(["--mode", "auto", "go"]).1["tool_transcript"][0]["status"], "ok");
}

#[test]
fn the_program_waits_for_hooks_at_the_end_of_its_turn() {
    let script = "cat > end.json; sleep 1; echo done > end.txt";
    let home = writing(&hook("tell", "turn_end", script, ""));
    let (_, line) = home.json(["--mode", "auto", "--session", "s", "go"]);
    assert_eq!(home.scratch.read("end.txt"), "done\n", "{line}");
    let seen: Value = serde_json::from_str(&home.scratch.read("end.json")).expect("JSON on stdin");
    assert_eq!(
        (&seen["event"]["type"], &seen["event"]["content"]),
        (&json!("turn.finished"), &json!("Done.")),
        "{seen}"
    );
}

#[test]
fn a_hook_answers_a_question_of_a_chat_with_no() {
    let home = writing(&hook("night", "question", r#"echo '{"decision": "deny", "reason": "at night"}'"#, ""));
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let mut terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(30));
    terminal.wait_for("you>");
    terminal.type_line("go");
    terminal.wait_for("Done.");
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with("you>"));
    assert!(terminal.screen().contains("the hook night denies it: at night"), "{}", terminal.screen());
    assert!(!is_made(&home));
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn doctor_and_config_check_know_hooks() {
    let good = hook("guard", "before_call", "true", "calls = [\"mcp/**\"]");
    let home = writing(&good);
    let doctor = home.run(["doctor"]);
    assert!(doctor.stdout.contains("ok     hook: guard: sh before calls (mcp/**)"), "{doctor:?}");
    assert_eq!(home.run(["config", "check"]).code, Some(0));
    let missing = writing("[hooks.guard]\non = \"turn_end\"\ncommand = \"./gone.sh\"\n");
    let doctor = missing.run(["doctor"]);
    assert!(doctor.code == Some(6) && doctor.stdout.contains("gone.sh is no program"), "{doctor:?}");
    for (bad, says) in [
        ("on = \"sometimes\"\ncommand = \"x\"", "before_call, after_call, question, turn_end"),
        ("on = \"before_call\"", "command"),
        ("on = \"turn_end\"\ncommand = \"x\"\ncalls = [\"mcp/**\"]", "means nothing with on = \"turn_end\""),
        ("on = \"after_call\"\ncommand = \"x\"\non_failure = \"deny\"", "means nothing with on = \"after_call\""),
        ("on = \"before_call\"\ncommand = \"x\"\ncalls = [\"shell(\"]", "calls"),
        ("on = \"before_call\"\ncommand = \"x\"\ntimeout_ms = 0", "between 1 and 600000"),
        ("on = \"before_call\"\ncommand = \"x\"\ntool = \"y\"", "tool"),
    ] {
        let run = writing(&format!("[hooks.guard]\n{bad}\n")).run(["config", "check"]);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(run.code == Some(2) && said.contains(says), "{bad}: {run:?}");
    }
}
