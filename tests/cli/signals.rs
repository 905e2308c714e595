//! Signals: the turn is cancelled, the outcome is printed, the session is saved, and the exit code identifies the
//! signal.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use serde_json::json;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::home::{AGENT, Home, the_line};
use crate::support::program::{Program, Running};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::stopwatch::Stopwatch;

const SOON: Duration = Duration::from_secs(60);

#[test]
fn x2_an_interrupt_in_the_middle_of_a_model_call_is_an_outcome() {
    let provider = FakeProvider::repeating([Reply::Silence]);
    let home = Home::served_by(&provider);
    let running = home.agent(["run", "--output", "json", "--session", "s", "hi"]).spawn();
    assert!(provider.asked_within(1, SOON), "the model was asked");
    running.signal(Signal::INT);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    let line = the_line(&run);
    // Whether it was saved before the output depends on the disk; it is saved when the program has ended.
    assert_eq!(line["finish_reason"], "cancelled", "{line}");
    assert!(provider.closed_early_within(1, SOON), "the provider's connection was closed");
    let shown = home.run(["sessions", "show", "s"]);
    assert!(shown.stdout.contains("you: hi"), "{shown:?}");
    assert!(shown.stderr.contains("cancelled"), "{shown:?}");
}

#[test]
fn x1_the_other_signals_have_their_codes() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let provider = FakeProvider::repeating([Reply::Silence]);
        let home = Home::served_by(&provider);
        let run = home.agent(["run", "--output", "json", "hi"]).env("BOB__RUNTIME__SHUTDOWN_GRACE_MS", "100").spawn();
        assert!(provider.asked_within(1, SOON), "the model was asked");
        run.signal(signal);
        let run = run.finish();
        assert_eq!(run.code, Some(code), "{run:?}");
        assert_eq!(the_line(&run)["finish_reason"], "cancelled");
    }
}

#[test]
fn x2_an_interrupt_before_the_prompt_was_read_is_told_as_well() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let running = home.agent(["run", "--output", "json", "--session", "s", "-"]).open_stdin();
    let running = running.env("BOB__LOG__LEVEL", "debug").spawn();
    running.wait_stderr("reading the prompt");
    running.signal(Signal::INT);
    // Its stdin stays open until it has answered the signal.
    running.wait_stdout("cancelled");
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    let line = the_line(&run);
    assert_eq!((&line["finish_reason"], &line["turn_id"]), (&json!("cancelled"), &json!(null)));
}

#[test]
fn x2_a_piped_chat_ends_on_an_interrupt() {
    let provider = FakeProvider::repeating([Reply::Silence]);
    let home = Home::served_by(&provider);
    let mut running = home.agent(["chat", "--session", "s"]).open_stdin().spawn();
    running.type_line("hi");
    assert!(provider.asked_within(1, SOON), "the model was asked");
    running.signal(Signal::INT);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    assert!(home.run(["sessions", "show", "s"]).stdout.contains("you: hi"));
}

/// The program with a stdout that is not read. Each run has a separate pipe: data in a pipe stays while any process
/// has it open, and a starting process inherits open ones.
fn unread(home: &Home, arguments: &str, grace_ms: &str) -> (Running, File) {
    static PIPES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("pipe{}", PIPES.fetch_add(1, Ordering::Relaxed));
    let pipe = home.scratch.join(&name);
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe is made");
    // Open for reading and writing, so that opening does not block.
    let held = File::options().read(true).write(true).open(&pipe).expect("the pipe opens");
    let script = format!("exec '{AGENT}' --config agent.toml {arguments} < lines > {name}");
    let shell = Program::new("/bin/sh").args(["-c", &script]).dir(home.scratch.path());
    (shell.env("BOB__RUNTIME__SHUTDOWN_GRACE_MS", grace_ms).spawn(), held)
}

/// Waits until the pipe takes no more. How many bytes that is depends on their pieces: one that does not fit behind the
/// last piece begins a page of its own, so half of the 64 KiB may stay empty.
fn until_full(pipe: &File, running: &Running, what: &str) {
    let began = Instant::now();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    while poll(&mut [PollFd::new(pipe, PollFlags::OUT)], Some(&now)).expect("the pipe is looked at") > 0 {
        let filled = ioctl_fionread(pipe).expect("the pipe says what is in it");
        assert!(began.elapsed() < SOON, "{what}: the pipe is never full: {filled} bytes; {}", running.so_far());
        std::thread::sleep(Duration::from_millis(10));
    }
}

const UNREAD: [&str; 4] = [
    "run --session s hi",
    "run --session s --output json hi",
    "run --session s --output stream-json hi",
    "chat --session s",
];

#[test]
fn a_reader_that_stops_reading_does_not_keep_the_program_from_ending() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "word ".repeat(60_000) }] }]));
    home.scratch.write("lines", "hi\n");
    for arguments in UNREAD {
        for (signals, code) in [(&[Signal::TERM][..], 143), (&[Signal::HUP], 129), (&[Signal::INT; 3], 130)] {
            let (running, pipe) = unread(&home, arguments, "100");
            until_full(&pipe, &running, &format!("{arguments}, {signals:?}"));
            let began = Stopwatch::start();
            signals.iter().for_each(|signal| running.signal(*signal));
            let run = running.finish();
            assert_eq!(run.code, Some(code), "{arguments}, {signals:?}: {run:?}");
            began.assert_within(Duration::from_secs(5), format!("{arguments}, {signals:?}"));
        }
    }
    assert!(home.run(["sessions", "show", "s"]).stdout.contains("you: hi"));
}

/// The turn has its grace period, and its answer has no reader.
#[test]
fn a_signal_that_was_heard_in_time_ends_the_program_as_well() {
    let answer = Reply::text(&"word ".repeat(60_000)).delayed(Duration::from_millis(500));
    let provider = FakeProvider::repeating([answer]);
    let home = Home::served_by(&provider);
    home.scratch.write("lines", "hi\n");
    for (asked, arguments) in (1..).zip(UNREAD) {
        // One session each: after such a long answer, the model would be asked for a summary first.
        let arguments = arguments.replace("--session s", &format!("--session s{asked}"));
        let (running, _pipe) = unread(&home, &arguments, "5000");
        assert!(provider.asked_within(asked, SOON), "the model was asked");
        running.signal(Signal::TERM);
        let run = running.finish();
        assert_eq!(run.code, Some(143), "{arguments}: {run:?}");
    }
    for asked in 1..=UNREAD.len() {
        assert!(home.run(["sessions", "show", &format!("s{asked}")]).stdout.contains("word word"));
    }
}

#[test]
fn x9_one_signal_ends_a_batch_whose_results_are_not_read() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let line = |at: u32| format!("{}\n", json!({ "session": format!("s{at}"), "prompt": "hi" }));
    home.scratch.write("lines", (0..3_000).map(line).collect::<String>());
    for (arguments, signal, code) in [("batch lines", Signal::TERM, 143), ("batch lines --quiet", Signal::HUP, 129)] {
        let (running, pipe) = unread(&home, arguments, "100");
        until_full(&pipe, &running, arguments);
        running.signal(signal);
        // The helper's deadline fails the test when it does not end.
        let run = running.finish();
        assert_eq!(run.code, Some(code), "{arguments}: {run:?}");
        assert!(run.stderr.contains(" may be missing on stdout; --finish prints them again"), "{arguments}: {run:?}");
    }
}

/// The reader pauses, and a signal comes meanwhile: it has the grace period to read on.
#[test]
fn x9_results_that_are_read_within_the_grace_are_all_printed() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello ".repeat(400) }] }]));
    let line = |at: u32| format!("{}\n", json!({ "session": format!("s{at}"), "prompt": "hi" }));
    // More than the 64 KiB of a pipe. A pipe of 16 pages has 16 results at least; with those that
    // may wait before new lines are kept from beginning, all have run when the signal comes.
    home.scratch.write("lines", (0..60).map(line).collect::<String>());
    let (running, pipe) = unread(&home, "batch lines", "60000");
    until_full(&pipe, &running, "batch lines");
    let began = Instant::now();
    while !home.run(["sessions", "show", "s59"]).stdout.contains("hello") {
        assert!(began.elapsed() < SOON, "the last line does not run: {}", running.so_far());
    }
    running.signal(Signal::TERM);
    // Only then are the results read: without them the program would end before it receives the signal.
    running.wait_stderr("send a second signal");
    let mut reader = File::open(format!("/proc/self/fd/{}", pipe.as_raw_fd())).expect("the pipe opens again");
    drop(pipe);
    let mut printed = String::new();
    reader.read_to_string(&mut printed).expect("results");
    let run = running.finish();
    assert_eq!(run.code, Some(143), "{run:?}");
    let results = printed.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count();
    assert_eq!(results, printed.lines().count(), "no line is torn");
    assert!(run.stderr.contains(&format!("finished {results}, ")), "{results} results: {}", run.stderr);
    assert!(!run.stderr.contains("may be missing"), "{}", run.stderr);
}
