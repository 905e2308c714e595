//! SIGTERM and SIGHUP: no new turns, running ones get their grace period and are saved, children end, and the exit
//! code identifies the signal.

use std::time::Duration;

use rustix::process::Signal;

use crate::signals::fixture::{Fixture, drill};
use crate::support::program::{Run, Running};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::stopwatch::Stopwatch;

/// Grace period of running turns.
const GRACE: Duration = Duration::from_millis(200);

/// Limit of the end beyond the grace period, regardless of children.
const BEYOND: Duration = Duration::from_secs(3);

/// Limit for operations without a guaranteed time.
const ARRIVES: Duration = Duration::from_secs(60);

const SIGNALS: [(Signal, i32); 2] = [(Signal::TERM, 143), (Signal::HUP, 129)];

/// The state of the turn when the signal arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It waits for a tool server that does not get ready.
    Starting,
    /// The model has sent nothing yet.
    Headers,
    /// The model is in the middle of its answer.
    Stream,
    /// The model failed, and a retry is scheduled.
    Pause,
    /// A tool that only reads runs.
    Reading,
    /// A tool that changes something runs.
    Changing,
}

const ALL: [Doing; 6] = [Doing::Starting, Doing::Headers, Doing::Stream, Doing::Pause, Doing::Reading, Doing::Changing];

/// A fixture in which a turn gets stuck in this.
struct Scene {
    fixture: Fixture,
    provider: FakeProvider,
    doing: Doing,
}

impl Scene {
    fn of(doing: Doing) -> Self {
        let reply = match doing {
            Doing::Starting | Doing::Headers => Reply::Silence,
            Doing::Stream => Reply::text("one two three four").stall_after(3),
            Doing::Pause => Reply::too_many_requests("30"),
            Doing::Reading => Reply::call("c1", "mcp__drill__sleep", r#"{"ms":60000}"#),
            Doing::Changing => Reply::call("c1", "mcp__mute__append", r#"{"path":"effects","line":"x"}"#),
        };
        let provider = FakeProvider::repeating([reply]);
        let slow = drill("slow", &["silent-init"], "startup_timeout_ms = 60000");
        let limits = "tool_timeout_ms = 50000";
        let others = drill("drill", &["launcher"], limits) + &drill("mute", &["silent-call"], limits);
        let servers = if doing == Doing::Starting { others + &slow } else { others };
        let runtime = format!("shutdown_grace_ms = {}\nturn_timeout_ms = 60000", GRACE.as_millis());
        let fixture = Fixture::new(&provider, "").keeping(&runtime, "retry_max = 2", &servers);
        Self { fixture, provider, doing }
    }

    /// Waits until the turn is stuck.
    fn wait(&self) {
        match self.doing {
            Doing::Starting => drop(self.fixture.wait_started("slow", 1)),
            Doing::Headers | Doing::Stream | Doing::Pause => assert!(self.provider.asked_within(1, ARRIVES)),
            Doing::Reading => self.fixture.wait_called("drill"),
            Doing::Changing => self.fixture.wait_called("mute"),
        }
        if matches!(self.doing, Doing::Starting | Doing::Stream | Doing::Pause) {
            // The program does not report when it has handled earlier input.
            crate::signals::fixture::wait("the input is kept", || self.shown("s").contains("hi"));
        }
    }

    fn shown(&self, session: &str) -> String {
        let run = self.fixture.agent(["sessions", "show", session]).run();
        run.stdout + &run.stderr
    }

    /// Signals a program with a stuck turn, and returns how long its end took.
    #[track_caller]
    fn end(&self, running: Running, signal: Signal, code: i32) -> (Run, Duration) {
        self.wait();
        let began = Stopwatch::start();
        running.signal(signal);
        let run = running.finish();
        let doing = self.doing;
        let took = began.assert_within(GRACE + BEYOND, format!("{doing:?}"));
        assert_eq!(run.code, Some(code), "{doing:?}: {run:?}");
        assert!(!run.stderr.contains("panic"), "{doing:?}: {run:?}");
        let shown = self.shown("s");
        assert!(shown.contains("hi") && shown.contains("cancelled"), "{doing:?}: {shown}");
        self.fixture.assert_nothing_left();
        (run, took)
    }
}

fn figures(front: &str, mut took: Vec<(Doing, Duration)>) -> String {
    took.sort_by_key(|(_, took)| *took);
    format!("{front}: from the signal to the end, grace {GRACE:?}: {took:?}")
}

#[test]
fn x1_run_ends_on_term_and_hup_whatever_its_turn_does() {
    let mut all = Vec::new();
    for (doing, (signal, code)) in ALL.into_iter().flat_map(|doing| SIGNALS.map(|signal| (doing, signal))) {
        let scene = Scene::of(doing);
        let running = scene.fixture.agent(["run", "--output", "json", "--session", "s", "hi"]).spawn();
        let (run, took) = scene.end(running, signal, code);
        let line: serde_json::Value = serde_json::from_str(&run.stdout).expect("one object");
        assert_eq!(line["finish_reason"], "cancelled", "{doing:?}: {line}");
        if doing == Doing::Changing {
            assert_eq!(line["tool_transcript"][0]["status"], "unknown", "it may have had its effect: {line}");
        }
        all.push((doing, took));
    }
    eprintln!("{}", figures("run", all));
}

#[test]
fn x1_a_piped_chat_ends_on_term_and_hup_and_begins_nothing_more() {
    let mut all = Vec::new();
    for (doing, (signal, code)) in ALL.into_iter().flat_map(|doing| SIGNALS.map(|signal| (doing, signal))) {
        let scene = Scene::of(doing);
        let mut running = scene.fixture.agent(["chat", "--session", "s"]).open_stdin().spawn();
        running.type_line("hi");
        running.type_line("one more");
        let (_, took) = scene.end(running, signal, code);
        assert!(!scene.shown("s").contains("one more"), "{doing:?}: it was not begun");
        all.push((doing, took));
    }
    eprintln!("{}", figures("chat", all));
}

#[test]
fn x1_a_batch_ends_on_term_and_hup_and_begins_nothing_more() {
    let mut all = Vec::new();
    for (doing, (signal, code)) in ALL.into_iter().flat_map(|doing| SIGNALS.map(|signal| (doing, signal))) {
        let scene = Scene::of(doing);
        let lines = ["s", "t", "u"].map(|session| format!("{{\"session\":\"{session}\",\"prompt\":\"hi\"}}\n"));
        scene.fixture.scratch.write("lines.jsonl", lines.concat());
        let running = scene.fixture.agent(["batch", "--concurrency", "1", "lines.jsonl"]).spawn();
        let (run, took) = scene.end(running, signal, code);
        assert_eq!(run.stdout.lines().count(), 1, "one outcome for the one that ran: {run:?}");
        assert!(run.stdout.contains("\"finish_reason\":\"cancelled\""), "{run:?}");
        let listed = scene.fixture.agent(["sessions", "list"]).run().stdout;
        assert_eq!(listed.lines().count(), 1, "{doing:?}: the others were not begun: {listed}");
        all.push((doing, took));
    }
    eprintln!("{}", figures("batch", all));
}

#[test]
fn x1_a_turn_that_ends_within_the_grace_has_its_answer() {
    for (signal, code) in SIGNALS {
        let provider = FakeProvider::repeating([Reply::text("in time").delayed(Duration::from_millis(500))]);
        let fixture = Fixture::new(&provider, "").keeping("shutdown_grace_ms = 10000", "retry_max = 0", "");
        let running = fixture.agent(["run", "--output", "json", "--session", "s", "hi"]).spawn();
        assert!(provider.asked_within(1, ARRIVES));
        running.signal(signal);
        let run = running.finish();
        assert_eq!(run.code, Some(code), "{run:?}");
        assert!(run.stdout.contains("\"content\":\"in time\"") && run.stdout.contains("\"saved\":true"), "{run:?}");
        assert!(fixture.agent(["sessions", "show", "s"]).run().stdout.contains("in time"));
    }
}

#[test]
fn x1_at_the_end_of_its_input_a_chat_finishes_its_turn() {
    let provider = FakeProvider::repeating([Reply::text("to the end").delayed(Duration::from_millis(500))]);
    let servers = drill("drill", &["launcher"], "");
    let fixture = Fixture::new(&provider, "").keeping("shutdown_grace_ms = 0", "retry_max = 0", &servers);
    let mut running = fixture.agent(["chat", "--session", "s"]).open_stdin().spawn();
    running.type_line("hi");
    assert!(provider.asked_within(1, ARRIVES));
    running.end_stdin();
    let run = running.finish();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "to the end\n"), "{run:?}");
    fixture.assert_nothing_left();
}

#[test]
fn x1_deaf_servers_hold_an_end_up_by_three_seconds_at_most() {
    for (signal, code) in SIGNALS {
        let provider = FakeProvider::repeating([Reply::Silence]);
        let servers = drill("deaf", &["deaf"], "") + &drill("stubborn", &["ignore-term"], "") + &drill("good", &[], "");
        let runtime = format!("shutdown_grace_ms = {}", GRACE.as_millis());
        let fixture = Fixture::new(&provider, "").keeping(&runtime, "retry_max = 0", &servers);
        let running = fixture.agent(["run", "--session", "s", "hi"]).spawn();
        for id in ["deaf", "stubborn", "good"] {
            fixture.wait_started(id, 1);
        }
        assert!(provider.asked_within(1, ARRIVES));
        let began = Stopwatch::start();
        running.signal(signal);
        let run = running.finish();
        let took = began.elapsed();
        assert_eq!(run.code, Some(code), "{run:?}");
        assert!(!run.stderr.contains("did not end in time"), "{run:?}");
        assert!(took < GRACE + BEYOND, "took {took:?}");
        eprintln!("with a deaf and a stubborn server: {took:?} from the signal to the end, grace {GRACE:?}");
        fixture.assert_nothing_left();
    }
}
