//! A receiver of OTLP that is not ours: `oteltap`, a program of Python, which `scripts/telemetry-receiver.sh` installs. And
//! a tool server that is not ours and sends spans of its own calls to it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use bob::tools::servers::{Hidden, Named, ServerId, ServerSpec, ServerTransport};
use serde_json::Value;

use crate::telemetry::receiver::{Kept, Receiver, Span};

/// The exit code of the script when the package registry cannot be reached.
const NOT_TO_BE_HAD: i32 = 69;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/telemetry-receiver.sh");

/// A tool of that server which reads the clock, as Bob names it.
pub(crate) const CLOCK: &str = "mcp/clock/get_current_time";
/// On a crowded machine an interpreter of Python may take long to start. Milliseconds.
const LONG_MS: u64 = 120_000;
/// The name of the span that the server makes of a call of it.
pub(crate) const SPAN_OF_CLOCK: &str = "tools/call get_current_time";

/// Ends the receiver with the test.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_before = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// What has the tool server send to this receiver: spans alone, and soon.
fn variables(receiver: &Receiver) -> [(&'static str, &str); 5] {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.address),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_LOGS_EXPORTER", "none"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ]
}

/// The table of a configuration with the tool server.
pub(crate) fn table_of_clock(receiver: &Receiver) -> String {
    let variables = variables(receiver).map(|(name, value)| format!("{name} = \"{value}\"")).join(", ");
    format!(
        "[[mcp.servers]]\nid = \"clock\"\ncommand = \"sh\"\nargs = [\"{SCRIPT}\", \"--tool-server\"]\n\
         startup_timeout_ms = {LONG_MS}\ntool_timeout_ms = {LONG_MS}\nenv = {{ {variables} }}\n"
    )
}

/// The same for a runtime of the test.
pub(crate) fn clock(receiver: &Receiver) -> ServerSpec {
    let mut spec = ServerSpec::stdio(ServerId::new("clock"), "sh", [SCRIPT, "--tool-server"]);
    (spec.startup_timeout_ms, spec.tool_timeout_ms) = (LONG_MS, Some(LONG_MS));
    let ServerTransport::Stdio(command) = &mut spec.transport else { unreachable!("it was made so") };
    command.env.extend(variables(receiver).map(|(name, value)| Named { name: name.into(), value: Hidden::new(value) }));
    spec
}

/// Starts it; says so and returns `None` when it cannot be installed.
pub(crate) fn start() -> Option<(Receiver, Process)> {
    let mut child = Command::new("sh").arg(SCRIPT).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let Some(first) = lines.next() else {
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(NOT_TO_BE_HAD), "the receiver did not start: {status}");
        println!("skipped: oteltap, since it could not be installed (see above)");
        return None;
    };
    let process = Process(child);
    let first: Value = serde_json::from_str(&first.unwrap()).unwrap();
    let address = format!("http://127.0.0.1:{}", first["port"]);
    let kept = Kept::default();
    let of_thread = Arc::clone(&kept);
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let line: Value = serde_json::from_str(&line).unwrap();
            let (kept, came) = &*of_thread;
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            let mut kept = kept.lock().unwrap();
            match text("kind").as_str() {
                "span" => kept.spans.push(Span {
                    trace: text("trace"),
                    id: text("id"),
                    state: text("state"),
                    parent: text("parent"),
                    name: text("name"),
                    flags: line["flags"].as_u64().unwrap(),
                }),
                "metric" => kept.metrics.push(text("name")),
                other => panic!("a line of {other:?}"),
            }
            came.notify_all();
        }
    });
    Some((Receiver { address, kept }, process))
}
