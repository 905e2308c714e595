//! Stderr is a full pipe without a reader: every line has its result, and the program ends, by itself and by a
//! signal.

use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

use crate::batch::lines::{home, line, results};
use crate::home::{AGENT, Home};
use crate::support::program::Run;
use crate::support::stopwatch::Stopwatch;

/// A home with verbose logging.
fn wordy(home: Home, format: &str) -> Home {
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}[log]\nlevel = \"info\"\nformat = \"{format}\"\n"));
    home
}

/// Every line of this input has a result, and the program ends by itself.
#[track_caller]
fn all_done(home: &Home, lines: usize, text: &str) -> Run {
    home.scratch.write("lines.jsonl", text);
    let run = home
        .agent(["--config", "agent.toml", "batch", "lines.jsonl"])
        .full_stderr()
        .deadline(Duration::from_secs(60))
        .run();
    assert_eq!(results(&run).len(), lines, "{run:?}");
    run
}

#[test]
fn x9_progress_that_is_not_read_stops_no_batch() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }], "delay_ms": 600 }]));
    // One after the other, so that a line of progress is due in between.
    let run = all_done(&home, 12, &line("s", "hi").repeat(12));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.millis > 5_000, "progress was due: {run:?}");
}

#[test]
fn warnings_of_a_tool_server_that_nobody_reads_stop_no_batch() {
    for format in ["text", "json"] {
        let home = home();
        let config = home.scratch.read("agent.toml");
        let server = "[[mcp.servers]]\nid = \"dies\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"exit 3\"]\n";
        home.scratch.agent_toml(&format!("{config}{server}[log]\nformat = \"{format}\"\n"));
        let text: String = (0..60).map(|at| line(&format!("s{at}"), "hi")).collect();
        let run = all_done(&home, 60, &text);
        assert_eq!(run.code, Some(0), "{run:?}");
    }
}

#[test]
fn x9_a_wordy_log_that_is_not_read_stops_no_batch() {
    for format in ["text", "json"] {
        let home = wordy(home(), format);
        let config = home.scratch.read("agent.toml");
        home.scratch.agent_toml(&config.replace("[runtime]\n", "[runtime]\nmax_steps = 2\n"));
        let text: String = (0..200).map(|at| line(&format!("s{at}"), "list")).collect();
        let run = all_done(&home, 200, &text);
        assert_eq!(run.code, Some(3), "each is ended by a guard, which is a warning: {run:?}");
    }
}

#[test]
fn x9_a_signal_ends_a_batch_whose_stderr_is_not_read() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let home = wordy(home(), "json");
        let text: String = (0..12).map(|at| line(&format!("s{at}"), if at == 0 { "hi" } else { "stall" })).collect();
        home.scratch.write("lines.jsonl", text);
        let running = home.agent(["batch", "lines.jsonl"]).full_stderr().deadline(Duration::from_secs(30)).spawn();
        running.wait_stdout("\"line\":1}");
        running.signal(signal);
        if signal == Signal::INT {
            // The first one drains; the second cancels. Two at once are one: a program that answers has taken the first.
            let looked = home.run(["ps", "--json"]);
            assert!(looked.stdout.contains("\"pid\""), "{looked:?}");
            running.signal(signal);
        }
        // The helper's deadline fails the test when it does not end.
        let run = running.finish();
        assert_eq!(run.code, Some(code), "{run:?}");
        assert_eq!(results(&run).len(), 12, "{run:?}");
    }
}

#[test]
fn the_end_of_the_program_waits_half_a_second_for_the_reader_and_no_more() {
    // A configuration error is a report of several lines.
    let home = home();
    home.scratch.agent_toml("[runtime]\nmax_stepz = 1\n");
    let began = Stopwatch::start();
    let run = home.agent(["run", "hi"]).full_stderr().run();
    began.assert_within(Duration::from_secs(3), "the start, half a second, and the end");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.millis >= 500, "the reader had its chance: {run:?}");
}

#[test]
fn a_reader_that_reads_slowly_loses_nothing() {
    let home = wordy(home(), "json");
    let text: String = (0..300).map(|at| line(&format!("s{at}"), "list")).collect();
    home.scratch.write("lines.jsonl", text);
    // It begins to read when the pipe has been full for a while.
    let script =
        format!("{{ '{AGENT}' --config agent.toml batch lines.jsonl 2>&1 >results.jsonl; }} | {{ sleep 1; cat; }}");
    let shell = crate::support::program::Program::new("/bin/sh").args(["-c", &script]).dir(home.scratch.path());
    let run = shell.deadline(Duration::from_secs(60)).run();
    assert!(run.stdout.len() > 65_536, "more than a pipe holds: {}", run.stdout.len());
    let turns = run.stdout.lines().filter(|line| line.contains("turn ended")).count();
    assert_eq!(turns, 300, "{}", run.stdout);
    assert!(run.stdout.contains("300 lines in ") && !run.stdout.contains("lost"), "{}", run.stdout);
}
