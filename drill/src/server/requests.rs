//! The server: reads lines, applies the modes, and otherwise behaves like a healthy server.
//!
//! One thread reads lines. A waiting tool has its own thread, so a call never delays a cancel notice or another call.
//! All output goes through [`Server::say`], one whole line at a time.

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::Options;
use super::listeners::Listeners;
use super::log::{Log, brief};
use super::modes::{Moment, Step};
use super::newest::{self, Subscription};
use super::protocol::{self, Incoming, Request};
use super::tasks;
use super::tools::{self, Catalogue};

/// A thread of a waiting tool needs little, and there may be a thousand.
const STACK: usize = 256 * 1024;

/// One server, for the life of the process.
pub(super) struct Server {
    options: Options,
    pub(super) log: Log,
    pub(super) catalogue: Catalogue,
    pub(super) listeners: Listeners,
    pub(super) subscription: Subscription,
    /// Count of `tools/call` requests.
    calls: AtomicU64,
    /// Milliseconds between two bytes of a call's response; 0 writes it at once.
    pace_ms: AtomicU64,
    stdout: Mutex<io::Stdout>,
}

impl Server {
    /// Makes the server. It reads nothing before [`Self::attend`].
    pub(super) fn open(options: Options) -> Result<Arc<Self>, String> {
        let log = Log::open(options.log.as_deref()).map_err(|error| format!("cannot open the log: {error}"))?;
        let catalogue = Catalogue::new(options.page);
        if options.is_newest {
            catalogue.add_all(vec![tasks::offer()]);
        }
        if let Some(path) = &options.tools {
            let text = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let tools = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            catalogue.add_all(tools);
        }
        Ok(Arc::new(Self {
            options,
            log,
            catalogue,
            listeners: Listeners::default(),
            subscription: Subscription::default(),
            calls: AtomicU64::new(0),
            pace_ms: AtomicU64::new(0),
            stdout: Mutex::new(io::stdout()),
        }))
    }

    /// Serves until stdin ends.
    pub(super) fn attend(self: &Arc<Self>) -> u8 {
        if !self.options.is_again {
            self.meet(&Moment::Begun);
        }
        self.log.write("start", json!({ "argv": argv() }));
        self.meet(&Moment::Started);
        let mut stdin = io::stdin().lock();
        let mut line = Vec::new();
        while let Ok(1..) = stdin.read_until(b'\n', &mut line) {
            self.take(protocol::read(&line));
            line.clear();
        }
        self.log.write("end of stdin", json!({}));
        self.meet(&Moment::Ended);
        self.log.write("exit", json!({ "code": 0 }));
        0
    }

    fn take(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Request(request) => {
                self.log.write("received", json!({ "method": request.method, "id": request.id }));
                self.note(&request);
                if let Step::Healthy = self.meet(&Moment::Asked(&request)) {
                    self.obey(&request);
                }
            }
            Incoming::Notification { method, params } => {
                self.log.write("received", json!({ "method": method }));
                if method == "notifications/cancelled" {
                    let reason = brief(&params["reason"]);
                    self.log.write("cancelled", json!({ "id": params["requestId"], "reason": reason }));
                }
                if let (Step::Healthy, "notifications/cancelled") = (self.meet(&Moment::Told(&method)), method.as_str())
                {
                    self.listeners.cancelled(&params["requestId"]);
                }
            }
            Incoming::Answer { id, answer } => {
                self.log.write("answered", json!({ "id": id, "answer": brief(&answer) }));
                self.listeners.answered(&id, answer);
            }
            Incoming::Junk => {
                self.log.write("junk", json!({}));
                self.say(&protocol::error(&Value::Null, protocol::PARSE_ERROR, "that line is no message"));
            }
            Incoming::Blank => {}
        }
    }

    fn note(&self, request: &Request) {
        match request.method.as_str() {
            "initialize" => self.log.write("initialize", json!({ "params": brief(&request.params) })),
            "tools/call" => {
                let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
                let params = &request.params;
                self.log.write(
                    "call",
                    json!({
                        "id": request.id, "number": number, "name": params["name"],
                        "arguments": brief(&params["arguments"]), "meta": params["_meta"],
                    }),
                );
            }
            _ => {}
        }
    }

    /// Offers the event to each mode; the first that handles it wins.
    fn meet(self: &Arc<Self>, moment: &Moment<'_>) -> Step {
        for (mode, number) in &self.options.modes {
            if let Step::Dealt = (mode.act)(self, *number, moment) {
                return Step::Dealt;
            }
        }
        Step::Healthy
    }

    fn obey(self: &Arc<Self>, request: &Request) {
        if self.is_newest() && newest::obey(self, request) {
            return;
        }
        let params = &request.params;
        match request.method.as_str() {
            "initialize" => {
                let asked = params["protocolVersion"].as_str().unwrap_or_default();
                let revision = if protocol::KNOWN.contains(&asked) { asked } else { protocol::LATEST };
                self.answer(request, &protocol::initialized(revision));
            }
            "ping" => self.answer(request, "{}"),
            "tools/list" => match self.catalogue.page(params["cursor"].as_str()) {
                Some(page) => self.answer(request, &page),
                None => self.refuse(request, protocol::INVALID_PARAMS, "no such cursor"),
            },
            "tools/call" => tools::call(self, request),
            method => self.refuse(request, protocol::METHOD_NOT_FOUND, &format!("no such method: {method}")),
        }
    }

    pub(super) fn is_newest(&self) -> bool {
        self.options.is_newest
    }

    pub(super) fn tell_changed(&self) {
        if self.is_newest() {
            newest::tell_changed(self);
        } else {
            self.say(&protocol::notification("notifications/tools/list_changed", &json!({})));
        }
    }

    /// Count of `tools/call` requests, including this one.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// From now on answers to calls come one byte in this many milliseconds.
    pub(super) fn slow_down(&self, pace_ms: u64) {
        self.pace_ms.store(pace_ms, Ordering::Relaxed);
    }

    /// The log's path, for processes that this one starts.
    pub(super) fn log_path(&self) -> Option<&std::path::Path> {
        self.options.log.as_deref()
    }

    /// Sends a result (JSON text), with the garbage of the mode.
    pub(super) fn answer(&self, request: &Request, result: &str) {
        let complete = self.is_newest().then(|| newest::complete(result));
        self.send(request, protocol::result(&request.id, complete.as_deref().unwrap_or(result)));
    }

    pub(super) fn refuse(&self, request: &Request, code: i64, message: &str) {
        self.send(request, protocol::error(&request.id, code, message));
    }

    fn send(&self, request: &Request, mut line: String) {
        let garbage = self.options.garbage.as_ref();
        let bytes = match garbage.and_then(|garbage| garbage.around(request, &line)) {
            Some(bytes) => bytes,
            None => {
                line.push('\n');
                line.into_bytes()
            }
        };
        let pace_ms = self.pace_ms.load(Ordering::Relaxed);
        let _reader_is_gone = if pace_ms > 0 && request.method == "tools/call" {
            let pace = Duration::from_millis(pace_ms);
            self.write(bytes.chunks(1).inspect(|_| thread::sleep(pace)))
        } else {
            self.write([bytes.as_slice()])
        };
    }

    /// Writes a line; returns `false` if stdout is closed.
    pub(super) fn say(&self, line: &str) -> bool {
        self.write([line.as_bytes(), b"\n"]).is_ok()
    }

    /// Writes pieces, each as soon as it comes, with nothing of another thread between them.
    pub(super) fn write<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
        // After a panic at worst half a line was written, which a client must tolerate anyway.
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in pieces {
            stdout.write_all(piece)?;
            stdout.flush()?;
        }
        Ok(())
    }

    /// Sends a request to the client on behalf of a waiting call.
    pub(super) fn ask(&self, request: &Request, method: &str, params: &Value) {
        let id = self.listeners.question(request);
        self.say(&protocol::request(&id, method, params));
    }

    /// Runs work beside the reader; it ends with the process.
    pub(super) fn beside(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let server = Arc::clone(self);
        let started = thread::Builder::new().stack_size(STACK).spawn(move || work(&server));
        if let Err(error) = started {
            self.exit_because(&format!("cannot start a thread: {error}"));
        }
    }

    /// Ends the process immediately, without a response.
    pub(super) fn exit(&self, code: i32) -> ! {
        self.log.write("exit", json!({ "code": code }));
        std::process::exit(code)
    }

    /// Ends the process because the drill itself failed.
    pub(super) fn exit_because(&self, why: &str) -> ! {
        super::complain(why);
        self.exit(70)
    }
}

fn argv() -> Vec<String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect()
}
