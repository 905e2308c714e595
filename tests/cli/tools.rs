//! The tools that come with the program, as a scripted model calls them.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_C, CTRL_D, Terminal};

/// How long a command may outlive a program that had no chance to end it.
const OUTLIVED: Duration = Duration::from_secs(10);

/// A model that makes these calls one after the other, and then says or does this; the shell is allowed without a question.
fn calling(calls: &[(&str, Value)], last: Value) -> Home {
    let replies = calls.iter().map(|(name, arguments)| json!({ "calls": [{ "name": name, "arguments": arguments }] }));
    let script = json!([{ "replies": replies.chain([last]).collect::<Vec<_>>() }]);
    let home = Home::with(
        "default_model = \"demo:one\"\nmax_tool_calls = 50\nmax_steps = 50",
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n\
         [tools.\"local/shell_exec\"]\nrisk = \"low\"\n",
    );
    home.scratch.write("s.json", script.to_string());
    home
}

/// A command that says its process id and waits.
fn waiting() -> (&'static str, Value) {
    ("local/shell_exec", json!({ "command": "echo $$ > pid; sleep 600 & sleep 600", "background": true }))
}

/// A command that ends when the other one has said its process id.
fn has_begun() -> (&'static str, Value) {
    ("local/shell_exec", json!({ "command": "until [ -s pid ]; do sleep 0.01; done" }))
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

#[test]
fn calls_are_shown_in_few_words() {
    let plan = json!({ "items": [{ "text": "look", "state": "done" }, { "text": "run", "state": "active" }] });
    let calls = [
        ("local/todo", plan),
        ("local/read_file", json!({ "path": "a.txt", "limit": 2 })),
        ("local/find_files", json!({ "pattern": "*.txt" })),
        ("local/shell_exec", json!({ "command": "echo red; exit 101" })),
        ("local/shell_exec", json!({ "command": "echo begun; sleep 600", "timeout_ms": 1000 })),
    ];
    let home = calling(&calls, json!({ "text": "Done." }));
    home.scratch.write("a.txt", "one\ntwo\nthree\n");
    let (code, line) = home.json(["--session", "s", "go"]);
    let transcript = line["tool_transcript"].as_array().expect("a list");
    let seen: Vec<_> = transcript.iter().map(|call| call["status"].as_str().unwrap_or_default()).collect();
    assert_eq!((code, seen), (Some(0), vec!["ok", "ok", "ok", "ok", "error"]), "{line}");
    assert_eq!(transcript[1]["result"], "1\tone\n2\ttwo\n[lines 1 to 2 of 3; read on with \"offset\": 3]");
    assert_eq!(transcript[3]["result"], "red\n[exit code 101]");
    let late = transcript[4]["result"].to_string();
    assert!(late.contains("timed out after 1000 ms") && late.contains("its output so far:\\nbegun"), "{late}");

    let run = home.run(["run", "go"]);
    let shown = &run.stderr;
    assert!(shown.contains("> plan: 1 of 2 done\n  [x] look\n  [>] run\n> local/read_file "), "{shown}");
    assert!(shown.contains(": lines 1 to 2 of 3\n") && shown.contains(": 1 path\n"), "{shown}");
    assert!(shown.contains("exit code 101, ") && shown.contains(": red\n"), "{shown}");
}

#[test]
fn the_first_line_of_a_command_is_one_of_its_own() {
    let calls = ["echo no such thing >&2; exit 2", "true", "echo out; echo err >&2"];
    let calls = calls.map(|line| ("local/shell_exec", json!({ "command": line })));
    let shown = calling(&calls, json!({ "text": "Done." })).run(["run", "go"]).stderr;
    assert!(
        shown.contains(" ms: no such thing\n") && shown.contains(" ms\n") && shown.contains(" ms: out…\n"),
        "{shown}"
    );
    assert!(!shown.contains("[stderr]") && !shown.contains("[exit code"), "{shown}");
}

#[test]
fn commands_get_the_variables_that_the_configuration_names() {
    let line = "echo \"$CARGO_HOME/$DATABASE_URL/$DATABASE_USER/$OTHER_KEY/$HOME\"";
    let home = calling(&[("local/shell_exec", json!({ "command": line }))], json!({ "text": "Done." }));
    let told = |home: &Home| {
        let program =
            home.agent(["run", "--output", "json", "go"]).env("CARGO_HOME", "/cargo").env("HOME", "/home/ada");
        let run = program.env("DATABASE_URL", "url").env("DATABASE_USER", "user").env("OTHER_KEY", "key").run();
        let line: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"));
        line["tool_transcript"][0]["result"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(told(&home), "/cargo/////home/ada\n[exit code 0]", "few are given unasked");
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&config.replace("[policy]\n", "[policy]\nshell_env = [\"DATABASE_*\"]\n"));
    assert_eq!(told(&home), "/cargo/url/user///home/ada\n[exit code 0]");
}

#[test]
fn a_command_in_the_background_ends_with_the_program() {
    let output = ("local/shell_output", json!({ "id": 1 }));
    let home = calling(&[waiting(), has_begun(), output], json!({ "text": "Done." }));
    let (code, line) = home.json(["go"]);
    let followed = line["tool_transcript"][2]["result"].as_str().unwrap_or_default();
    assert!(code == Some(0) && followed.starts_with("[command 1 runs for "), "{line}");
    // No waiting here: a program that ends in order has ended its commands before.
    assert!(!is_running(&home.scratch.read("pid")));
}

#[test]
fn a_chat_lists_the_commands_in_the_background_and_stops_them_also_during_a_turn() {
    let home = calling(&[waiting(), has_begun()], json!("stall"));
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let mut terminal = Terminal::start(AGENT, &args, home.scratch.path(), &[]).deadline(Duration::from_secs(60));
    terminal.wait_for("you>");
    terminal.type_line("go");
    terminal.wait_for("local/shell_exec");
    terminal.wait_until("both calls", |screen| screen.contents().matches("local/shell_exec {").count() == 2);
    terminal.type_line("/ps");
    terminal.wait_for("in the background of this session (/ps stop N stops one):");
    terminal.wait_for("1  runs for ");
    terminal.wait_for("$ echo $$ > pid; sleep 600 & sleep 600");
    let pid = home.scratch.read("pid");
    assert!(is_running(&pid));
    terminal.type_line("/ps stop 7");
    terminal.wait_for("no command 7 in the background; /ps lists them");
    terminal.type_line("/ps stop 1");
    terminal.wait_for("1  ended after ");
    assert!(!is_running(&pid));
    terminal.press(CTRL_C);
    terminal.wait_for("[cancelled]");
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with("you>"));
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn a_command_in_the_background_ends_with_a_program_that_is_killed() {
    let home = calling(&[waiting(), has_begun(), ("local/todo", json!({ "items": [] }))], json!("stall"));
    let program = home.agent(["run", "go"]).spawn();
    program.wait_stderr("> plan: 0 of 0 done");
    let pid = home.scratch.read("pid");
    assert!(is_running(&pid));
    program.signal(Signal::KILL);
    let began = Instant::now();
    while is_running(&pid) {
        assert!(began.elapsed() < OUTLIVED, "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(program.finish().signal, Some(9));
}
