//! The folder, the program runner, the terminal, and the rule for clean output, tried on programs every machine has.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, test_kill_process};

use crate::support::clean::assert_clean;
use crate::support::program::Program;
use crate::support::scratch::Scratch;
use crate::support::stopwatch::{Stopwatch, Verdict, verdict};
use crate::support::terminal::{CTRL_C, CTRL_D, Terminal};

fn shell(script: &str) -> Program {
    Program::new("/bin/sh").args(["-c", script])
}

#[test]
fn a_scratch_folder_is_gone_afterwards() {
    let scratch = Scratch::new();
    let config = scratch.agent_toml("[runtime]\n");
    scratch.write("work/a/b.txt", "text");
    assert_eq!(config, scratch.path().join("agent.toml"));
    assert_eq!((scratch.read("agent.toml").as_str(), scratch.read("work/a/b.txt").as_str()), ("[runtime]\n", "text"));
    assert_eq!(scratch.list("."), ["agent.toml", "work"]);
    let path = scratch.path().to_owned();
    drop(scratch);
    assert!(!path.exists());
}

#[test]
fn a_run_tells_everything_apart() {
    let scratch = Scratch::new();
    let run = shell("cat; echo err >&2; pwd; exit 7").stdin("typed\n").dir(scratch.path()).run();
    let place = scratch.path().canonicalize().expect("a real path");
    assert_eq!((run.code, run.signal), (Some(7), None));
    assert_eq!((run.stdout, run.stderr.as_str()), (format!("typed\n{}\n", place.display()), "err\n"));
}

#[test]
fn a_program_sees_no_variables_but_the_kept_and_the_given() {
    let run = Program::new("/usr/bin/env").env("OPENAI_API_KEY", "given").run();
    let names: Vec<&str> = run.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"PATH") && names.contains(&"OPENAI_API_KEY"));
    // Cargo sets this variable for every test, so it represents the environment of the user's shell.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !names.contains(&"CARGO_MANIFEST_DIR"));
}

#[test]
fn signals_reach_the_program_and_lines_come_as_they_are_written() {
    // Not SIGINT: background processes ignore it, and a shell cannot trap a signal that was ignored at its start.
    let mut running = shell("trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done").spawn();
    assert_eq!(running.next_line().as_deref(), Some("ready"));
    running.signal(Signal::TERM);
    assert_eq!(running.next_line().as_deref(), Some("caught"));
    assert_eq!(running.next_line(), None);
    assert_eq!(running.finish().code, Some(3));

    let running = shell("echo ready; exec sleep 60").spawn();
    running.wait_stdout("ready");
    running.signal(Signal::TERM);
    let run = running.finish();
    assert_eq!((run.code, run.signal), (None, Some(15)));
}

#[test]
fn open_input_is_a_conversation() {
    let mut running = shell("while read line; do echo \"got $line\"; done; echo end").open_stdin().spawn();
    running.type_line("one");
    assert_eq!(running.next_line().as_deref(), Some("got one"));
    running.type_line("two");
    running.end_stdin();
    assert_eq!(running.finish().stdout, "got one\ngot two\nend\n");
}

#[test]
fn a_program_past_its_deadline_fails_the_test_and_is_killed() {
    let start = Stopwatch::start();
    let mut pid = 0;
    let hung = catch_unwind(std::panic::AssertUnwindSafe(|| {
        let running = shell("echo started; sleep 60").deadline(Duration::from_millis(300)).spawn();
        pid = running.pid();
        running.finish();
    }));
    let message = *hung.expect_err("a failed test").downcast::<String>().expect("a message");
    assert!(message.contains("exit None") && message.contains("started"), "{message}");
    start.assert_within(Duration::from_secs(30), "the test that fails");
    let pid = Pid::from_raw(pid).expect("a process id");
    let deadline = Instant::now() + Duration::from_secs(5);
    while test_kill_process(pid).is_ok() {
        assert!(Instant::now() < deadline, "the program outlived its handle");
        std::thread::yield_now();
    }
}

#[test]
fn clean_text_passes_and_every_steering_character_fails() {
    assert_clean("words\n\tgrüße, 世界 👩\u{200d}💻");
    for text in ["\x1b[31m", "a\rb", "\x07", "\x7f", "\u{9b}31m", "\u{202e}", "\u{2067}", "\u{200f}", "\u{61c}", "\0"] {
        assert!(catch_unwind(|| assert_clean(text)).is_err(), "{text:?} must not pass");
    }
}

#[test]
fn a_person_sees_the_screen_and_not_the_bytes() {
    let scratch = Scratch::new();
    let script = "stty -echo; printf 'wrong\\rright \\033[1m世界\\033[0m\\n'; read line; printf \"got <$line> $NAME $TERM\\n\"; stty size";
    let mut terminal = Terminal::start("/bin/sh", &["-c", script], scratch.path(), &[("NAME", "given")]);
    terminal.wait_for("right 世界");
    assert!(!terminal.screen().contains("wrong"), "{}", terminal.screen());
    assert!(String::from_utf8_lossy(&terminal.bytes()).contains("wrong\rright"), "the bytes are kept too");
    terminal.type_line("é");
    let status = terminal.wait_exit();
    assert!(status.success());
    assert_eq!(terminal.screen().trim_end(), "right 世界\ngot <é> given xterm-256color\n24 80");
    assert_eq!(terminal.cursor(), (3, 0));
}

#[test]
fn keys_are_signals_and_ends_of_input() {
    let scratch = Scratch::new();
    let script = "trap 'echo over; exit 4' INT; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::start("/bin/sh", &["-c", script], scratch.path(), &[]);
    terminal.wait_for("ready");
    terminal.press(CTRL_C);
    terminal.wait_for("over");
    assert_eq!(terminal.wait_exit().exit_code(), 4);

    let mut terminal = Terminal::start("/bin/cat", &[], scratch.path(), &[]);
    terminal.type_line("echoed");
    terminal.wait_for("echoed\nechoed");
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn a_screen_that_never_comes_fails_the_test_and_shows_what_is_there() {
    let scratch = Scratch::new();
    let missing = catch_unwind(|| {
        let terminal = Terminal::start("/bin/sh", &["-c", "echo here; sleep 60"], scratch.path(), &[]);
        terminal.wait_for("here");
        terminal.deadline(Duration::from_millis(100)).wait_for("elsewhere");
    });
    let message = *missing.expect_err("a failed test").downcast::<String>().expect("a message");
    assert!(message.contains("\"elsewhere\" on the screen") && message.contains("here"), "{message}");
}

#[test]
fn a_limit_that_was_missed_on_a_busy_machine_is_not_judged_and_any_other_is() {
    let ms = Duration::from_millis;
    for (took, busy, expected) in [
        (99, 0, Verdict::Kept),
        (99, 99, Verdict::Kept),
        (100, 0, Verdict::Missed),
        (100, 20, Verdict::Missed),
        (100, 26, Verdict::NotJudged),
        (1_000, 250, Verdict::Missed),
        (1_000, 251, Verdict::NotJudged),
        (30, 15, Verdict::Kept),
    ] {
        assert_eq!(verdict(ms(took), ms(busy), ms(100)), expected, "{took} ms, {busy} ms of them busy");
    }
    let watch = Stopwatch::start();
    std::thread::sleep(ms(30));
    assert!(watch.assert_within(Duration::from_secs(3_600), "a sleep") >= ms(30));
}
