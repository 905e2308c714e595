//! `/mcp reload`: the servers are read from the configuration again.

use crate::servers::fixture::{Fixture, drill, wait};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

#[test]
fn m4_a_reload_leaves_alone_what_did_not_change() {
    let provider = FakeProvider::repeating([Reply::text("ok")]);
    let fixture = Fixture::new(&provider, &(drill("same", &[], "") + &drill("old", &[], "")));
    let mut chat = fixture.agent(["chat"]).open_stdin().spawn();
    let (same, old) = (fixture.wait_started("same", 1), fixture.wait_started("old", 1));

    fixture.configure(&(drill("same", &[], "") + &drill("old", &["no such mode"], "") + &drill("new", &[], "x = 1")));
    chat.type_line("/mcp reload");
    chat.wait_stderr("unknown key");
    assert_eq!(
        (fixture.pids("same"), fixture.pids("old")),
        (vec![same], vec![old]),
        "a bad configuration changes nothing"
    );

    fixture
        .configure(&(drill("same", &[], "") + &drill("old", &[], "tool_timeout_ms = 9000") + &drill("new", &[], "")));
    chat.type_line("/mcp reload");
    chat.wait_stderr("started: new; restarted: old; unchanged: same");
    fixture.wait_started("new", 1);
    fixture.wait_started("old", 2);
    let log = fixture.log("old");
    let end_of_first = log.iter().position(|line| line["event"] == "exit" && line["pid"] == old);
    let second = log.iter().position(|line| line["event"] == "start" && line["pid"] != old);
    assert!(
        end_of_first.is_some() && end_of_first < second,
        "the old process ended before the new one began: {log:#?}"
    );
    assert_eq!(fixture.pids("same"), [same]);

    fixture.configure(&drill("new", &[], ""));
    chat.type_line("/mcp reload");
    chat.wait_stderr("stopped: same old; unchanged: new");
    wait("the two have ended", || fixture.left().len() <= 3);
    chat.type_line("Which tools are there?");
    chat.wait_stdout("ok\n");
    let offered = provider.requests()[0].body["tools"].to_string();
    assert!(offered.contains("mcp__new__echo") && !offered.contains("mcp__same__"), "{offered}");
    assert_eq!(fixture.pids("new").len(), 1);
    let run = chat.finish();
    assert_eq!(run.code, Some(2), "the bad configuration is the first that failed: {run:?}");
    fixture.assert_nothing_left();
}
