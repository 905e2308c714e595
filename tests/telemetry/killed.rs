//! A turn whose process is killed within a call and that the next process finishes is one trace at a receiver. A tool server
//! is told a span of it, and one that sends spans itself is in the same trace.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::home::{AGENT, Home};
use crate::telemetry::others;
use crate::telemetry::receiver::{Receiver, Span};

const SOON: Duration = Duration::from_secs(60);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
/// The flags of a span in OTLP: it is known whether its parent is of another process, and it is.
const PARENT_IS_REMOTE: u64 = 0x300;

/// A folder whose model calls our tool server and perhaps one of others, then a command that does not end, and then answers.
fn home(of_others: Option<&str>) -> Home {
    let tables = format!(
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n{}\
         [[mcp.servers]]\nid = \"drill\"\ncommand = \"{AGENT}\"\nargs = [\"drill-server\", \"--log\", \"drill.log\"]\n",
        of_others.unwrap_or_default()
    );
    let home = Home::with("default_model = \"demo:one\"", &tables);
    let command = format!("echo ran >> '{}'; sleep 600", home.scratch.join("ran").display());
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let mut first = vec![call("mcp/drill/meta", json!({}))];
    first.extend(of_others.map(|_| call(others::CLOCK, json!({ "timezone": "UTC" }))));
    let second = [call("local/shell_exec", json!({ "command": command }))];
    let replies = [json!({ "calls": first }), json!({ "calls": second }), json!({ "text": "Done." })];
    home.scratch.write("s.json", json!([{ "replies": replies }]).to_string());
    home.scratch.write("lines.jsonl", json!({ "session": "s", "prompt": "do it" }).to_string());
    home
}

#[test]
fn a_turn_that_was_killed_and_finished_by_the_next_process_is_one_trace() {
    is_one_trace(&Receiver::start(), None);
}

#[test]
fn it_is_one_trace_at_a_receiver_of_others_with_the_span_of_a_server_of_others_and_the_metrics() {
    let Some((receiver, _ends_with_the_test)) = others::start() else { return };
    is_one_trace(&receiver, Some(&others::table_of_clock(&receiver)));
    let metrics = receiver.metrics("bob.telemetry.dropped");
    for name in ["gen_ai.invoke_agent.duration", "gen_ai.client.operation.duration", "gen_ai.client.token.usage"] {
        assert!(metrics.iter().any(|other| other == name), "{name} is not among {metrics:?}");
    }
}

fn is_one_trace(receiver: &Receiver, of_others: Option<&str>) {
    let home = home(of_others);
    let running = home
        .agent(["run", "--session", "s", "--mode", "auto", "do it"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.address)
        .env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-01"))
        .env("TRACESTATE", "vendor=1")
        .spawn();
    let until = Instant::now() + SOON;
    while !home.scratch.join("ran").exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut expected = vec!["chat one", "chat one", "execute_tool mcp/drill/meta"];
    let of_clock = format!("execute_tool {}", others::CLOCK);
    if of_others.is_some() {
        expected.extend([&of_clock, others::SPAN_OF_CLOCK]);
    }
    let of_first = receiver.trace(TRACE, expected.len());
    running.signal(Signal::KILL);
    assert_eq!(running.finish().signal, Some(9));
    assert_eq!(names(&of_first), sorted(&expected));

    let next = home.agent(["batch", "--finish", "lines.jsonl"]);
    let next = next.env("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.address).run();
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    // The call in which the first process died has no span: neither process saw its end.
    expected.extend(["chat one", "invoke_agent cli-agent"]);
    let spans = receiver.trace(TRACE, expected.len());
    assert_eq!(names(&spans), sorted(&expected));
    assert_eq!(spans.iter().map(|span| &span.id).collect::<HashSet<_>>().len(), spans.len(), "no id twice: {spans:#?}");
    let named = |name: &str| spans.iter().find(|span| span.name.starts_with(name)).unwrap();
    let turn = named("invoke_agent");
    for span in &spans {
        assert_eq!((span.trace.as_str(), span.state.as_str()), (TRACE, "vendor=1"), "{span:?}");
        if span.name == others::SPAN_OF_CLOCK {
            // The library of the server sends the kind of its parent as flags, not whether the caller was sampled.
            assert_eq!((&span.parent, span.flags), (&named(&of_clock).id, PARENT_IS_REMOTE), "{span:?}");
        } else {
            assert_eq!(
                (span.parent.as_str(), span.flags),
                (if span == turn { CALLER } else { &turn.id }, 1),
                "{span:?}"
            );
        }
    }

    let log = home.scratch.read("drill.log");
    let calls = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let call = calls.into_iter().find(|line| line["event"] == "call").expect("the server was called");
    let tool = named("execute_tool mcp/drill");
    assert_eq!(call["meta"]["traceparent"], format!("00-{TRACE}-{}-01", tool.id));
    assert_eq!(call["meta"]["tracestate"], "vendor=1");
}

fn names(spans: &[Span]) -> Vec<&str> {
    sorted(&spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>())
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}
