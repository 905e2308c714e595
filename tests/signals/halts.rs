//! The program is halted and goes on: its deadlines have passed, and nothing healthy is ended for it.

use std::time::Duration;

use rustix::process::Signal;

use crate::house::{House, drill, wait};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

/// Longer than the limits below, shorter than a test should be.
const HALT: Duration = Duration::from_millis(2_500);

#[test]
fn x6_a_halt_longer_than_every_limit_ends_no_healthy_server() {
    let provider =
        FakeProvider::repeating([Reply::call("c1", "mcp__quick__sleep", r#"{"ms":400}"#), Reply::text("Back again.")]);
    let servers = drill("quick", &[], "tool_timeout_ms = 30000\nstartup_timeout_ms = 2000")
        + &drill("slow", &["slow-start=1000"], "startup_timeout_ms = 2000");
    let house = House::new(&provider, "").keeping("turn_timeout_ms = 60000", "retry_max = 0", &servers);
    let mut running = house.agent(["chat", "--session", "s"]).open_stdin().spawn();
    let first = [house.wait_started("quick", 1), house.wait_started("slow", 1)];
    // In the middle of a start: the handshake comes while nobody can read it.
    running.signal(Signal::STOP);
    std::thread::sleep(HALT);
    running.signal(Signal::CONT);
    wait("both are ready", || {
        ["quick", "slow"].iter().all(|id| house.log(id).iter().any(|line| line["method"] == "tools/list"))
    });
    // And in the middle of a call.
    running.type_line("Call.");
    house.wait_called("quick");
    running.signal(Signal::STOP);
    std::thread::sleep(HALT);
    running.signal(Signal::CONT);
    running.wait_stdout("Back again.\n");
    let told = provider.requests()[1].body.to_string();
    assert!(told.contains("slept 400 ms"), "the call came to its end: {told}");
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    for (id, first) in ["quick", "slow"].into_iter().zip(first) {
        assert_eq!(house.pids(id), [first], "{id} was not started again");
    }
    house.assert_nothing_left();
}
