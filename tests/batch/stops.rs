//! A batch that ends before its input: signals, and a reader that leaves.

use rustix::process::Signal;
use std::time::Duration;

use crate::batch::lines::{home, line, results};
use crate::home::{AGENT, Home};
use crate::support::program::{Program, Running};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const DRAINS: &str = "no new lines are started";

/// Enough lines that a signal arrives long before the end, also on a slow machine.
const LINES: usize = 60;

/// Sessions with a line each; the first is fast, the others as configured. The grace period is long.
fn started(home: &Home, rest: &str, concurrency: &str) -> Running {
    let text: String = (0..LINES).map(|at| line(&format!("s{at}"), if at == 0 { "hi" } else { rest })).collect();
    home.scratch.write("lines.jsonl", text);
    let running = home.agent(["batch", "--concurrency", concurrency, "lines.jsonl"]);
    let running = running.env("BOB__RUNTIME__SHUTDOWN_GRACE_MS", "60000").spawn();
    running.wait_stdout("\"line\":1}");
    running
}

#[test]
fn x2_one_interrupt_lets_running_turns_end_and_begins_no_more() {
    let home = home();
    let running = started(&home, "slow", "2");
    running.signal(Signal::INT);
    running.wait_stderr(DRAINS);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    let results = results(&run);
    assert!(results.len() < LINES, "all lines ran");
    assert!(results.iter().all(|result| result["finish_reason"] == "final"), "{run:?}");
    assert!(run.stderr.contains(&format!("finished {}, ", results.len())), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("{} lines were not run", LINES - results.len())), "{}", run.stderr);
    assert_eq!(home.run(["sessions", "list"]).stdout.lines().count(), results.len());
}

#[test]
fn x2_a_second_interrupt_cancels_what_runs() {
    let provider =
        FakeProvider::start(std::iter::once(Reply::text("hello")).chain(std::iter::repeat_n(Reply::Silence, 4)));
    let home = Home::served_by(&provider);
    let text: String = (0..12).map(|session| line(&format!("s{session}"), "hi")).collect();
    home.scratch.write("lines.jsonl", text);
    let running = home.agent(["batch", "--concurrency", "4", "lines.jsonl"]).spawn();
    assert!(provider.asked_within(5, Duration::from_secs(60)), "one was answered, and four wait");
    running.wait_stdout("hello");
    running.signal(Signal::INT);
    running.wait_stderr(DRAINS);
    running.signal(Signal::INT);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    let results = results(&run);
    let cancelled: Vec<_> = results.iter().filter(|result| result["finish_reason"] == "cancelled").collect();
    assert_eq!((cancelled.len(), results.len()), (4, 5), "{run:?}");
    // A busy store may confirm an end after the result was printed; it is in the journal nevertheless.
    for result in &cancelled {
        let (session, turn) = (result["session_id"].as_str(), result["turn_id"].as_str());
        let shown = home.run(["sessions", "export", session.expect("a session")]).stdout;
        let ended = shown.lines().any(|line| line.contains(turn.expect("a turn")) && line.contains("\"cancelled\""));
        assert!(ended, "{result} is not in the journal: {shown}");
    }
    assert!(run.stderr.contains("cancelled 4, ") && run.stderr.contains("7 lines were not run"), "{}", run.stderr);
}

#[test]
fn x2_an_interrupt_while_nothing_runs_ends_at_once() {
    let home = home();
    let mut running = home.agent(["batch", "-"]).open_stdin().spawn();
    running.type_line(line("s", "hi").trim_end());
    running.next_line().expect("a result");
    running.signal(Signal::INT);
    running.wait_stderr("the rest of the input was not run");
    assert_eq!(running.finish().code, Some(130));
}

#[test]
fn x1_the_other_signals_give_turns_their_grace_and_have_their_codes() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let home = home();
        let running = started(&home, "slow and stall", "4");
        running.signal(signal);
        let run = running.finish();
        assert_eq!(run.code, Some(code), "{run:?}");
        let results = results(&run);
        assert!((4..LINES).contains(&results.len()), "{run:?}");
        assert!(
            results.iter().all(|result| result["finish_reason"] == "final"),
            "what runs ends within the grace: {run:?}"
        );
    }
}

#[test]
fn x1_a_turn_that_outlasts_the_grace_is_cancelled() {
    let home = home();
    let text = line("s", "hi") + &line("t", "stall");
    let mut running = home.agent(["batch", "-"]).stdin(text).env("BOB__RUNTIME__SHUTDOWN_GRACE_MS", "100").spawn();
    running.next_line().expect("the quick result");
    running.signal(Signal::TERM);
    let run = running.finish();
    assert_eq!(run.code, Some(143), "{run:?}");
    assert_eq!(results(&run)[1]["finish_reason"], "cancelled");
}

#[test]
fn x7_a_reader_that_leaves_ends_the_batch_quietly() {
    let home = home();
    home.scratch.write("lines.jsonl", line("s", "slow").repeat(60));
    let script = format!("{{ '{AGENT}' --config agent.toml batch lines.jsonl; echo code $? >&2; }} | head -n 1");
    let shell = Program::new("/bin/sh").args(["-c", &script]).dir(home.scratch.path());
    let run = shell.deadline(Duration::from_secs(20)).run();
    assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    assert_eq!(run.stderr, "code 141\n", "128 and the number of SIGPIPE, and not a word");
}
