//! A batch that runs, and the other end of its control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control::lines::line;
use crate::home::Home;
use crate::support::program::Running;

/// Longer than anything here takes on a crowded machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Starts a batch of these sessions and prompts with limited concurrency. The first line is a simple one.
pub(crate) fn batch<'a>(
    home: &Home,
    concurrency: &str,
    prompts: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Running {
    let rest = prompts.into_iter().map(|(session, prompt)| line(session, prompt));
    let text: String = std::iter::once(line("first", "hi")).chain(rest).collect();
    home.scratch.write("lines.jsonl", text);
    let running = home.agent(["batch", "--concurrency", concurrency, "lines.jsonl"]).deadline(LONG).spawn();
    running.wait_stdout("\"line\":1}");
    running
}

/// Where the control sockets of a home with the default store are.
pub(crate) fn folder(home: &Home) -> PathBuf {
    home.scratch.join(".bob/sessions.db-control")
}

/// The socket of a process.
pub(crate) fn socket(home: &Home, pid: i32) -> PathBuf {
    folder(home).join(format!("{pid}.sock"))
}

/// A client that sends arbitrary lines.
pub(crate) struct Far {
    pub(crate) stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Far {
    /// Connects, and reads the greeting.
    #[track_caller]
    pub(crate) fn connect(home: &Home, pid: i32) -> (Self, Value) {
        let stream = UnixStream::connect(socket(home, pid)).expect("a process that listens");
        stream.set_read_timeout(Some(LONG)).expect("a time limit");
        stream.set_write_timeout(Some(LONG)).expect("a time limit");
        let mut far = Self { reader: BufReader::new(stream.try_clone().expect("a second handle")), stream };
        let greeting = far.read().expect("a greeting");
        (far, greeting)
    }

    /// Writes a line as it is.
    pub(crate) fn write(&mut self, line: &str) -> std::io::Result<()> {
        self.stream.write_all(line.as_bytes())?;
        self.stream.write_all(b"\n")
    }

    /// The next line; `None` when the connection has ended.
    #[track_caller]
    pub(crate) fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"))),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// Asks, and reads the answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, ask: Value) -> Value {
        self.write(&json!({ "v": 1, "id": 7, "ask": ask }).to_string()).expect("a process that reads");
        let answer = self.read().expect("an answer");
        assert_eq!((&answer["v"], &answer["id"]), (&json!(1), &json!(7)), "{answer}");
        answer["answer"].clone()
    }

    /// The snapshot of the process.
    #[track_caller]
    pub(crate) fn look(&mut self) -> Value {
        let look = self.ask(json!({ "type": "look" }));
        assert_eq!(look["type"], "look", "{look}");
        look
    }

    /// Looks until this holds.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let look = self.look();
            if holds(&look) {
                return look;
            }
            assert!(began.elapsed() < LONG, "never {what}: {look:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The node of the tree with this path.
pub(crate) fn node<'a>(look: &'a Value, path: &str) -> Option<&'a Value> {
    let mut nodes = &look["tree"];
    let mut found = None;
    for name in path.split('/') {
        let node = nodes.as_array()?.iter().find(|node| node["name"] == name)?;
        nodes = &node["children"];
        found = Some(node);
    }
    found
}

/// Whether this many turns are running.
pub(crate) fn runs(count: u64) -> impl Fn(&Value) -> bool {
    move |look| look["metrics"]["sessions"]["running"] == count
}
