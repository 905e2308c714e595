//! The refund test of `drill/refund`: the program is killed at boundaries of a turn that pays money back.
//!
//! Only boundaries that do not depend on time are expected to have one verdict: the refund is asked for and has no answer.

use serde_json::{Value, json};

use crate::home::AGENT;
use crate::support::program::Program;

const TEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drill/refund/refund.py");

/// Runs an adapter once at each of these boundaries: the exit code, and the line it prints.
fn refund(adapter: &str, boundaries: &[&str], more: &[&str]) -> (Option<i32>, Value) {
    let boundaries = boundaries.iter().flat_map(|boundary| ["--boundary", boundary]);
    let run = Program::new(TEST)
        .args(["--agent", AGENT, "--adapter", adapter, "--times", "1", "--json"])
        .args(boundaries)
        .args(more.iter().copied())
        .run();
    let line = serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"));
    (run.code, line)
}

#[test]
fn a_refund_is_neither_lost_nor_doubled_by_a_kill_and_what_is_not_known_is_told() {
    let boundaries = ["model 1 asked", "model 2 answered", "refund asked", "refund done", "model 3 answered"];
    let (code, line) = refund("bob", &boundaries, &[]);
    let total = &line["total"];
    assert_eq!((code, &total["lost"], &total["doubled"], &total["silent"]), (Some(0), &json!(0), &json!(0), &json!(0)));
    assert_eq!(line["rows"][0]["right"], 1, "nothing had happened yet: {line}");
    assert_eq!([&line["rows"][2]["unknown"], &line["rows"][3]["unknown"]], [1, 1], "{line}");
}

#[test]
fn a_refund_with_an_idempotency_key_is_made_once() {
    let (code, line) = refund("bob", &["refund asked", "refund done"], &["--keyed"]);
    assert_eq!((code, &line["total"]["right"]), (Some(0), &json!(2)), "{line}");
}

#[test]
fn the_refund_test_finds_a_loop_that_pays_twice() {
    let (code, line) = refund("restart", &["refund asked", "refund done", "model 3 asked"], &[]);
    assert_eq!((code, &line["total"]["right"], &line["total"]["doubled"]), (Some(0), &json!(1), &json!(2)), "{line}");
}
