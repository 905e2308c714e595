//! Start, verdicts, calls, crashes and shutdown of a server.
//!
//! The server is a `sh` script, so that each test controls its behaviour.

use super::*;
use crate::address::RETURNS_WITHIN;
use crate::child::testing::{DEADLINE, group_is_gone, processes, soon, until};
use crate::mcp::testing::{Fixture, arguments, judged, script, server};
use crate::stopwatch::Stopwatch;
use crate::tools::local::fixture::call;
use bob_messages::chat::CallStatus;
use bob_messages::ids::ServerId;
use bob_messages::mcp::ServerState;
use bob_messages::options::{ServerSpec, ServerTransport};
use bob_messages::permission::PermissionMode;
use bob_messages::tools::{CallContext, Risk, Verdict};
use serde_json::json;
use std::time::Instant as Clock;

#[tokio::test]
async fn a_call_reaches_the_server_and_comes_back() {
    let fixture = Fixture::with(server("")).await;
    let status = fixture.ready().await;
    assert_eq!((status.tools, status.server.as_deref()), (3, Some("sh 1")));
    let returned = fixture.perform("echo").await;
    assert_eq!((returned.status, returned.output.plain().as_str()), (CallStatus::Ok, "heard"));
}

#[tokio::test]
async fn a_question_that_comes_before_the_server_is_ready_waits_for_it() {
    let fixture = Fixture::with(server(r#"*'"method":"tools/list"'*) sleep 0.3; answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}}]}' ;;"#)).await;
    assert_eq!(fixture.status().state, ServerState::Starting);
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
}

#[tokio::test]
async fn a_lazy_server_sleeps_until_it_is_needed() {
    let mut arguments = arguments(server(""));
    arguments.spec.start = ServerStart::Lazy;
    let fixture = Fixture::start(arguments).await;
    assert_eq!((fixture.status().state, fixture.status().pid), (ServerState::Asleep, None));
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
    assert!(fixture.status().pid.is_some());
}

#[tokio::test]
async fn a_killed_server_is_noticed_at_once_and_its_calls_are_unknown() {
    let mut fixture = Fixture::with(server("")).await;
    let pid = fixture.ready().await.pid.expect("a process");
    let (first, second) = (fixture.begin("hang").await, fixture.begin("hang").await);
    // The second call may still be on its way to the server when this one is answered.
    fixture.perform("echo").await;
    let killed = Stopwatch::start();
    kill(pid);
    for call in [first, second] {
        let returned = soon(call).await.expect("an answer");
        assert_eq!(returned.status, CallStatus::Unknown);
        let text = returned.output.plain();
        assert!(text.contains("outcome unknown") && text.contains("signal 9"), "{text}");
    }
    let end = fixture.end().await;
    killed.assert_within(Duration::from_millis(1000), "the kill was noticed");
    assert!(end.contains("`sh` was ended by signal 9"), "{end}");
    group_is_gone(pid).await;
}

#[tokio::test]
async fn a_server_that_dies_by_a_call_says_its_last_words_and_is_back_for_the_next() {
    let mut fixture = Fixture::with(server("")).await;
    let returned = fixture.perform("die").await;
    assert_eq!(returned.status, CallStatus::Unknown);
    assert!(fixture.end().await.contains("last output: I cannot go on"));
    fixture.server.start_again().await;
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
}

#[tokio::test]
async fn whoever_asks_while_it_is_started_again_waits_as_long_as_its_start_takes_and_two_seconds_more() {
    let mut fixture = Fixture::with(server("")).await;
    fixture.perform("die").await;
    fixture.end().await;
    // The place of the successor is taken, as by a process that does not go.
    let place = Arc::clone(&fixture.server.arguments.place.taken).lock_owned().await;
    fixture.server.start_again().await;
    let usual = Duration::from_millis(700);
    fixture.server.arguments.publisher.as_ref().expect("a publisher").started_within(usual);
    let asked = Clock::now();
    let verdict = fixture.check(&call("mcp/sh/echo", json!({}))).await;
    let Verdict::Unavailable { why } = verdict else { panic!("not turned away: {verdict:?}") };
    assert!(why.starts_with("not run: ") && why.contains("`sh`"), "{why}");
    assert!(asked.elapsed() >= usual + RETURNS_WITHIN);
    // No longer than the call itself may take.
    let (brief, asked) = (CallContext { tool_timeout_ms: 200, ..(*fixture.context).clone() }, Clock::now());
    let verdict = judged(&fixture.registry, &call("mcp/sh/echo", json!({})), &Arc::new(brief)).await;
    assert!(matches!(verdict, Verdict::Unavailable { .. }) && asked.elapsed() < RETURNS_WITHIN, "{verdict:?}");
    drop(place);
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
}

#[tokio::test]
async fn a_start_that_fails_is_the_actors_end_and_leaves_nothing() {
    let wrong_version = r#"*'"method":"initialize"'*) answer '{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}' ;;"#;
    let no_list = r#"*'"method":"tools/list"'*) answer '{"tools":7}' ;;"#;
    for (spec, why) in [
        (script("echo oh no >&2; exit 3"), "ended with status 3, last output: oh no"),
        (script("exec sleep 1000"), "was not ready within 300 ms"),
        (script("while :; do echo junk; echo '{\"half\":'; sleep 0.01; done"), "was not ready within 300 ms"),
        (script("exec >&-; exec sleep 1000"), "closed the connection during the handshake"),
        (
            script(
                "read -r line; echo '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":7}'; read -r line; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}'; exec sleep 1000",
            ),
            "answers the handshake with something else",
        ),
        (
            script(
                "for id in 0 1; do read -r line; echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"error\":{\"code\":-32602,\"message\":\"never\"}}'; done; exec sleep 1000",
            ),
            "refuses the handshake: never (-32602)",
        ),
        (server(wrong_version), "speaks version \"1999-01-01\""),
        (server(no_list), "does not list its tools"),
        (
            ServerSpec::stdio(ServerId::new("sh"), "no-such-program-here", [""; 0]),
            "cannot start `no-such-program-here`",
        ),
    ] {
        let mut arguments = arguments(spec);
        // Those that are not to be late may be slow on a busy machine.
        arguments.spec.startup_timeout_ms = if why.contains("300 ms") { 300 } else { 20_000 };
        let watcher = arguments.watcher.clone();
        let mut fixture = Fixture::start(arguments).await;
        let pid = fixture.status().pid;
        let question = call("mcp/sh/echo", json!({}));
        let verdict = fixture.check(&question).await;
        assert!(matches!(&verdict, Verdict::Unavailable { why } if why.starts_with("not run: ")), "{verdict:?}");
        let end = fixture.end().await;
        assert!(end.contains("the tool server `sh`") && end.contains(why), "{why}: {end}");
        assert!(watcher.idle(DEADLINE).await, "{why}: something is left");
        if let Some(pid) = pid {
            assert!(!processes().iter().any(|process| process.group == pid && !process.is_zombie), "{why}");
        }
    }
}

#[tokio::test]
async fn what_a_server_was_given_in_its_environment_is_not_repeated() {
    let refusal = r#"for id in 0 1; do read -r line; echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":1,"message":"bad '"$KEY"'"}}'; done; exec cat"#;
    for (program, why) in [
        ("echo \"bad $KEY-2 $LONGER\" >&2; exit 3", "last output: bad …-2 …"),
        (refusal, "refuses the handshake: bad … (1)"),
    ] {
        let spec = script(program).with("KEY", "canary").with("LONGER", "canary-1");
        let mut fixture = Fixture::with(spec).await;
        let verdict = fixture.check(&call("mcp/sh/echo", json!({}))).await;
        let end = fixture.end().await;
        assert!(end.contains(why), "{end}");
        assert!(!format!("{end} {verdict:?}").contains("canary"), "{end} {verdict:?}");
    }
}

/// A server of an older version that takes the first request for the handshake, or ends.
#[tokio::test]
async fn a_server_that_ends_because_of_an_unknown_question_is_started_again_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let starts = folder.path().join("starts");
    let arm = format!(r#"*'"method":"server/discover"'*) echo asked >> '{}'; exit 1 ;;"#, starts.display());
    let mut fixture = Fixture::with(server(&arm)).await;
    let status = fixture.ready().await;
    assert_eq!((status.protocol.as_deref(), status.restarts), (Some("2025-11-25"), 0), "{status:?}");
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
    kill(status.pid.expect("a process"));
    fixture.end().await;
    fixture.server.start_again().await;
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
    assert_eq!(std::fs::read_to_string(&starts).expect("it was asked"), "asked\n", "its successor is not asked");
}

/// A server of an older version that refuses the first request, and ends all the same.
#[tokio::test]
async fn a_server_that_refuses_an_unknown_question_and_ends_is_started_again_without_it() {
    let fixture = Fixture::with(server(r#"*'"method":"server/discover"'*) refuse; exit 1 ;;"#)).await;
    let status = fixture.ready().await;
    assert_eq!(status.protocol.as_deref(), Some("2025-11-25"), "{status:?}");
}

/// It could not start at all for a while, and is of an older version that ends because of the question.
#[tokio::test]
async fn a_server_that_could_not_start_is_found_out_when_it_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let (well, starts) = (folder.path().join("well"), folder.path().join("starts"));
    let mut spec = server(r#"*'"method":"server/discover"'*) exit 1 ;;"#);
    let ServerTransport::Stdio(command) = &mut spec.transport else { panic!("a process") };
    command.args[1] =
        format!("echo x >> '{}'\n[ -e '{}' ] || exit 1\n{}", starts.display(), well.display(), command.args[1]);
    let mut fixture = Fixture::with(spec).await;
    fixture.end().await;
    let started = || std::fs::read_to_string(&starts).expect("it was started").lines().count();
    assert_eq!(started(), 2, "with the question and without it");
    for so_far in 3..=5 {
        fixture.server.start_again().await;
        fixture.end().await;
        assert_eq!(started(), so_far, "once each time");
    }
    std::fs::write(&well, "").expect("written");
    fixture.server.start_again().await;
    // The seventh start asks the question again and ends, the eighth does not ask it.
    fixture.end().await;
    fixture.server.start_again().await;
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
}

/// A server of both versions whose first question decides, and which the handshake has reached before it answered that one.
#[tokio::test]
async fn a_server_that_says_too_late_that_it_speaks_the_newest_version_is_started_again_and_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let starts = folder.path().join("starts");
    // The second process answers at once, the third when it would have been given up.
    let arms = r#"
    *'"method":"server/discover"'*)
      case $(wc -l <STARTS) in 1) asked=$id; continue ;; 3) sleep 3 ;; esac
      answer "$newest" ;;
    *'"method":"initialize"'*) hello=$id; id=$asked; answer "$newest"; id=$hello; refuse ;;
    *'"name":"echo"'*) answer '{"resultType":"complete","content":[{"type":"text","text":"heard"}]}' ;;"#;
    let mut spec = server(&arms.replace("STARTS", &starts.display().to_string()));
    let ServerTransport::Stdio(command) = &mut spec.transport else { panic!("a process") };
    let newest = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{}}}"#;
    command.args[1] = format!("echo x >>'{}'\nnewest='{newest}'\n{}", starts.display(), command.args[1]);
    // A third of it is the time for the question.
    spec.startup_timeout_ms = 6_000;
    let mut fixture = Fixture::with(spec).await;
    let status = fixture.ready().await;
    assert_eq!((status.protocol.as_deref(), status.restarts), (Some("2026-07-28"), 0), "{status:?}");
    kill(status.pid.expect("a process"));
    fixture.end().await;
    fixture.server.start_again().await;
    // The call waits for the successor.
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
    let started = std::fs::read_to_string(&starts).expect("it was started");
    assert_eq!(started.lines().count(), 3, "its successor is waited for");
}

#[tokio::test]
async fn a_server_that_closes_its_output_is_ended() {
    let mut fixture = Fixture::with(server(r#"*'"name":"hang"'*) exec >&-; exec sleep 1000 ;;"#)).await;
    let pid = fixture.ready().await.pid.expect("a process");
    let begun = Stopwatch::start();
    assert_eq!(fixture.perform("hang").await.status, CallStatus::Unknown);
    begun.assert_within(Duration::from_secs(1), "the closed output was noticed");
    assert!(fixture.end().await.contains("closed its output"));
    group_is_gone(pid).await;
}

/// A process that holds the server's stderr delays the end of the actor briefly.
#[tokio::test]
async fn a_call_between_the_end_of_a_server_and_that_of_its_actor_goes_to_the_successor() {
    let mut fixture = Fixture::with(server(r#"*'"name":"die"'*) setsid sleep 1 & kill -9 $$ ;;"#)).await;
    fixture.ready().await;
    assert_eq!(fixture.perform("die").await.status, CallStatus::Unknown);
    let asked = fixture.performing("echo");
    let restarted = async {
        fixture.end().await;
        fixture.server.start_again().await;
    };
    let (returned, ()) = tokio::join!(asked, restarted);
    assert_eq!((returned.status, returned.output.plain().as_str()), (CallStatus::Ok, "heard"), "{returned:?}");
}

#[tokio::test]
async fn a_stopped_actor_ends_its_server_however_deaf() {
    let quiet = server(r#"*'"name":"hang"'*) trap '' TERM; sleep 1000 & while :; do sleep 1000; done ;;"#);
    let fixture = Fixture::with(quiet).await;
    let pid = fixture.ready().await.pid.expect("a process");
    let begun = fixture.begin("hang").await;
    // The trap is set when the shell has started its first sleep.
    until("it is deaf", || processes().iter().filter(|process| process.group == pid).count() > 1).await;
    let stopped = Stopwatch::start();
    fixture.server.actor.stop(None);
    assert_eq!(soon(begun).await, None);
    group_is_gone(pid).await;
    stopped.assert_within(Duration::from_secs(5), "the server was ended");
}

#[tokio::test]
async fn a5_a_killed_actor_ends_its_server() {
    let mut fixture = Fixture::with(server("")).await;
    let pid = fixture.ready().await.pid.expect("a process");
    let begun = fixture.begin("hang").await;
    fixture.server.actor.kill();
    assert_eq!(soon(begun).await, None);
    assert_eq!(fixture.end().await, "killed");
    group_is_gone(pid).await;
    fixture.server.start_again().await;
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
}

#[tokio::test]
async fn a_list_that_changed_is_offered_and_old_permission_is_worth_nothing() {
    let arms = r#"
        *'"method":"tools/list"'*) answer '{"tools":[{"name":"echo","description":"'"$now"'","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}}]}' ;;
        *'"name":"echo"'*) now=new; answer "$heard"; say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' ;;
    "#;
    let fixture = Fixture::with(server(arms)).await;
    let drifting = call("mcp/sh/echo", json!({}));
    let grant = fixture.granted(&drifting).await;
    let mut changes = fixture.registry.changes();
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
    soon(changes.changed()).await.expect("the registry is there");
    let returned = soon(fixture.run(Arc::clone(&drifting), grant)).await.expect("an answer");
    assert_eq!(returned.status, CallStatus::Denied);
    assert!(returned.output.plain().contains("call it again"), "{returned:?}");
    let grant = fixture.granted(&drifting).await;
    assert_eq!(soon(fixture.run(drifting, grant)).await.expect("an answer").status, CallStatus::Ok);
}

/// The server sends no notification, and none of its tools is called.
#[tokio::test]
async fn a_list_that_is_old_is_read_again_when_somebody_looks_at_it() {
    let arms = r#"*'"method":"tools/list"'*) name=x$name; answer '{"tools":[{"name":"'"$name"'","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}}]}' ;;"#;
    let fixture = Fixture::with(server(arms)).await;
    fixture.ready().await;
    assert_eq!(fixture.looked().await, ["mcp/sh/x"]);
    let mut changes = fixture.registry.changes();
    tokio::time::pause();
    tokio::time::advance(LIST_IS_OLD).await;
    tokio::time::resume();
    assert_eq!(fixture.looked().await, ["mcp/sh/x"], "the old list is returned at once");
    soon(changes.changed()).await.expect("the registry is there");
    assert_eq!(fixture.looked().await, ["mcp/sh/xx"]);
}

#[tokio::test]
async fn the_servers_own_limit_holds_for_calls_of_which_nothing_is_said() {
    let mut arguments = arguments(server(""));
    arguments.spec.tool_timeout_ms = Some(150);
    let fixture = Fixture::start(arguments).await;
    let returned = fixture.perform("hang").await;
    assert_eq!(returned.status, CallStatus::Error);
    assert!(returned.output.plain().contains("timed out after 150 ms"), "{returned:?}");
    assert_eq!(fixture.perform("echo").await.status, CallStatus::Ok);
}

#[tokio::test]
async fn the_policy_stands_before_the_server() {
    let mut arguments = arguments(server(""));
    arguments.policy.deny_tools.push("mcp/sh/echo".to_owned());
    let risky = crate::tools::ToolOverride { risk: Some(Risk::High), ..Default::default() };
    arguments.policy.tools.insert("mcp/sh/die".to_owned(), risky);
    let mut fixture = Fixture::start(arguments).await;
    assert_eq!(fixture.ready().await.tools, 2);
    let asks = CallContext { mode: Some(PermissionMode::Ask), ..(*fixture.context).clone() };
    fixture.context = Arc::new(asks);
    assert!(matches!(fixture.check(&call("mcp/sh/echo", json!({}))).await, Verdict::Deny { .. }));
    assert!(matches!(fixture.check(&call("mcp/sh/die", json!({}))).await, Verdict::Ask { .. }));
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
}
