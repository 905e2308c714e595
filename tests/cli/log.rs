//! The log of the program: what a turn was and did, a record a line, at each level and in both formats.

use serde_json::{Value, json};

use crate::home::Home;
use crate::support::program::Run;

/// A turn of two steps: the first one calls two tools, the second one answers.
fn turn(level: &str, format: &str) -> Run {
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let calls = [call("local/list_dir", json!({ "path": "." })), call("local/read_file", json!({ "path": "no.txt" }))];
    let script = json!([{ "replies": [{ "calls": calls }, { "text": "Two words." }] }]);
    let home = Home::scripted(&script);
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}[log]\nlevel = \"{level}\"\nformat = \"{format}\"\n"));
    let run = home.run(["run", "--session", "s", "secret words"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run
}

/// The records of turns.
fn records(level: &str) -> Vec<Value> {
    let run = turn(level, "json");
    // What is shown of calls is on stderr, too.
    let lines = run.stderr.lines().filter(|line| line.starts_with('{'));
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{run:?}")));
    let records: Vec<Value> = lines.filter(|record| record["target"] == "bob::turn").collect();
    let turn = records.first().map(|first| first["turn"].clone());
    for record in &records {
        assert_eq!((&record["session"], Some(&record["turn"])), (&json!("s"), turn.as_ref()), "{record}");
        assert!(record["turn"].as_str().is_some_and(|turn| !turn.is_empty()), "{record}");
        assert!(!record.to_string().contains("words"), "no text of a user or a model: {record}");
    }
    records
}

fn texts(records: &[Value]) -> Vec<(&str, &str)> {
    records
        .iter()
        .map(|record| (record["level"].as_str().unwrap_or_default(), record["message"].as_str().unwrap_or_default()))
        .collect()
}

#[test]
fn info_has_a_line_for_each_turn_and_tool_call_and_debug_one_for_each_step() {
    assert_eq!(records("warn"), Vec::<Value>::new());
    let (call, end) = (("INFO", "tool call ended"), ("INFO", "turn ended"));
    let info = records("info");
    assert_eq!(texts(&info), [call, call, end]);
    // The calls run at the same time, and end in any order.
    for (tool, status) in [("local/list_dir", "ok"), ("local/read_file", "error")] {
        let record = info.iter().find(|record| record["tool"] == tool).expect(tool);
        assert_eq!((&record["status"], &record["step"]), (&json!(status), &json!(1)));
        assert!(record["call"].is_string() && record["duration_ms"].is_u64(), "{record}");
    }
    assert_eq!((&info[2]["finish_reason"], &info[2]["steps"]), (&json!("final"), &json!(2)));
    assert!(info[2]["duration_ms"].is_u64() && info[2]["input_tokens"].is_u64(), "{}", info[2]);
    let debug = records("debug");
    let step = ("DEBUG", "model call ended");
    assert_eq!(texts(&debug), [("DEBUG", "turn started"), step, call, call, step, end]);
    assert_eq!([&debug[1]["step"], &debug[4]["step"]], [&json!(1), &json!(2)]);
    assert!(debug[1]["model"] == "demo:one" && debug[0]["model"] == "demo:one", "{debug:?}");
}

#[test]
fn the_log_for_people_has_the_lines_with_their_ids() {
    let run = turn("info", "text");
    let line = |text: &str| run.stderr.lines().filter(|line| line.contains(text)).collect::<Vec<_>>();
    let (calls, ends) = (line("tool call ended"), line("turn ended"));
    assert_eq!((calls.len(), ends.len()), (2, 1), "{run:?}");
    assert!(calls.iter().chain(&ends).all(|line| line.contains("session=s turn=")), "{run:?}");
    assert!(ends[0].contains("finish_reason=\"final\""), "{run:?}");
}
