//! Workers share what is submitted: nothing is lost when one dies, and nothing runs twice.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::scale::database::{Database, Machine};
use crate::support::program::Running;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const SOON: Duration = Duration::from_secs(60);

/// Sessions whose number of outcomes is not one, or whose records have gaps.
const WRONG: &str = "SELECT count(*) FROM bob_sessions s WHERE turns <> 1 OR state <> 'idle' OR version <>
    (SELECT count(*) FROM bob_records r WHERE r.session = s.number AND r.version <= s.version)";

/// A worker, which works.
pub(super) fn worker(machine: &Machine<'_>, concurrency: &str) -> Running {
    let worker = machine.agent(["work", "--json", "--concurrency", concurrency]).spawn();
    worker.wait_stderr("working on up to");
    worker
}

/// Has it hand over and end.
#[track_caller]
pub(super) fn ended(worker: Running) -> Vec<Value> {
    worker.signal(Signal::TERM);
    let run = worker.finish();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn three_workers_of_which_one_is_killed_lose_and_double_nothing() {
    let Some(database) = Database::new("three_workers_of_which_one_is_killed") else { return };
    let (stuck, good) = (FakeProvider::repeating([Reply::Silence]), FakeProvider::repeating([Reply::text("hello")]));
    let (ann, ben, cyd) = (database.machine(&stuck), database.machine(&good), database.machine(&good));
    let sessions: Vec<String> = (0..50).map(|number| format!("s{number}")).collect();
    for some in sessions.chunks(10) {
        let submit = |session: &String| ben.agent(["submit", "--no-wait", "--session", session, "hi"]).spawn();
        for (submitted, session) in some.iter().map(submit).collect::<Vec<_>>().into_iter().zip(some) {
            let run = submitted.finish();
            assert_eq!((run.code, run.stdout.trim()), (Some(0), session.as_str()), "{}", run.stderr);
        }
    }
    assert_eq!(database.sql("SELECT count(*) FROM bob_inbox"), "50", "they wait for a worker");
    let dies = worker(&ann, "8");
    assert!(stuck.asked_within(8, SOON), "it has eight turns");
    let others = [worker(&ben, "8"), worker(&cyd, "8")];
    dies.signal(Signal::KILL);
    assert_eq!(dies.finish().signal, Some(9));
    for session in &sessions {
        let run = cyd.run(["submit", "--json", "--session", session, "--request-id", "second", "and now?"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let result: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((&result["content"], &result["request_id"]), (&"hello".into(), &"second".into()), "{result}");
    }
    let results = others.map(ended).concat();
    let named: BTreeSet<_> =
        results.iter().map(|result| result["request_id"].to_string() + &result["session_id"].to_string()).collect();
    assert_eq!((results.len(), named.len()), (100, 100), "each has one result");
    assert_eq!(good.requests().len(), 100, "no model call was made twice");
    assert_eq!(stuck.requests().len(), 8);
    assert_eq!(database.sql(&WRONG.replace("turns <> 1", "turns <> 2")), "0");
    assert_eq!(database.sql("SELECT count(*) FROM bob_inbox"), "0");
    assert_eq!(database.sql("SELECT count(*) FROM bob_sessions WHERE node IS NOT NULL"), "0", "all were released");
}

#[test]
fn every_machine_sees_all_processes_and_what_waits() {
    let Some(database) = Database::new("every_machine_sees_all_processes_and_what_waits") else { return };
    let stuck = FakeProvider::repeating([Reply::Silence]);
    let (ann, ben) = (database.machine(&stuck), database.machine(&stuck));
    let nothing = ben.run(["ps"]);
    assert_eq!(nothing.code, Some(2), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("no running cli-agent was found"), "{}", nothing.stderr);
    let works = worker(&ann, "1");
    for session in ["one", "two", "two"] {
        assert_eq!(ben.run(["submit", "--no-wait", "--session", session, "hi"]).code, Some(0));
    }
    assert!(stuck.asked_within(1, SOON), "a turn runs");
    let seen = |pid: i32, running: u64, is_alive: bool| {
        let run = ben.run(["ps", "--json"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stderr.contains("no running cli-agent was found for the configuration"), "{}", run.stderr);
        let seen: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(seen["processes"], serde_json::json!([]), "they are on another machine");
        let nodes = seen["store"]["nodes"].as_array().unwrap().clone();
        assert_eq!((nodes.len(), &seen["store"]["all_nodes"]), (1, &1.into()), "{seen}");
        assert_eq!(nodes[0]["name"], format!("cli-agent (process {pid})"));
        assert_eq!((&nodes[0]["address"], &nodes[0]["is_alive"]), (&"127.0.0.1".into(), &is_alive.into()), "{seen}");
        assert_eq!((&nodes[0]["sessions"], &nodes[0]["running"]), (&running.into(), &running.into()), "{seen}");
        seen["store"].clone()
    };
    let store = seen(works.pid(), 1, true);
    // The message of the turn that runs is there until its outcome is.
    assert_eq!((&store["inbox"]["waiting"], &store["inbox"]["sessions"]), (&3.into(), &2.into()), "{store}");
    assert!(store["inbox"]["oldest_ms"].is_u64() && store["open_turns"] == 0, "{store}");
    let text = ben.run(["ps"]);
    assert!(text.stdout.contains("inbox: 3 messages for 2 sessions, the oldest for "), "{}", text.stdout);
    assert!(text.stdout.contains(" alive ") && text.stdout.contains(") at 127.0.0.1\n"), "{}", text.stdout);
    let local = ann.run(["ps"]);
    assert!(local.stdout.contains("inbox: 3 messages") && local.stdout.contains("work (process "), "{}", local.stdout);
    let shown = ben.run(["sessions", "show", "one"]);
    assert!(shown.stderr.contains("1 message in the inbox"), "{}", shown.stderr);
    works.signal(Signal::KILL);
    assert_eq!(works.finish().signal, Some(9));
    database.until("SELECT count(*) FROM bob_nodes WHERE expires_at > clock_timestamp()", "0");
    let store = ben.run(["ps", "--json"]).stdout;
    let store: Value = serde_json::from_str(&store).unwrap();
    assert_eq!((&store["store"]["open_turns"], &store["store"]["nodes"][0]["is_alive"]), (&1.into(), &false.into()));
}

#[test]
fn every_machine_sees_what_each_process_counted() {
    let Some(database) = Database::new("every_machine_sees_what_each_process_counted") else { return };
    let good = FakeProvider::repeating([Reply::text("hello")]);
    let (ann, ben) = (database.machine(&good), database.machine(&good));
    let works = worker(&ann, "2");
    for session in ["one", "two"] {
        assert_eq!(ben.run(["submit", "--session", session, "hi"]).code, Some(0));
    }
    database.until("SELECT figures::json ->> 'ended' FROM bob_nodes WHERE figures IS NOT NULL", "2");
    let seen: Value = serde_json::from_str(&ben.run(["ps", "--json"]).stdout).unwrap();
    let figures = &seen["store"]["nodes"][0]["figures"];
    let counts = ["ended", "failed", "waiting", "steps", "tool_calls"].map(|name| figures[name].as_u64());
    assert_eq!(counts, [2, 0, 0, 2, 0].map(Some), "{seen}");
    let text = ben.run(["ps"]).stdout;
    assert!(
        text.contains("\nnode      turns  errors  waiting    steps    calls       tokens      p50      p99\n"),
        "{text}"
    );
    assert_eq!(ended(works).len(), 2);
}

#[test]
fn top_shows_all_processes_and_running_turns_where_this_machine_has_no_process() {
    let Some(database) = Database::new("top_shows_all_processes_and_running_turns") else { return };
    let stuck = FakeProvider::repeating([Reply::Silence]);
    let (ann, ben) = (database.machine(&stuck), database.machine(&stuck));
    let works = worker(&ann, "2");
    let submitted = ann.run(["submit", "--no-wait", "--session", "a-long-turn", "hi"]);
    assert_eq!(submitted.code, Some(0), "{}", submitted.stderr);
    assert!(stuck.asked_within(1, SOON), "the turn runs");
    let mut top = ben.terminal(&["top"]);
    top.wait_for("no process of this machine uses it");
    top.wait_for("cli-agent (process");
    top.wait_for("inbox: 1 message for 1 session");
    top.wait_for("a-long-turn");
    let cancelled = ben.run(["cancel", "a-long-turn"]);
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.stderr);
    top.wait_until("no turn runs", |screen| !screen.contents().contains("a-long-turn"));
    assert!(top.press_until_exit(b"q").success());
    ended(works);
}

#[test]
fn a_submitted_turn_whose_worker_dies_is_answered_once() {
    let Some(database) = Database::new("a_submitted_turn_whose_worker_dies") else { return };
    let call = Reply::call("c1", "local__list_dir", r#"{"path":"."}"#);
    let (stuck, good) = (FakeProvider::start([call, Reply::Silence]), FakeProvider::start([Reply::text("here I am")]));
    let (ann, ben) = (database.machine(&stuck), database.machine(&good));
    let submitted = ben.agent(["submit", "--follow", "--json", "--session", "one", "hi"]).spawn();
    let dies = worker(&ann, "1");
    assert!(stuck.asked_within(2, SOON), "the turn runs, behind a step with a call");
    submitted.wait_stdout("tool.completed");
    dies.signal(Signal::KILL);
    assert_eq!(dies.finish().signal, Some(9));
    let works = worker(&ben, "1");
    let run = submitted.finish();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).collect::<Vec<_>>();
    let kinds = ["turn.started", "message.user", "tool.called", "tool.completed", "message.assistant", "turn.finished"];
    assert_eq!(kinds.map(|name| of(name).len()), [1; 6], "{run:?}");
    let numbers: Vec<_> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no gap and no double");
    assert!(numbers.len() >= events.len() - 1, "all but the result are numbered: {run:?}");
    let epochs: Vec<_> = events.iter().filter_map(|event| event["epoch"].as_u64()).collect();
    assert!(epochs.is_sorted() && epochs.first() < epochs.last(), "it has moved: {epochs:?}");
    let last = events.last().unwrap();
    assert_eq!((&last["content"], &last["saved"]), (&"here I am".into(), &true.into()), "{last}");
    assert_eq!(ended(works).len(), 1);
    assert_eq!(database.sql(WRONG), "0");
}

#[test]
fn a_worker_that_is_told_to_end_hands_its_turns_over() {
    let Some(database) = Database::new("a_worker_that_is_told_to_end_hands_its_turns_over") else { return };
    let (stuck, good) = (FakeProvider::repeating([Reply::Silence]), FakeProvider::start([Reply::text("mine now")]));
    let (ann, ben) = (database.machine(&stuck), database.machine(&good));
    let config = ann.home.scratch.read("agent.toml");
    ann.home.scratch.agent_toml(&config.replace("[runtime]\n", "[runtime]\nshutdown_grace_ms = 50\n"));
    let first = worker(&ann, "4");
    let submitted = ben.agent(["submit", "--json", "--session", "one", "hi"]).spawn();
    assert!(stuck.asked_within(1, SOON), "the turn runs");
    assert_eq!(ended(first), Vec::<Value>::new(), "its turn has not ended");
    assert_eq!(database.sql("SELECT state, node IS NULL FROM bob_sessions"), "running|t", "it is open, and nobody's");
    let second = worker(&ben, "4");
    let run = submitted.finish();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["content"], "mine now", "{result}");
    assert_eq!(ended(second).len(), 1);
    assert_eq!(database.sql(WRONG), "0");
}

#[test]
fn a_turn_of_another_machine_is_cancelled_through_its_inbox() {
    let Some(database) = Database::new("a_turn_of_another_machine_is_cancelled") else { return };
    let stuck = FakeProvider::repeating([Reply::Silence]);
    let (ann, ben) = (database.machine(&stuck), database.machine(&stuck));
    let works = worker(&ann, "1");
    let running = ben.agent(["submit", "--json", "--session", "one", "hi"]).spawn();
    assert!(stuck.asked_within(1, SOON), "the turn runs");
    let behind = ben.agent(["submit", "--json", "--session", "two", "--request-id", "r2", "hi"]).spawn();
    database.until("SELECT count(*) FROM bob_inbox WHERE session = 'two'", "1");
    let nothing = ben.run(["cancel", "three"]);
    assert_eq!(nothing.code, Some(2), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("nothing runs and nothing waits in the session three"), "{}", nothing.stderr);
    let cancelled = ben.run(["cancel", "one"]);
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.stderr);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(
        run.stdout.contains("\"finish_reason\":\"cancelled\"") && run.stdout.contains("\"saved\":true"),
        "{}",
        run.stdout
    );
    assert!(stuck.asked_within(2, SOON), "the next session has its place");
    let cancelled = ben.run(["cancel", "two"]);
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.stderr);
    assert_eq!(behind.finish().code, Some(130));
    database.until("SELECT count(*) FROM bob_inbox", "0");
    assert_eq!(ended(works).len(), 2);
    assert_eq!(database.sql("SELECT count(*) FROM bob_inbox"), "0");
}

#[test]
fn a_cancellation_outlives_the_worker_that_was_to_take_it() {
    let Some(database) = Database::new("a_cancellation_outlives_the_worker") else { return };
    let stuck = FakeProvider::repeating([Reply::Silence]);
    let (ann, ben) = (database.machine(&stuck), database.machine(&stuck));
    let submitted = ben.agent(["submit", "--json", "--session", "one", "hi"]).spawn();
    let dies = worker(&ann, "1");
    assert!(stuck.asked_within(1, SOON), "the turn runs");
    dies.signal(Signal::KILL);
    assert_eq!(dies.finish().signal, Some(9));
    let cancel = ben.agent(["cancel", "one"]).spawn();
    cancel.wait_stderr("waiting for a worker that has the session");
    let works = worker(&ben, "1");
    let run = submitted.finish();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(run.stdout.contains("\"finish_reason\":\"cancelled\""), "{}", run.stdout);
    let cancelled = cancel.finish();
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.stderr);
    assert!(cancelled.stderr.contains("cancelled what ran in one"), "{}", cancelled.stderr);
    // A worker removes what has ended behind its answer, and one that is to end may leave that to the next one.
    database.until("SELECT count(*) FROM bob_inbox", "0");
    ended(works);
    assert_eq!(stuck.requests().len(), 1, "what was cancelled does not go on first");
    assert_eq!(database.sql("SELECT count(*) FROM bob_inbox"), "0");
    assert_eq!(database.sql(WRONG), "0");
}

#[test]
fn a_message_that_is_cancelled_before_its_turn_is_answered_as_a_cancelled_turn() {
    let Some(database) = Database::new("a_message_that_is_cancelled_before_its_turn") else { return };
    let stuck = FakeProvider::repeating([Reply::Silence]);
    let machine = database.machine(&stuck);
    let submitted = machine.agent(["submit", "--session", "one", "--request-id", "r1", "hi"]).spawn();
    let put = "SELECT count(*) FROM bob_inbox";
    database.until(put, "1");
    let cancel = machine.agent(["cancel", "one"]).spawn();
    database.until(put, "2");
    let works = worker(&machine, "1");
    let run = submitted.finish();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert_eq!(cancel.finish().code, Some(0));
    ended(works);
    assert_eq!(stuck.requests().len(), 0, "no model was asked");
    // The refusal stays for other senders of the message.
    assert_eq!(database.sql("SELECT count(*) FROM bob_inbox WHERE refusal IS NULL"), "0");
}

#[test]
fn a_message_that_cannot_run_is_refused_to_its_sender() {
    let Some(database) = Database::new("a_message_that_cannot_run_is_refused_to_its_sender") else { return };
    let machine = database.scripted();
    let works = worker(&machine, "2");
    let run = machine.run(["submit", "--model", "nobody:model", "--session", "one", "hi"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    assert!(run.stderr.contains("nobody"), "{}", run.stderr);
    assert!(run.stderr.contains("the message was --session one --request-id "), "{}", run.stderr);
    // One whose refusal was not read is tried again under its name.
    let again = ["submit", "--session", "two", "--request-id", "again"];
    let run = machine.run(again.into_iter().chain(["--no-wait", "--model", "nobody:model", "hi"]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    database.until("SELECT count(*) FROM bob_inbox WHERE refusal IS NOT NULL AND session = 'two'", "1");
    let run = machine.run(again.into_iter().chain(["hi"]));
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "hello"), "{}", run.stderr);
    let run = machine.run(["submit", "--session", "one", "hi"]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "hello"), "{}", run.stderr);
    for _repeated in 0..2 {
        let run = machine.run(["submit", "--session", "one", "--request-id", "r", "hi"]);
        assert_eq!((run.code, run.stdout.trim()), (Some(0), "hello"), "{}", run.stderr);
    }
    ended(works);
    let journal = machine.run(["sessions", "export", "one"]).stdout;
    assert_eq!(journal.lines().filter(|line| line.contains("\"kind\":\"outcome\"")).count(), 2, "{journal}");
}

#[test]
fn a_cancellation_is_kept_for_the_next_worker_also_where_the_first_is_on_this_machine() {
    let Some(database) = Database::new("a_cancellation_is_kept_for_the_next_worker") else { return };
    let stuck = FakeProvider::repeating([Reply::Silence]);
    let (ann, ben) = (database.machine(&stuck), database.machine(&stuck));
    let submitted = ann.agent(["submit", "--json", "--session", "one", "hi"]).spawn();
    let dies = worker(&ann, "1");
    assert!(stuck.asked_within(1, SOON), "the turn runs");
    dies.signal(Signal::STOP);
    let cancel = ben.agent(["cancel", "one"]).spawn();
    database.until("SELECT count(*) FROM bob_inbox WHERE request LIKE 'cancel-%'", "1");
    dies.signal(Signal::KILL);
    assert_eq!(dies.finish().signal, Some(9));
    let works = worker(&ben, "1");
    assert_eq!(submitted.finish().code, Some(130));
    assert_eq!(cancel.finish().code, Some(0));
    ended(works);
    assert_eq!(stuck.requests().len(), 1, "what was cancelled does not go on first");
}

#[test]
fn the_beginning_of_an_id_cancels_what_it_means_and_nothing_else() {
    let Some(database) = Database::new("the_beginning_of_an_id_cancels") else { return };
    let stuck = FakeProvider::repeating([Reply::Silence]);
    let (ann, ben) = (database.machine(&stuck), database.machine(&stuck));
    let (first, second) = (worker(&ann, "1"), worker(&ben, "2"));
    let submit = |machine: &Machine<'_>, session: &str| machine.agent(["submit", "--session", session, "hi"]).spawn();
    // `ann` and `ben` have one each; a worker takes what it sees first, so that both are asked for one after the other.
    let two = submit(&ann, "one-two");
    assert!(stuck.asked_within(1, SOON), "the turn runs");
    let one = submit(&ann, "one");
    assert!(stuck.asked_within(2, SOON), "the turn runs");
    for machine in [&ann, &ben] {
        let several = machine.run(["cancel", "on"]);
        assert_eq!(several.code, Some(2), "{}", several.stderr);
        assert!(several.stderr.contains("2 sessions begin with on"), "{}", several.stderr);
    }
    // The whole id of one is the beginning of the other.
    let cancelled = ann.run(["cancel", "one"]);
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.stderr);
    assert!(cancelled.stderr.ends_with("cancelled what ran in one\n"), "{}", cancelled.stderr);
    assert_eq!(one.finish().code, Some(130));
    let cancelled = ben.run(["cancel", "one-t"]);
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.stderr);
    assert!(cancelled.stderr.ends_with("cancelled what ran in one-two\n"), "{}", cancelled.stderr);
    assert_eq!(two.finish().code, Some(130));
    ended(first);
    ended(second);
}
