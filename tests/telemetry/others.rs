//! A receiver of OTLP that is not ours: `oteltap`, a program of Python, which `scripts/telemetry-receiver.sh` installs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use serde_json::Value;

use crate::telemetry::receiver::{Kept, Receiver, Span};

/// The exit code of the script when the package registry cannot be reached.
const NOT_TO_BE_HAD: i32 = 69;

/// Ends the receiver with the test.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_before = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Starts it; says so and returns `None` when it cannot be installed.
pub(crate) fn start() -> Option<(Receiver, Process)> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/telemetry-receiver.sh");
    let mut child = Command::new("sh").arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
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
