//! A minimal client that only knows lines.
//!
//! It owns the server's process and kills its whole group when it is dropped.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// How long any one wait may take; nothing here waits that long by plan.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    /// Messages that were read while another was waited for.
    pub(crate) aside: VecDeque<Value>,
    /// Bytes on stderr so far.
    pub(crate) stderr: Arc<AtomicU64>,
    folder: tempfile::TempDir,
    asked: u64,
}

/// The output of a program that does not serve.
pub(crate) fn printed(arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_drill-server")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// Waits until a claim about the world holds; for facts that send no event.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "waited {DEADLINE:?} until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Peer {
    /// Starts a server with these arguments and a log, without sending anything.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_drill-server"));
        command.args(arguments).arg("--log").arg(folder.path().join("log")).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.env("DRILL_CANARY", "sings").spawn().unwrap();
        let stdin = child.stdin.take();
        let (sender, lines) = mpsc::channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while let Ok(1..) = stdout.read_until(b'\n', &mut line) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        let stderr = Arc::new(AtomicU64::new(0));
        let (mut pipe, count) = (child.stderr.take().unwrap(), stderr.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 8_192];
            while let Ok(read @ 1..) = pipe.read(&mut bytes) {
                count.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
        Self { child, stdin, lines, aside: VecDeque::new(), stderr, folder, asked: 0 }
    }

    /// Starts a server and shakes hands.
    pub(crate) fn ready(arguments: &[&str]) -> Self {
        let mut peer = Self::start(arguments);
        let answer = peer.initialize();
        assert_eq!(answer["result"]["serverInfo"]["name"], "drill", "{answer}");
        peer.tell("notifications/initialized", json!({}));
        peer
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        // A server that has ended is detected by missing responses.
        let _gone = stdin.write_all(format!("{line}\n").as_bytes());
    }

    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// Sends a request and returns its id.
    pub(crate) fn put(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.put(method, params);
        self.answer(id)
    }

    pub(crate) fn initialize(&mut self) -> Value {
        self.ask("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": { "roots": {} } }))
    }

    pub(crate) fn ping(&mut self) {
        assert_eq!(self.ask("ping", Value::Null)["result"], json!({}));
    }

    pub(crate) fn put_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.put("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Calls a tool and returns its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.put_call(tool, arguments);
        self.answer(id)["result"].take()
    }

    /// Calls a tool and returns its text.
    pub(crate) fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}")).to_owned()
    }

    /// All pages of the tools.
    pub(crate) fn pages(&mut self) -> Vec<Vec<Value>> {
        let (mut pages, mut cursor) = (Vec::new(), json!({}));
        loop {
            let mut result = self.ask("tools/list", cursor)["result"].take();
            pages.push(result["tools"].as_array().unwrap().clone());
            match result["nextCursor"].take() {
                Value::Null => return pages,
                next => cursor = json!({ "cursor": next }),
            }
        }
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.find(&format!("the answer to {id}"), |message| message["id"] == id && message["method"].is_null())
    }

    pub(crate) fn told(&mut self, method: &str) -> Value {
        self.find(method, |message| message["method"] == method)
    }

    /// The next message of this kind; those before it are put aside. Lines that are no JSON are passed over.
    fn find(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.aside.iter().position(&is_it) {
            return self.aside.remove(place).unwrap();
        }
        loop {
            let line = self.line().unwrap_or_else(|| panic!("stdout ended before {what}"));
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) if is_it(&message) => return message,
                Ok(message) => self.aside.push_back(message),
                Err(_) => {}
            }
        }
    }

    /// The next line; `None`: stdout has ended.
    pub(crate) fn line(&mut self) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line within {DEADLINE:?}"),
        }
    }

    /// Whether there is no output for this long.
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
        matches!(self.lines.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        until("the server has ended", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap()
    }

    /// The events of this name in the log.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.file("log")).unwrap_or_default();
        // The last line may still be on its way.
        let whole = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        whole.filter(|event| event["event"] == name).collect()
    }

    /// Waits for that many events of this name.
    pub(crate) fn logged(&self, name: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} times `{name}` in the log"), || self.events(name).len() >= count);
        self.events(name)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.is_alive() {
            let _already_gone = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _reaped = self.child.wait();
        }
    }
}
