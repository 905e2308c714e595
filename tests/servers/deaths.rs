//! Servers that die: in the middle of a call, again and again, and with the program.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::servers::fixture::{Fixture, drill, kill, wait};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

#[test]
fn m1_a_server_killed_in_the_middle_of_a_call_is_replaced_and_the_turn_finishes() {
    let provider = FakeProvider::start([
        Reply::call("c1", "mcp__drill__sleep", r#"{"ms":60000}"#),
        Reply::text("It went away."),
        Reply::call("c2", "mcp__drill__echo", r#"{"text":"still here"}"#),
        Reply::text("It is back."),
    ]);
    let fixture = Fixture::new(&provider, &(drill("drill", &[], "tool_timeout_ms = 50000") + &drill("other", &[], "")));
    let mut chat = fixture.agent(["chat"]).open_stdin().spawn();
    chat.type_line("Sleep.");
    fixture.wait_called("drill");
    let (victim, other) = (fixture.wait_started("drill", 1), fixture.wait_started("other", 1));
    kill(victim);
    chat.wait_stdout("It went away.\n");
    let told = provider.requests()[1].body.to_string();
    assert!(told.contains("outcome unknown") && told.contains("signal 9"), "{told}");
    // The next call waits for the replacement.
    chat.type_line("Say something.");
    chat.wait_stdout("It is back.\n");
    let told = provider.requests()[3].body.to_string();
    assert!(told.contains("still here"), "{told}");
    let calls = fixture.log("drill").into_iter().filter(|line| line["method"] == "tools/call").count();
    assert_eq!(calls, 2, "nothing was called twice");
    assert_eq!((fixture.pids("drill").len(), fixture.pids("other")), (2, vec![other]));
    let run = chat.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.stderr.matches("warning: the tool server `drill`").count(), 1, "{}", run.stderr);
    fixture.assert_nothing_left();
}

#[test]
fn m2_launchers_and_grandchildren_end_with_the_program() {
    let provider = FakeProvider::start([Reply::text("hi")]);
    let servers = ["launcher", "grandchild", "ignore-term", "deaf"];
    let tables: String = servers.iter().map(|mode| drill(mode, &[mode], "")).collect();
    let fixture = Fixture::new(&provider, &tables);
    let run = fixture.agent(["run", "hi"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hi\n"), "{run:?}");
    assert!(!run.stderr.contains("did not end in time"), "{}", run.stderr);
    assert!(servers.iter().all(|id| !fixture.pids(id).is_empty()));
    fixture.assert_nothing_left();
}

#[test]
fn a_killed_program_leaves_no_server_behind() {
    let provider = FakeProvider::start([Reply::call("c1", "mcp__drill__sleep", r#"{"ms":60000}"#)]);
    let fixture =
        Fixture::new(&provider, &(drill("drill", &["ignore-term"], "") + &drill("second", &["launcher"], "")));
    let mut chat = fixture.agent(["chat"]).open_stdin().spawn();
    chat.type_line("Sleep.");
    fixture.wait_called("drill");
    chat.signal(Signal::KILL);
    assert_eq!(chat.finish().signal, Some(9));
    fixture.assert_nothing_left();
}

#[test]
fn m7_a_crash_loop_opens_the_breaker_and_a_restart_by_hand_tries_again() {
    let provider = FakeProvider::repeating([Reply::text("hi")]);
    let fixture = Fixture::new(&provider, &(drill("bad", &["init-exit"], "") + &drill("good", &[], "")));
    let mut chat = fixture.agent(["chat"]).open_stdin().spawn();
    let until = Instant::now() + Duration::from_secs(60);
    let row = loop {
        assert!(Instant::now() < until, "it does not give up: {}", chat.so_far());
        chat.type_line("/mcp");
        let said = chat.so_far();
        if let Some(row) = said.lines().find(|line| line.starts_with("bad") && line.contains("gave up")) {
            break row.to_owned();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[..5], ["bad", "stdio", "gave", "up", "0"]);
    assert_eq!(fixture.pids("bad").len(), 7, "the first start, one without a question, and five restarts");
    chat.type_line("hi");
    chat.wait_stderr("is left down, without its tools");
    chat.type_line("/mcp restart bad");
    wait("it is tried again", || fixture.pids("bad").len() > 7);
    chat.type_line("/mcp restart nobody");
    chat.wait_stderr("there is no tool server nobody");
    assert_eq!(fixture.pids("good").len(), 1, "the other one noticed nothing");
    let run = chat.finish();
    assert_eq!(run.code, Some(2), "the mistake of `nobody` is the first that failed: {run:?}");
    fixture.assert_nothing_left();
}
