//! The program is killed at any instant, and finished by another process: each child is begun once, each side effect
//! happens at most once, and the sums are right.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::program::{Program, Run};
use crate::support::scratch::Scratch;

/// How many kills there are, and how far apart.
const KILLS: (u32, Duration) = (12, Duration::from_millis(40));

fn folder() -> Scratch {
    let scratch = Scratch::new();
    let part = |name: &str| {
        let command = format!("echo {name} >> log.txt");
        let call = json!({"calls": [{"name": "local/shell_exec", "arguments": {"command": command}}]});
        json!({"when": format!("part {name}"), "replies": [call, {"text": format!("did {name}")}], "delay_ms": 20})
    };
    let asks = |name: &str| json!({"name": "agent/worker", "arguments": {"task": format!("part {name}")}});
    let root =
        json!({"when": "go", "replies": [{"calls": [asks("one"), asks("two")]}, {"text": "both"}], "delay_ms": 20});
    scratch.write("s.json", json!([part("one"), part("two"), root]).to_string());
    scratch.write("tasks.jsonl", json!({"session": "s", "prompt": "go"}).to_string() + "\n");
    scratch.agent_toml(
        "[runtime]\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n\
         [policy]\ndeny_tools = []\nmode = \"auto\"\n\
         [[subagents]]\nid = \"worker\"\ndescription = \"Does a part.\"\nallow_tools = [\"local/*\"]\n",
    );
    scratch
}

fn agent<'a>(scratch: &Scratch, args: impl IntoIterator<Item = &'a str>) -> Program {
    let program = Program::new(env!("CARGO_BIN_EXE_cli-agent")).dir(scratch.path());
    program.env("XDG_STATE_HOME", scratch.join("state")).args(["--config", "agent.toml"]).args(args)
}

#[track_caller]
fn json_of(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"))
}

/// Kills a batch after this time, if it is still there, and finishes it.
fn killed_after(time: Duration) {
    let scratch = folder();
    let batch = agent(&scratch, ["batch", "tasks.jsonl"]).spawn();
    std::thread::sleep(time);
    batch.signal(Signal::KILL);
    batch.finish();
    let run = agent(&scratch, ["batch", "--finish", "tasks.jsonl"]).run();
    let outcome = json_of(&run);
    assert_eq!(
        (&outcome["finish_reason"], &outcome["content"]),
        (&json!("final"), &json!("both")),
        "{time:?}: {run:?}"
    );

    let log = std::fs::read_to_string(scratch.join("log.txt")).unwrap_or_default();
    for name in ["one", "two"] {
        assert!(log.lines().filter(|line| *line == name).count() <= 1, "{time:?}: {log}");
    }
    let listed = json_of(&agent(&scratch, ["sessions", "list", "--children", "--json"]).run());
    let sessions = listed["sessions"].as_array().unwrap();
    let children: Vec<_> = sessions.iter().filter(|session| session["parent"] == json!("s")).collect();
    assert_eq!(children.len(), 2, "{time:?}: {listed}");
    let (mut steps, mut tokens) = (0, 0);
    for child in children {
        assert_eq!(child["state"], json!("idle"), "{time:?}");
        let export = agent(&scratch, ["sessions", "export", child["session_id"].as_str().unwrap()]).run();
        let records: Vec<Value> = export.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |kind: &str| records.iter().filter(|record| record["kind"] == json!(kind)).count();
        assert_eq!((of("input"), of("started"), of("outcome")), (1, 1, 1), "{time:?}: {}", export.stdout);
        steps += of("answered");
        let used = records.iter().filter_map(|record| record["body"]["cost"]["usage"]["total_tokens"].as_u64());
        tokens += used.sum::<u64>();
    }
    let delegated = &outcome["delegated"];
    assert_eq!(
        (&delegated["sessions"], &delegated["steps"], &delegated["usage"]["total_tokens"]),
        (&json!(2), &json!(steps), &json!(tokens)),
        "{time:?}: {outcome}"
    );
}

#[test]
fn without_a_kill_both_children_do_their_work() {
    let scratch = folder();
    assert_eq!(agent(&scratch, ["batch", "tasks.jsonl"]).run().code, Some(0));
    let log = std::fs::read_to_string(scratch.join("log.txt")).unwrap();
    let mut lines: Vec<_> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "two"]);
}

#[test]
fn a_kill_at_any_instant_begins_no_child_twice_and_repeats_no_side_effect() {
    for kill in 0..KILLS.0 {
        killed_after(KILLS.1 * kill);
    }
}

/// A tree of three levels whose lowest agent runs a command.
fn line() -> Scratch {
    let scratch = Scratch::new();
    let says = |when: &str, name: &str, arguments: Value, text: &str| {
        let call = json!({"calls": [{"name": name, "arguments": arguments}]});
        json!({"when": when, "replies": [call, {"text": text}], "delay_ms": 15})
    };
    let script = json!([
        says("go", "agent/planner", json!({"task": "plan"}), "done"),
        says("plan", "agent/worker", json!({"task": "work"}), "planned"),
        says("work", "local/shell_exec", json!({"command": "echo worked >> log.txt"}), "worked"),
        {"when": "thanks", "replies": [{"text": "welcome"}]},
    ]);
    scratch.write("s.json", script.to_string());
    scratch.write("tasks.jsonl", json!({"session": "s", "prompt": "go"}).to_string() + "\n");
    scratch.agent_toml(
        "[runtime]\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n\
         [policy]\ndeny_tools = []\nmode = \"ask\"\n\
         [[subagents]]\nid = \"planner\"\ndescription = \"Plans.\"\nmax_depth = 1\nbudget_ratio = 1.0\n\
         [[subagents]]\nid = \"worker\"\ndescription = \"Works.\"\nbudget_ratio = 1.0\n",
    );
    scratch
}

fn times_worked(scratch: &Scratch) -> usize {
    std::fs::read_to_string(scratch.join("log.txt")).unwrap_or_default().lines().count()
}

#[test]
fn a_line_of_agents_that_waits_is_resumed_by_programs_that_are_killed() {
    for kill in 0..KILLS.0 {
        let time = KILLS.1 * kill;
        let scratch = line();
        let run = agent(&scratch, ["run", "--session", "s", "--approvals", "suspend", "--output", "json", "go"]).run();
        let waits = json_of(&run);
        assert_eq!((run.code, &waits["finish_reason"]), (Some(4), &json!("suspended")), "{run:?}");
        let question = waits["question"].as_str().unwrap();
        assert!(question.ends_with("(asked by the agent planner > worker)"), "{question}");
        let token = waits["token"].as_str().unwrap();
        let listed = json_of(&agent(&scratch, ["sessions", "list", "--children", "--json"]).run());
        let states: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
        assert_eq!(states, [&json!("approval"); 3], "{listed}");

        let resume = || agent(&scratch, ["resume", "--output", "json", token, "allow"]);
        let killed = resume().spawn();
        std::thread::sleep(time);
        killed.signal(Signal::KILL);
        killed.finish();
        let ended = resume().run();
        if ended.code == Some(2) {
            // The decision was taken by the program that was killed; its turn is finished before another one.
            let next = agent(&scratch, ["run", "--session", "s", "--finish", "thanks"]).run();
            assert_eq!(next.code, Some(0), "{time:?}: {next:?}");
        } else {
            let outcome = json_of(&ended);
            let content = (&outcome["finish_reason"], &outcome["content"]);
            assert_eq!(content, (&json!("final"), &json!("done")), "{time:?}: {ended:?}");
            let used = &outcome["delegated"];
            let used = (&used["sessions"], &used["steps"], &used["tool_calls"]);
            assert_eq!(used, (&json!(2), &json!(4), &json!(2)), "{time:?}");
        }
        assert!(times_worked(&scratch) <= 1, "{time:?}");
        let again = resume().run();
        assert_eq!((again.code, times_worked(&scratch) <= 1), (Some(2), true), "{time:?}: {again:?}");
        let listed = json_of(&agent(&scratch, ["sessions", "list", "--children", "--json"]).run());
        let states: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
        assert_eq!(states, [&json!("idle"); 3], "{time:?}: {listed}");
    }
}
