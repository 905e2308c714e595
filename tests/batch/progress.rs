//! Progress output of a batch, on a pipe and on a terminal of 80 columns and 24 rows.

use std::time::Duration;

use serde_json::json;

use crate::batch::lines::{home, line};
use crate::home::{AGENT, Home};
use crate::support::terminal::{CTRL_C, Terminal};

fn at_terminal(home: &Home, script: &str) -> Terminal {
    let script = script.replace("AGENT", AGENT);
    Terminal::start("/bin/sh", &["-c", &script], home.scratch.path(), &[]).deadline(Duration::from_secs(20))
}

#[test]
fn on_a_pipe_a_line_comes_now_and_then() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }], "delay_ms": 500 }]));
    home.scratch.write("lines.jsonl", line("s", "hi").repeat(12));
    let run = home.run(["batch", "lines.jsonl"]);
    assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 12), "{}", run.stderr);
    let progress: Vec<&str> = run.stderr.lines().filter(|line| line.contains(" of 12, ")).collect();
    assert!((1..=4).contains(&progress.len()), "every five seconds: {}", run.stderr);
    assert!(progress[0].contains("/s, ") && progress[0].contains(" left, 1 running"), "{}", progress[0]);
}

#[test]
fn a_short_batch_prints_its_summary_only_and_a_quiet_one_nothing() {
    let home = home();
    let run = home.agent(["batch", "-"]).stdin(line("s", "hi")).run();
    assert_eq!(run.stderr.lines().count(), 3, "{}", run.stderr);
    let run = home.agent(["batch", "-q", "-"]).stdin(line("s", "hi")).run();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn on_a_terminal_a_bar_is_drawn_and_taken_away() {
    let home = home();
    home.scratch.write("lines.jsonl", line("s", "slow").repeat(8));
    let terminal = at_terminal(&home, "'AGENT' --config agent.toml batch lines.jsonl > results.jsonl");
    terminal.wait_for("3 of 8, ");
    let screen = terminal.screen();
    let bar = screen.lines().find(|line| line.contains(" of 8, ")).expect("a bar");
    assert!(bar.starts_with("[==") && bar.contains(" left, 1 running"), "{screen}");
    assert!(terminal.wait_exit().success());
    let screen = terminal.screen();
    assert!(screen.contains("8 lines in ") && !screen.contains("running"), "{screen}");
    assert_eq!(home.scratch.read("results.jsonl").lines().count(), 8);
}

#[test]
fn results_and_the_bar_share_a_terminal() {
    let home = home();
    home.scratch.write("lines.jsonl", line("s", "slow").repeat(5));
    let terminal = at_terminal(&home, "'AGENT' --config agent.toml batch lines.jsonl");
    terminal.wait_for(" of 5, ");
    assert!(terminal.wait_exit().success());
    let screen = terminal.screen();
    assert!(screen.contains("\"line\":5}") && screen.contains("finished 5, "), "{screen}");
    assert!(!screen.contains(" of 5, "), "a bar was left on the screen:\n{screen}");
}

#[test]
fn ctrl_c_at_a_terminal_drains_and_twice_cancels() {
    let home = home();
    home.scratch.write("lines.jsonl", line("s", "hi") + &line("t", "stall") + &line("t", "hi"));
    let mut terminal = at_terminal(&home, "exec 'AGENT' --config agent.toml batch lines.jsonl > results.jsonl");
    terminal.wait_for("1 of 3, ");
    terminal.press(CTRL_C);
    terminal.wait_for("no new lines are started; 1 running; press Ctrl-C again to cancel");
    terminal.press(CTRL_C);
    assert_eq!(terminal.wait_exit().exit_code(), 130);
    let screen = terminal.screen();
    assert!(screen.contains("cancelled 1, ") && screen.contains("1 line was not run"), "{screen}");
    assert!(!screen.contains(" of 3, "), "a bar was left on the screen:\n{screen}");
}
