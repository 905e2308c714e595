//! The program is suspended and resumed: its deadlines have passed, but no healthy server is killed.

use std::time::Duration;

use rustix::process::Signal;

use crate::signals::fixture::{Fixture, drill, wait};
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
    let fixture = Fixture::new(&provider, "").keeping("turn_timeout_ms = 60000", "retry_max = 0", &servers);
    let mut running = fixture.agent(["chat", "--session", "s"]).open_stdin().spawn();
    let first = [fixture.wait_started("quick", 1), fixture.wait_started("slow", 1)];
    // During a start: the handshake response arrives while the program is stopped.
    running.signal(Signal::STOP);
    std::thread::sleep(HALT);
    running.signal(Signal::CONT);
    wait("both are ready", || {
        ["quick", "slow"].iter().all(|id| fixture.log(id).iter().any(|line| line["method"] == "tools/list"))
    });
    // And in the middle of a call.
    running.type_line("Call.");
    fixture.wait_called("quick");
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
        assert_eq!(fixture.pids(id), [first], "{id} was not started again");
    }
    fixture.assert_nothing_left();
}
