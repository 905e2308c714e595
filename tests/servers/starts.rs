//! Servers that start slowly, never, on demand, or must start.

use std::time::Duration;

use serde_json::Value;

use crate::servers::fixture::{AGENT, Fixture, drill};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::stopwatch::Stopwatch;
use crate::support::terminal::{CTRL_D, Terminal};

#[test]
fn m6_ten_hung_servers_do_not_hold_up_the_prompt() {
    let provider = FakeProvider::start([]);
    let hung: String = (0..10).map(|n| drill(&format!("hung-{n}"), &["silent-init"], "")).collect();
    let fixture = Fixture::new(&provider, &hung);
    // On a machine with other work one start may be late; it is the program that is measured.
    let start = || {
        let begun = Stopwatch::start();
        let mut terminal = Terminal::start(AGENT, &["--config", "agent.toml"], fixture.scratch.path(), &[])
            .deadline(Duration::from_secs(120));
        terminal.wait_for("auto>");
        let took = begun.elapsed();
        terminal.press(CTRL_D);
        assert!(terminal.wait_exit().success());
        took
    };
    let fastest = (0..5).map(|_| start()).min().expect("five starts");
    assert!(fastest <= Duration::from_millis(500), "the prompt was there after {fastest:?} at best");
    fixture.assert_nothing_left();
}

#[test]
fn a_first_turn_waits_for_its_servers_and_no_longer_than_they_may_take() {
    let provider = FakeProvider::start([Reply::text("hi")]);
    let hung = drill("hung", &["silent-init"], "startup_timeout_ms = 1000");
    let fixture = Fixture::new(&provider, &(drill("slow", &["slow-start=500"], "") + &hung));
    let run = fixture.agent(["run", "--output", "stream-json", "hi"]).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    let started: Value = serde_json::from_str(run.stdout.lines().next().expect("an event")).expect("JSON");
    assert_eq!(started["servers"][0], serde_json::json!({"id": "slow", "state": "ready"}), "{started}");
    // Its next start may have begun by then.
    let hung = &started["servers"][1];
    assert!(hung["id"] == "hung" && (hung["state"] == "restarting" || hung["state"] == "starting"), "{started}");
    assert!(provider.requests()[0].body.to_string().contains("mcp__slow__echo"));
    assert!(run.stderr.contains("`hung` was not ready within 1000 ms"), "{}", run.stderr);
}

#[test]
fn a_lazy_server_starts_with_the_first_turn() {
    let provider = FakeProvider::start([Reply::text("hi")]);
    let fixture = Fixture::new(&provider, &drill("lazy", &[], "start = \"lazy\""));
    let mut chat = fixture.agent(["chat"]).open_stdin().spawn();
    chat.type_line("/mcp");
    chat.wait_stderr("asleep");
    assert!(fixture.pids("lazy").is_empty());
    chat.type_line("hi");
    chat.wait_stdout("hi\n");
    assert_eq!(fixture.pids("lazy").len(), 1);
    assert_eq!(chat.finish().code, Some(0));
}

#[test]
fn a_required_server_that_does_not_start_is_a_failure_of_the_tool_plane() {
    let provider = FakeProvider::start([]);
    let required = "required = true\nstartup_timeout_ms = 3000";
    for (mode, said) in [("exit-init", "status 3"), ("silent-init", "was not ready within 3000 ms")] {
        let fixture = Fixture::new(&provider, &(drill("needed", &[mode], required) + &drill("other", &[], "")));
        let run = fixture.agent(["run", "--output", "json", "hi"]).run();
        assert_eq!(run.code, Some(6), "{run:?}");
        let result: Value = serde_json::from_str(&run.stdout).expect("one line of JSON");
        assert_eq!(result["error"]["kind"], "tool", "{result}");
        assert!(run.stderr.contains("needed") && run.stderr.contains(said), "{}", run.stderr);
        fixture.assert_nothing_left();
    }
    let missing = "[[mcp.servers]]\nid = \"gone\"\ncommand = \"no-such-program\"\nrequired = true\n";
    let loud = "[[mcp.servers]]\nid = \"loud\"\ncommand = \"sh\"\nargs = [\"-c\", \"echo no licence >&2; exit 9\"]\n\
                required = true\n";
    for (server, said) in [(missing, "no such program on the PATH"), (loud, "no licence")] {
        let run = Fixture::new(&provider, server).agent(["chat"]).run();
        assert_eq!(run.code, Some(6), "{run:?}");
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}

#[test]
fn without_node_one_warning_says_what_to_install_and_the_turn_works() {
    let provider = FakeProvider::start([Reply::text("hi")]);
    let npx = "[[mcp.servers]]\nid = \"files\"\ncommand = \"npx\"\nargs = [\"-y\", \"anything\"]\n";
    let fixture = Fixture::new(&provider, npx);
    let run = fixture.agent(["run", "hi"]).env("PATH", fixture.scratch.path()).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hi\n"), "{run:?}");
    assert!(run.stderr.contains("install Node.js"), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}
