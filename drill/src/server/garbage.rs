//! What else may stand on stdout before an answer.
//!
//! There are two sorts. Most kinds leave the answer whole on a line of its own: a client passes over the rest and goes
//! on. The others damage the line of the answer itself, and are marked: there a client may lose that one answer.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::protocol::Request;

/// The garbage of one server.
pub(super) struct Garbage {
    kind: &'static Kind,
    /// Only before answers to this method.
    on: Option<String>,
    /// How many answers are still to be treated.
    left: AtomicU64,
}

/// One kind.
pub(super) struct Kind {
    name: &'static str,
    line: &'static str,
    sort: Sort,
}

/// What becomes of the answer.
enum Sort {
    /// It stands whole on a line of its own, after these bytes.
    Before(&'static [u8]),
    /// It stands whole on a line of its own, among bytes that are made for it.
    Among(fn(&Request, &str) -> Vec<u8>),
    /// Its line is damaged.
    Damaged(fn(&Request, &str) -> Vec<u8>),
}

const fn before(name: &'static str, line: &'static str, bytes: &'static [u8]) -> Kind {
    Kind { name, line, sort: Sort::Before(bytes) }
}

const fn among(name: &'static str, line: &'static str, make: fn(&Request, &str) -> Vec<u8>) -> Kind {
    Kind { name, line, sort: Sort::Among(make) }
}

const fn damaged(name: &'static str, line: &'static str, make: fn(&Request, &str) -> Vec<u8>) -> Kind {
    Kind { name, line, sort: Sort::Damaged(make) }
}

const KINDS: &[Kind] = &[
    before("banner", "words for people", b"Drill server 1.0\nListening on stdio, press Ctrl-C to stop\n"),
    before("ansi", "a line in colours", b"\x1b[1;32mINFO\x1b[0m ready\n"),
    before(
        "terminal",
        "sequences that clear a terminal and set its title",
        b"\x1b[2J\x1b]0;title\x07\x1b]52;c;eA==\x07\n",
    ),
    before("carriage-return", "a progress bar that overwrites itself", b"10%\r50%\r100%\n"),
    before("bom", "a byte order mark on a line of its own", b"\xef\xbb\xbf\n"),
    before("blank-lines", "lines without anything", b"\n\n\n"),
    before("spaces", "lines of blanks", b"   \n\t\n \r\n"),
    before(
        "half-json",
        "the first half of a message",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"ty\n",
    ),
    before("binary", "bytes that are no text", b"\x80\xff\xfe\x00\x01\xc3\x28\xf0\x9f\n"),
    before("nul", "NUL bytes", b"\0\0\0\0\n"),
    before("bad-utf8", "a message with a text that is no UTF-8", b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe\"}\n"),
    before("lone-surrogate", "half a surrogate pair", b"{\"jsonrpc\":\"2.0\",\"method\":\"\\ud800\"}\n"),
    before("wrong-shape", "an object that is no message", b"{\"hello\":\"world\"}\n"),
    before("log-line", "a log line in JSON", b"{\"level\":\"info\",\"msg\":\"ready\",\"id\":1}\n"),
    before("number", "a number", b"42\n"),
    before("text", "a JSON text", b"\"ready\"\n"),
    before("null", "null", b"null\n"),
    before("empty-batch", "an empty array", b"[]\n"),
    before("batch", "an array of messages", b"[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}]\n"),
    before("headers", "headers of another protocol", b"Content-Length: 42\r\nContent-Type: text/plain\r\n\r\n"),
    before("no-version", "a message without its version", b"{\"method\":\"notifications/tools/list_changed\"}\n"),
    before("wrong-version", "a message of another version", b"{\"jsonrpc\":\"1.0\",\"id\":999999,\"result\":{}}\n"),
    before("unknown-id", "an answer nobody asked for", b"{\"jsonrpc\":\"2.0\",\"id\":999999,\"result\":{}}\n"),
    before(
        "null-id",
        "an error for nobody",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"?\"}}\n",
    ),
    before("fraction-id", "an answer to half a question", b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"result\":{}}\n"),
    before("huge-id", "an id beyond all integers", b"{\"jsonrpc\":\"2.0\",\"id\":1e999,\"result\":{}}\n"),
    before("object-id", "an id that is an object", b"{\"jsonrpc\":\"2.0\",\"id\":{\"a\":1},\"result\":{}}\n"),
    before(
        "two-fates",
        "a result and an error at once",
        b"{\"jsonrpc\":\"2.0\",\"id\":999999,\"result\":{},\"error\":{}}\n",
    ),
    before("no-fate", "an answer with neither", b"{\"jsonrpc\":\"2.0\",\"id\":999999}\n"),
    before(
        "twice-the-key",
        "an object with one key twice",
        b"{\"jsonrpc\":\"2.0\",\"id\":999998,\"id\":999999,\"result\":{}}\n",
    ),
    before(
        "server-request",
        "a question nobody knows",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"g1\",\"method\":\"drill/unknown\"}\n",
    ),
    before("server-ping", "a ping", b"{\"jsonrpc\":\"2.0\",\"id\":\"g2\",\"method\":\"ping\"}\n"),
    before("unknown-notification", "a statement nobody knows", b"{\"jsonrpc\":\"2.0\",\"method\":\"drill/unknown\"}\n"),
    before(
        "bad-params",
        "a known statement with wrong parameters",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":\"lots\"}}\n",
    ),
    before(
        "foreign-cancel",
        "a cancel notice for a question that was never asked",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":999999}}\n",
    ),
    among("deep", "a hundred thousand brackets", |_, answer| lines(&["[".repeat(100_000).as_str(), answer])),
    among("long-line", "a line of one MiB", |_, answer| lines(&["x".repeat(1 << 20).as_str(), answer])),
    among("text-id", "an answer whose id is text where the question's is a number", |request, answer| {
        let id = request.id.to_string();
        lines(&[&format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#, id.trim_matches('"')), answer])
    }),
    among("duplicate-id", "the answer twice", |_, answer| lines(&[answer, answer])),
    among("crlf", "the answer ends like a line of DOS", |_, answer| format!("{answer}\r\n").into_bytes()),
    damaged("glued-banner", "words on the line of the answer", |_, answer| format!("ready: {answer}\n").into_bytes()),
    damaged("glued-bom", "a byte order mark on the line of the answer", |_, answer| {
        format!("\u{feff}{answer}\n").into_bytes()
    }),
    damaged("glued-message", "another message on the line of the answer", |_, answer| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}}{answer}\n").into_bytes()
    }),
    damaged("pretty", "the answer over several lines", |_, answer| lines(&[&answer.replacen(',', ",\n  ", 2)])),
    damaged("cut", "the answer without its end", |_, answer| {
        lines(&[answer.get(..answer.len().saturating_sub(2)).unwrap_or_default()])
    }),
];

/// A line of its own for each.
fn lines(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_bytes(), b"\n"]).flatten().copied().collect()
}

impl Garbage {
    /// This kind, before this many answers to this method or to all.
    pub(super) fn new(kind: &'static Kind, on: Option<String>, times: u64) -> Self {
        Self { kind, on, left: AtomicU64::new(times) }
    }

    /// All that is written in place of an answer; `None`: nothing but the answer.
    pub(super) fn around(&self, request: &Request, answer: &str) -> Option<Vec<u8>> {
        if self.on.as_ref().is_some_and(|method| *method != request.method) {
            return None;
        }
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        Some(match self.kind.sort {
            Sort::Before(bytes) => [bytes, answer.as_bytes(), b"\n"].concat(),
            Sort::Among(make) | Sort::Damaged(make) => make(request, answer),
        })
    }
}

/// The kind of this name.
pub(super) fn find(name: &str) -> Result<&'static Kind, String> {
    KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| format!("no garbage `{name}`; --list-garbage names it"))
}

/// All kinds, one line each.
pub(super) fn list() -> String {
    let mut text = String::new();
    for kind in KINDS {
        let mark = match kind.sort {
            Sort::Before(_) | Sort::Among(_) => "",
            Sort::Damaged(_) => " (damages the answer)",
        };
        // Writing to a text cannot fail.
        let _written = writeln!(text, "{:<20} {}{mark}", kind.name, kind.line);
    }
    text
}
