//! `--finish`: after a crash nothing runs twice, interrupted lines are finished, and missing ones are run.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::batch::lines::{home, line, numbers, results};
use crate::home::Home;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const SOON: Duration = Duration::from_secs(60);

/// The turn each line belongs to, in the order of the lines.
fn turns(results: &[Value]) -> Vec<Value> {
    let mut results = results.to_vec();
    results.sort_by_key(|result| result["line"].as_u64());
    results.into_iter().map(|result| result["turn_id"].clone()).collect()
}

#[test]
fn the_nth_line_of_a_session_and_prompt_is_the_nth_such_turn() {
    let home = home();
    let text = line("a", "hi") + &line("a", "hi") + &line("b", "hi") + &line("a", "other");
    let first = home.agent(["batch", "-"]).stdin(&text).run();
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let again = home.agent(["batch", "--finish", "-"]).stdin(&text).run();
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(turns(&results(&again)), turns(&results(&first)));
    assert!(again.stderr.contains("4 lines were printed again, from the store"), "{}", again.stderr);

    let longer = line("a", "other") + &text + &line("a", "hi") + &line("c", "hi");
    let longer = home.agent(["batch", "--finish", "-"]).stdin(longer).run();
    let (new, old) = (turns(&results(&longer)), turns(&results(&first)));
    assert_eq!((&new[0], &new[1], &new[2], &new[3]), (&old[3], &old[0], &old[1], &old[2]));
    assert!(new[4..].iter().all(|turn| !old.contains(turn)), "the second of `other` and the third of `hi` are new");
    assert!(longer.stderr.contains("4 lines were printed again"), "{}", longer.stderr);
    assert!(home.run(["sessions", "show", "a"]).stderr.contains("5 turns"), "and no more were run");
}

#[test]
fn without_it_every_line_is_run() {
    let home = home();
    let text = line("a", "hi");
    let [first, second] = [0, 1].map(|_| turns(&results(&home.agent(["batch", "-"]).stdin(&text).run())));
    assert_ne!(first, second);
}

#[test]
fn x4_an_interrupted_turn_is_finished_and_not_begun_again() {
    let provider = FakeProvider::start([Reply::text("one"), Reply::Silence, Reply::text("two"), Reply::text("three")]);
    let home = Home::served_by(&provider);
    let text = line("s", "first") + &line("s", "second") + &line("s", "third");
    home.scratch.write("lines.jsonl", &text);
    let mut running = home.agent(["batch", "lines.jsonl"]).spawn();
    assert!(provider.asked_within(2, SOON), "the second turn asked the model");
    // The first result is printed while the second turn runs: without it the kill may come first.
    assert!(running.next_line().is_some(), "the result of the first line");
    running.signal(Signal::KILL);
    let killed = running.finish();
    assert_eq!((killed.signal, numbers(&killed)), (Some(9), vec![1]), "{}", killed.stderr);

    let run = home.run(["batch", "--finish", "lines.jsonl"]);
    assert_eq!((run.code, numbers(&run)), (Some(0), vec![1, 2, 3]), "{}", run.stderr);
    let said: Vec<Value> = results(&run).iter().map(|result| result["content"].clone()).collect();
    assert_eq!(said, [json!("one"), json!("two"), json!("three")]);
    assert!(run.stderr.contains("1 line was printed again"), "{}", run.stderr);
    assert_eq!(provider.requests().len(), 4, "the acknowledged turn asked nobody");
    let journal = home.run(["sessions", "export", "s"]).stdout;
    assert_eq!(journal.lines().filter(|record| record.contains("\"kind\":\"input\"")).count(), 3, "{journal}");
}

#[test]
fn x5_a_call_that_ran_when_the_program_was_killed_is_unknown_and_not_run_again() {
    for kind in ["sqlite", "json"] {
        let tables = "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n\
                      [policy]\ndeny_tools = []\n";
        let home = Home::with("default_model = \"demo:one\"", tables).keeping(kind);
        let ran = home.scratch.join("ran");
        let command = format!("echo ran >> '{}'; sleep 60", ran.display());
        let call = json!({ "calls": [{ "name": "local/shell_exec", "arguments": { "command": command } }] });
        home.scratch.write("s.json", json!([{ "replies": [call, { "text": "Done." }] }]).to_string());
        home.scratch.write("lines.jsonl", line("s", "do it"));
        let running = home.agent(["run", "--session", "s", "--mode", "auto", "do it"]).spawn();
        let until = Instant::now() + SOON;
        while !ran.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        running.signal(Signal::KILL);
        assert_eq!(running.finish().signal, Some(9));

        let run = home.run(["batch", "--finish", "lines.jsonl"]);
        let result = &results(&run)[0];
        assert_eq!((run.code, &result["content"]), (Some(0), &json!("Done.")), "{kind}: {}", run.stderr);
        assert_eq!(result["tool_transcript"][0]["status"], "unknown", "{kind}: {result}");
        assert_eq!(home.scratch.read("ran"), "ran\n", "{kind}: a side effect happens once");
    }
}

#[test]
fn x4_a_run_finishes_what_was_interrupted_before_its_own_turn() {
    let provider = FakeProvider::start([Reply::Silence, Reply::text("one"), Reply::text("two")]);
    let home = Home::served_by(&provider);
    let running = home.agent(["run", "--session", "s", "first"]).spawn();
    assert!(provider.asked_within(1, SOON), "the model was asked");
    running.signal(Signal::KILL);
    running.finish();
    let run = home.run(["run", "--finish", "--session", "s", "second"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "two\n"), "{}", run.stderr);
    assert_eq!(home.run(["sessions", "show", "s"]).stdout, "you: first\nmodel: one\nyou: second\nmodel: two\n");
}

#[test]
fn the_answer_to_a_question_is_a_line_of_its_own() {
    let question = json!({ "calls": [{ "name": "ask_user", "arguments": { "question": "Which city?" } }] });
    let home = Home::scripted(&json!([{ "when": "weather", "replies": [question, { "text": "sunny" }] }]));
    let text = line("s", "the weather") + &line("s", "Rome");
    let first = home.agent(["batch", "-"]).stdin(&text).run();
    assert_eq!((first.code, numbers(&first)), (Some(4), vec![1, 2]), "{first:?}");
    assert_eq!(results(&first)[0]["finish_reason"], "suspended");
    assert_eq!(results(&first)[1]["content"], "sunny");
    let again = home.agent(["batch", "--finish", "-"]).stdin(&text).run();
    assert!(again.stderr.contains("2 lines were printed again"), "{}", again.stderr);
    assert_eq!(results(&again), results(&first));
}
