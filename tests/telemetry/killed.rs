//! A turn whose process is killed within a call and that the next process finishes is one trace at a receiver, and a tool
//! server is told a span of it.

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

/// A folder whose model calls a tool server, then a command that does not end, and then answers.
fn home() -> Home {
    let tables = format!(
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n\
         [[mcp.servers]]\nid = \"drill\"\ncommand = \"{AGENT}\"\nargs = [\"drill-server\", \"--log\", \"drill.log\"]\n"
    );
    let home = Home::with("default_model = \"demo:one\"", &tables);
    let command = format!("echo ran >> '{}'; sleep 600", home.scratch.join("ran").display());
    let call = |name: &str, arguments: Value| json!({ "calls": [{ "name": name, "arguments": arguments }] });
    let replies = [
        call("mcp/drill/meta", json!({})),
        call("local/shell_exec", json!({ "command": command })),
        json!({ "text": "Done." }),
    ];
    home.scratch.write("s.json", json!([{ "replies": replies }]).to_string());
    home.scratch.write("lines.jsonl", json!({ "session": "s", "prompt": "do it" }).to_string());
    home
}

#[test]
fn a_turn_that_was_killed_and_finished_by_the_next_process_is_one_trace() {
    is_one_trace(&Receiver::start());
}

#[test]
fn it_is_one_trace_at_a_receiver_of_others_which_gets_the_metrics_too() {
    let Some((receiver, _ends_with_the_test)) = others::start() else { return };
    is_one_trace(&receiver);
    let metrics = receiver.metrics("bob.telemetry.dropped");
    for name in ["gen_ai.invoke_agent.duration", "gen_ai.client.operation.duration", "gen_ai.client.token.usage"] {
        assert!(metrics.iter().any(|other| other == name), "{name} is not among {metrics:?}");
    }
}

fn is_one_trace(receiver: &Receiver) {
    let home = home();
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
    let of_first = receiver.spans(3);
    running.signal(Signal::KILL);
    assert_eq!(running.finish().signal, Some(9));
    assert_eq!(names(&of_first), ["chat one", "chat one", "execute_tool mcp/drill/meta"]);

    let next = home.agent(["batch", "--finish", "lines.jsonl"]);
    let next = next.env("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.address).run();
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    // The call in which the first process died has no span: neither process saw its end.
    let spans = receiver.spans(5);
    let expected = ["chat one", "chat one", "chat one", "execute_tool mcp/drill/meta", "invoke_agent cli-agent"];
    assert_eq!(names(&spans), expected);
    assert_eq!(spans.iter().map(|span| &span.id).collect::<HashSet<_>>().len(), 5, "no id twice: {spans:#?}");
    let turn = spans.iter().find(|span| span.name.starts_with("invoke_agent")).unwrap();
    for span in &spans {
        assert_eq!((span.trace.as_str(), span.state.as_str(), span.flags), (TRACE, "vendor=1", 1), "{span:?}");
        assert_eq!(span.parent, if span == turn { CALLER } else { &turn.id }, "{span:?}");
    }

    let log = home.scratch.read("drill.log");
    let calls = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let call = calls.into_iter().find(|line| line["event"] == "call").expect("the server was called");
    let tool = spans.iter().find(|span| span.name.ends_with("meta")).unwrap();
    assert_eq!(call["meta"]["traceparent"], format!("00-{TRACE}-{}-01", tool.id));
    assert_eq!(call["meta"]["tracestate"], "vendor=1");
}

fn names(spans: &[Span]) -> Vec<&str> {
    let mut names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    names
}
