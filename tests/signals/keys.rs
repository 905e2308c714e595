//! A person at a terminal: Ctrl-C once, twice and three times, and a terminal that is closed.

use std::time::Duration;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, test_kill_process};

use crate::signals::fixture::{AGENT, Fixture, drill, wait};
use crate::support::program::KEPT_VARIABLES;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::stopwatch::Stopwatch;
use crate::support::terminal::{CTRL_C, Terminal};

const PROMPT: &str = "auto>";

fn chat(fixture: &Fixture) -> Terminal {
    let terminal =
        Terminal::start(AGENT, &["--config", "agent.toml", "chat", "--session", "s"], fixture.scratch.path(), &[]);
    let terminal = terminal.deadline(Duration::from_secs(30));
    terminal.wait_for(PROMPT);
    terminal
}

fn prompts(terminal: &Terminal, count: usize) {
    terminal.wait_until(&format!("prompt number {count}"), |screen| screen.contents().matches(PROMPT).count() >= count);
}

fn lives(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

#[test]
fn x2_the_first_ctrl_c_ends_the_turn_and_nothing_else_and_the_second_leaves() {
    let provider = FakeProvider::start([
        Reply::call("c1", "mcp__drill__sleep", r#"{"ms":60000}"#),
        Reply::call("c2", "mcp__drill__pid", "{}"),
        Reply::text("Still there."),
    ]);
    let servers = drill("drill", &["launcher"], "tool_timeout_ms = 50000") + &drill("other", &[], "");
    let fixture = Fixture::new(&provider, "").keeping("", "retry_max = 0", &servers);
    let mut terminal = chat(&fixture);
    let servers = [fixture.wait_started("drill", 1), fixture.wait_started("other", 1)];
    terminal.type_line("Sleep.");
    fixture.wait_called("drill");
    let began = Stopwatch::start();
    terminal.press(CTRL_C);
    terminal.wait_for("[cancelled]");
    let took = began.assert_within(Duration::from_secs(1), "the word on the screen");
    eprintln!("from Ctrl-C to the word on the screen: {took:?}");
    prompts(&terminal, 2);
    terminal.type_line("Who are you?");
    terminal.wait_for("Still there.");
    assert!(servers.into_iter().all(lives), "the servers are the same as before");
    assert_eq!((fixture.pids("drill").len(), fixture.pids("other").len()), (1, 1), "nothing was started again");

    prompts(&terminal, 3);
    terminal.press(CTRL_C);
    terminal.wait_for("press Ctrl-C again to leave");
    prompts(&terminal, 4);
    let began = Stopwatch::start();
    terminal.press(CTRL_C);
    assert!(terminal.wait_exit().success(), "at the prompt it leaves, as asked");
    let took = began.assert_within(Duration::from_secs(2), "the end");
    eprintln!("from the second Ctrl-C to the end: {took:?}");
    fixture.assert_nothing_left();
}

#[test]
fn x2_ctrl_c_over_and_over_cancels_each_turn_soon() {
    const TURNS: usize = 30;
    let provider = FakeProvider::repeating([Reply::Silence]);
    let fixture = Fixture::new(&provider, "").keeping("", "retry_max = 0", &drill("drill", &[], ""));
    let mut terminal = chat(&fixture);
    let mut took = Vec::new();
    for number in 1..=TURNS {
        terminal.type_line("hi");
        assert!(provider.asked_within(number, Duration::from_secs(60)));
        let began = Stopwatch::start();
        terminal.press(CTRL_C);
        terminal.wait_written("[cancelled]", number);
        took.push(began.elapsed());
        // The next line is read by the editor again, which paints its prompt first.
        terminal.wait_until("the next prompt", |screen| screen.cursor_position().1 == 6);
    }
    took.sort_unstable();
    eprintln!("from Ctrl-C to the word on the terminal: p50 {:?}, max {:?}", took[TURNS / 2], took[TURNS - 1]);
    assert!(took[TURNS / 2] < Duration::from_millis(100), "{took:?}");
    assert_eq!(fixture.pids("drill").len(), 1, "nothing was started again");
}

#[test]
fn x2_the_third_ctrl_c_ends_the_program_now_and_its_children_soon() {
    let provider = FakeProvider::start([Reply::Silence]);
    let servers = drill("stubborn", &["ignore-term"], "") + &drill("family", &["grandchild"], "");
    let fixture = Fixture::new(&provider, "").keeping("", "retry_max = 0", &servers);
    let mut terminal = chat(&fixture);
    for id in ["stubborn", "family"] {
        fixture.wait_started(id, 1);
    }
    // Ready, so that it ignores the end of its input.
    wait("the stubborn server is ready", || fixture.log("stubborn").iter().any(|line| line["method"] == "tools/list"));
    terminal.type_line("hi");
    assert!(provider.asked_within(1, Duration::from_secs(60)));
    terminal.press(CTRL_C);
    terminal.wait_for("[cancelled]");
    prompts(&terminal, 2);
    terminal.press(CTRL_C);
    prompts(&terminal, 3);
    terminal.press(CTRL_C);
    // The program is ending, and its stubborn child has three seconds; a second signal ends the wait.
    wait("the program is leaving", || fixture.log("family").iter().any(|line| line["event"] == "end of stdin"));
    let began = Stopwatch::start();
    terminal.press(CTRL_C);
    let exit = terminal.wait_exit();
    let took = began.assert_within(Duration::from_secs(1), "the end");
    assert_eq!(exit.exit_code(), 130);
    eprintln!("from the third Ctrl-C to the end: {took:?}");
    fixture.assert_nothing_left();
}

#[test]
fn x2_a_run_is_ended_by_one_two_and_three_interrupts() {
    for interrupts in 1..=3 {
        let provider = FakeProvider::repeating([Reply::Silence]);
        let servers = drill("stubborn", &["ignore-term"], "");
        let fixture = Fixture::new(&provider, "").keeping("", "retry_max = 0", &servers);
        let running = fixture.agent(["run", "--session", "s", "hi"]).spawn();
        assert!(provider.asked_within(1, Duration::from_secs(60)));
        let began = Stopwatch::start();
        for _ in 0..interrupts {
            running.signal(Signal::INT);
            // Equal pending signals are merged.
            std::thread::sleep(Duration::from_millis(100));
        }
        let run = running.finish();
        assert_eq!(run.code, Some(130), "{interrupts}: {run:?}");
        let most = if interrupts == 1 { Duration::from_secs(5) } else { Duration::from_secs(2) };
        let took = began.assert_within(most, format!("{interrupts} interrupts"));
        eprintln!("run with a stubborn server, {interrupts} interrupts: {took:?}");
        assert!(fixture.agent(["sessions", "show", "s"]).run().stdout.contains("hi"));
        fixture.assert_nothing_left();
    }
}

/// A program on a terminal that this test can close; its output is not read.
struct Closable {
    terminal: Option<portable_pty::PtyPair>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
}

impl Closable {
    fn start(fixture: &Fixture, args: &[&str]) -> Self {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let terminal = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(AGENT);
        command.args(["--config", "agent.toml"]);
        command.args(args);
        command.cwd(fixture.scratch.path());
        command.env_clear();
        for name in KEPT_VARIABLES {
            std::env::var_os(name).into_iter().for_each(|value| command.env(name, value));
        }
        command.env("TERM", "xterm-256color");
        let child = terminal.slave.spawn_command(command).expect("a program that starts");
        Self { terminal: Some(terminal), child }
    }

    /// Closes the terminal, and returns the program's exit code, the time until its end, and its CPU time since then.
    fn close(mut self) -> (u32, Duration, Duration) {
        let pid = self.child.process_id().expect("a process");
        let (began, before) = (Stopwatch::start(), used(pid).expect("a process that lives"));
        drop(self.terminal.take());
        let mut last = before;
        let exit = loop {
            // Until it is reaped, its CPU time can be read.
            last = used(pid).unwrap_or(last);
            match self.child.try_wait().expect("a child of ours") {
                Some(exit) => break exit,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
        };
        (exit.exit_code(), began.elapsed(), last.saturating_sub(before))
    }
}

/// The processor time of a process, in steps of 10 ms.
fn used(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

#[test]
fn x3_a_closed_terminal_ends_the_program_in_time_and_without_a_busy_loop() {
    let tables = drill("good", &[], "") + &drill("stubborn", &["ignore-term"], "");
    for (what, args) in [
        ("at the prompt", &["chat", "--session", "s"][..]),
        ("in a silent turn of run", &["run", "--session", "s", "hi"]),
        ("in a growing answer of run", &["run", "--session", "s", "--output", "stream-json", "grow"]),
    ] {
        let growing = Reply::text(&"word ".repeat(4_000)).paced(Duration::from_millis(20));
        let provider = FakeProvider::answering(move |body| match body.to_string().contains("grow") {
            true => growing.clone(),
            false => Reply::Silence,
        });
        let fixture = Fixture::new(&provider, "").keeping("shutdown_grace_ms = 500", "retry_max = 0", &tables);
        let program = Closable::start(&fixture, args);
        for id in ["good", "stubborn"] {
            fixture.wait_started(id, 1);
        }
        wait("the servers are ready", || {
            ["good", "stubborn"].iter().all(|id| fixture.log(id).iter().any(|line| line["method"] == "tools/list"))
        });
        if args[0] == "run" {
            assert!(provider.asked_within(1, Duration::from_secs(60)), "{what}");
        }
        let (code, took, used) = program.close();
        eprintln!("closed {what}: code {code}, {took:?}, {used:?} of a processor");
        assert!(took < Duration::from_secs(5), "{what}: took {took:?}");
        assert!(used <= Duration::from_millis(500), "{what}: used {used:?}");
        assert_eq!(code, 129, "{what}");
        fixture.assert_nothing_left();
        if args[0] == "run" {
            let shown = fixture.agent(["sessions", "show", "s"]).run();
            assert!(shown.stdout.contains("you: ") && shown.stderr.contains("cancelled"), "{what}: {shown:?}");
        }
    }
}
