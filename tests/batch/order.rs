//! Order of execution and of output.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::batch::lines::{home, line, numbers, results};
use crate::home::{Home, KEYS};
use crate::support::stopwatch::Stopwatch;
use serde_json::{Value, json};

#[test]
fn a_result_is_the_object_of_a_run_and_the_number_of_its_line() {
    let home = home();
    home.scratch.write("lines.jsonl", "\n{\"session\":\"s\",\"prompt\":\"hi\",\"request_id\":\"r\",\"note\":1}\n");
    let run = home.run(["batch", "lines.jsonl"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let [result] = results(&run).try_into().expect("one result");
    let keys: BTreeSet<&str> = result.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, KEYS.into_iter().chain(["line"]).collect());
    assert_eq!((&result["line"], &result["session_id"], &result["request_id"]), (&json!(2), &json!("s"), &json!("r")));
    assert_eq!((&result["content"], &result["finish_reason"]), (&json!("hello"), &json!("final")));
    assert!(run.stderr.contains("1 line in ") && run.stderr.contains("finished 1, limited 0"), "{}", run.stderr);
    assert!(run.stderr.contains("; a turn took p50 "), "{}", run.stderr);
}

#[test]
fn a_result_has_the_labels_of_its_line() {
    let home = home();
    let labels = json!({ "channel": "slack", "thread": "C024:169.2" });
    let lines = format!("{}\n{}", json!({ "session": "s", "prompt": "hi", "labels": labels }), line("s", "again"));
    let run = home.agent(["batch", "-"]).stdin(&lines).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    let told: Vec<Value> = results(&run).iter().map(|result| result["labels"].clone()).collect();
    assert_eq!(told, [labels, json!({})]);
}

#[test]
fn stdin_is_read_as_it_comes() {
    let home = home();
    let mut running = home.agent(["batch", "-"]).open_stdin().spawn();
    for number in 1..=3 {
        running.type_line(line("s", "hi").trim_end());
        let result: Value = serde_json::from_str(&running.next_line().expect("a result")).expect("JSON");
        assert_eq!(result["line"], number, "answered before the input ended");
    }
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("3 lines in "), "{}", run.stderr);
}

#[test]
fn results_come_as_turns_end_and_the_lines_of_a_session_in_their_order() {
    let home = home();
    let mut text = line("late", "slow");
    for round in 0..20 {
        (0..25).for_each(|session| text.push_str(&line(&format!("s{session}"), &format!("message {round}"))));
    }
    let run = home.agent(["batch", "--concurrency", "8", "-"]).stdin(&text).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let results = results(&run);
    assert_eq!(results.len(), 501);
    assert_ne!(results[0]["line"], 1, "the slow line came first");
    for session in (0..25).map(|session| format!("s{session}")) {
        let of: Vec<u64> = results.iter().filter(|result| result["session_id"] == *session).map(at).collect();
        assert!(of.len() == 20 && of.is_sorted(), "{session}: {of:?}");
    }
    let shown = home.run(["sessions", "show", "s7"]).stdout;
    let said: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("you: ")).collect();
    assert_eq!(said, (0..20).map(|round| format!("message {round}")).collect::<Vec<_>>());
}

fn at(result: &Value) -> u64 {
    result["line"].as_u64().expect("the number of a line")
}

#[test]
fn a_session_with_many_lines_does_not_hold_up_the_others() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }], "delay_ms": 20 }]));
    let text = line("long", "hi").repeat(150) + &line("short", "hi");
    home.scratch.write("lines.jsonl", text);
    let run = home.run(["batch", "--concurrency", "1", "lines.jsonl"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let numbers = numbers(&run);
    let short = numbers.iter().position(|number| *number == 151).expect("the short session's line");
    assert!(short < 40, "150 lines of another session stood before it, {short} of them ran first");
}

#[test]
fn as_many_turns_run_at_the_same_time_as_were_asked_for() {
    let home = home();
    let text: String = (0..12).map(|session| line(&format!("s{session}"), "slow")).collect();
    let began = Stopwatch::start();
    let run = home.agent(["batch", "--concurrency", "12", "-"]).stdin(&text).run();
    began.assert_within(Duration::from_millis(12 * 400), "twelve turns beside each other");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let run =
        home.agent(["batch", "--concurrency", "1", "-"]).stdin(text.lines().take(4).collect::<Vec<_>>().join("\n"));
    let run = run.run();
    assert!(run.millis >= 4 * 400, "beside each other: {} ms", run.millis);
}
