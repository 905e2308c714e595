//! A session has one owner among all machines, and a dead one holds nothing.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::scale::database::Database;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_session_in_use_is_busy_by_name_and_may_be_taken_over() {
    let Some(database) = Database::new("a_session_in_use_is_busy_by_name_and_may_be_taken_over") else { return };
    let provider = FakeProvider::start([Reply::Silence, Reply::text("mine")]);
    let (ann, ben) = (database.machine(&provider), database.machine(&provider));
    let running = ann.agent(["run", "--session", "one", "first"]).spawn();
    assert!(provider.asked_within(1, SOON), "the first turn asked the model");
    let busy = ben.run(["run", "--session", "one", "second"]);
    assert_eq!(busy.code, Some(75), "{}", busy.stderr);
    assert!(busy.stderr.contains(&format!("process {}", running.pid())), "{}", busy.stderr);
    let taken = ben.run(["run", "--session", "one", "--take-over", "second"]);
    assert_eq!((taken.code, taken.stdout.trim()), (Some(0), "mine"), "{}", taken.stderr);
    let fenced = running.finish();
    assert!(fenced.code.is_some_and(|code| code != 0), "{fenced:?}");
    let journal = ben.run(["sessions", "export", "one"]).stdout;
    assert_eq!(journal.lines().filter(|line| line.contains("\"kind\":\"outcome\"")).count(), 2, "{journal}");
    check_epochs(&journal);
}

#[test]
fn an_operator_takes_a_session_from_a_living_owner_and_leaves_it_to_the_next() {
    let Some(database) = Database::new("an_operator_takes_a_session_from_a_living_owner") else { return };
    let provider = FakeProvider::start([
        Reply::text("late").delayed(Duration::from_secs(8)),
        Reply::text("on"),
        Reply::text("mine"),
    ]);
    let (ann, ben) = (database.machine(&provider), database.machine(&provider));
    let running = ann.agent(["run", "--session", "one", "first"]).spawn();
    assert!(provider.asked_within(1, SOON), "the first turn asked the model");
    let taken = ben.run(["sessions", "take", "on"]);
    assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    let owner = format!("took one from cli-agent (process {}), node ", running.pid());
    assert!(taken.stderr.contains(&owner) && taken.stderr.contains(" at 127.0.0.1; any process"), "{}", taken.stderr);
    assert_eq!(database.sql("SELECT node IS NULL FROM bob_sessions"), "t");
    let free = ben.run(["sessions", "take", "one"]);
    assert_eq!((free.code, free.stderr.trim()), (Some(0), "no process owns one; nothing was changed"));
    let json: Value = serde_json::from_str(&ben.run(["sessions", "take", "one", "--json"]).stdout).unwrap();
    assert_eq!(json, serde_json::json!({ "session_id": "one", "taken_from": null }));
    let unknown = ben.run(["sessions", "take", "two"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("there is no session two"), "{}", unknown.stderr);
    let fenced = running.finish();
    assert_ne!(fenced.code, Some(0), "{fenced:?}");
    assert!(
        fenced.stderr.contains("[session one was taken from this process; no process is known to have it now]"),
        "{fenced:?}"
    );
    let finished = ben.run(["run", "--session", "one", "--finish", "second"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    check_epochs(&ben.run(["sessions", "export", "one"]).stdout);
}

#[test]
fn a_killed_machine_loses_nothing_and_another_one_finishes_its_turns() {
    let Some(database) = Database::new("a_killed_machine_loses_nothing") else { return };
    let provider = FakeProvider::start([Reply::text("one"), Reply::Silence, Reply::text("two"), Reply::text("three")]);
    let (ann, ben) = (database.machine(&provider), database.machine(&provider));
    let lines = ["first", "second", "third"].map(|prompt| format!("{{\"session\":\"s\",\"prompt\":\"{prompt}\"}}\n"));
    let mut running = ann.agent(["batch", "-"]).stdin(lines.concat()).spawn();
    assert!(provider.asked_within(2, SOON), "the second turn asked the model");
    assert!(running.next_line().is_some(), "the result of the first line");
    running.signal(Signal::KILL);
    assert_eq!(running.finish().signal, Some(9));
    let finished = ben.agent(["batch", "--finish", "-"]).stdin(lines.concat()).run();
    assert_eq!((finished.code, finished.stdout.lines().count()), (Some(0), 3), "{}", finished.stderr);
    assert!(finished.stderr.contains("1 line was printed again"), "{}", finished.stderr);
    assert_eq!(provider.requests().len(), 4, "the acknowledged turn asked nobody");
    check_epochs(&ben.run(["sessions", "export", "s"]).stdout);
}

#[test]
fn a_paused_machine_holds_its_sessions_for_its_lease_and_is_fenced_when_it_goes_on() {
    let Some(database) = Database::new("a_paused_machine_holds_its_sessions_for_its_lease") else { return };
    let provider = FakeProvider::start([Reply::Silence, Reply::text("mine")]);
    let (ann, ben) = (database.machine(&provider), database.machine(&provider));
    let running = ann.agent(["run", "--session", "one", "first"]).spawn();
    assert!(provider.asked_within(1, SOON), "the first turn asked the model");
    running.signal(Signal::STOP);
    let began = Instant::now();
    let taken = loop {
        let run = ben.run(["run", "--session", "one", "second"]);
        if run.code != Some(75) {
            break run;
        }
        assert!(began.elapsed() < SOON, "its lease is over");
    };
    assert_eq!((taken.code, taken.stdout.trim()), (Some(0), "mine"), "{}", taken.stderr);
    // Where a run takes long to begin, none of them is refused.
    let lease = format!(
        "SELECT clock_timestamp() > expires_at FROM bob_nodes WHERE name = 'cli-agent (process {})'",
        running.pid()
    );
    assert_eq!(database.sql(&lease), "t", "a paused owner lives for its lease");
    running.signal(Signal::CONT);
    running.signal(Signal::INT);
    let fenced = running.finish();
    assert!(fenced.code.is_some_and(|code| code != 0), "{fenced:?}");
    let journal = ben.run(["sessions", "export", "one"]).stdout;
    assert_eq!(journal.lines().filter(|line| line.contains("\"kind\":\"outcome\"")).count(), 2, "{journal}");
    check_epochs(&journal);
}

/// Versions count the records, and epochs never fall along them.
#[track_caller]
fn check_epochs(journal: &str) {
    let records: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |key: &str| records.iter().filter_map(|record| record[key].as_u64()).collect::<Vec<_>>();
    assert_eq!(of("version"), (1..=records.len() as u64).collect::<Vec<_>>(), "{journal}");
    assert!(of("epoch").is_sorted() && of("epoch").len() == records.len(), "{journal}");
}
