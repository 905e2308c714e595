//! A receiver of OTLP over HTTP that keeps the spans.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// A span, as far as it is looked at; ids are hexadecimal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) state: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) flags: u64,
}

/// What came.
#[derive(Debug, Default)]
pub(crate) struct Came {
    pub(crate) spans: Vec<Span>,
    /// The names of metrics; only the receiver of others reads them.
    pub(crate) metrics: Vec<String>,
    /// The requests to the receiver of this file: head and body as text.
    pub(crate) requests: Vec<String>,
}

pub(crate) type Kept = Arc<(Mutex<Came>, Condvar)>;

pub(crate) struct Receiver {
    pub(crate) address: String,
    pub(crate) kept: Kept,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let kept = Kept::default();
        let of_threads = Arc::clone(&kept);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&of_threads);
                thread::spawn(move || serve(stream.unwrap(), &kept));
            }
        });
        Self { address, kept }
    }

    /// The spans, once there are so many, or after a minute.
    pub(crate) fn spans(&self, count: usize) -> Vec<Span> {
        self.once(|came| came.spans.len() >= count, |came| came.spans.clone())
    }

    /// The spans of a trace, once there are so many, or after a minute.
    pub(crate) fn trace(&self, trace: &str, count: usize) -> Vec<Span> {
        let of_it = |came: &Came| came.spans.iter().filter(|span| span.trace == trace).cloned().collect::<Vec<_>>();
        self.once(|came| of_it(came).len() >= count, of_it)
    }

    /// The names of metrics, once this one is among them, or after a minute.
    pub(crate) fn metrics(&self, last: &str) -> Vec<String> {
        self.once(|came| came.metrics.iter().any(|name| name == last), |came| came.metrics.clone())
    }

    /// The requests that came so far to addresses that begin so.
    pub(crate) fn text(&self, path: &str) -> String {
        let start = format!("POST {path}");
        let kept = self.kept.0.lock().unwrap();
        kept.requests.iter().filter(|request| request.starts_with(&start)).map(String::as_str).collect()
    }

    fn once<T>(&self, is_there: impl Fn(&Came) -> bool, what: impl Fn(&Came) -> T) -> T {
        let (kept, came) = &*self.kept;
        let kept = kept.lock().unwrap();
        let waited = came.wait_timeout_while(kept, Duration::from_secs(60), |came| !is_there(came)).unwrap();
        what(&waited.0)
    }
}

/// Answers the requests of one connection until it ends.
fn serve(mut stream: TcpStream, (kept, came): &(Mutex<Came>, Condvar)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if !reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                return;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let request = format!("{head}{}", String::from_utf8_lossy(&body));
        kept.lock().unwrap().requests.push(request);
        if head.starts_with("POST /v1/traces ") {
            kept.lock().unwrap().spans.extend(spans(&body));
            came.notify_all();
        }
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

/// The spans in a request: resources in it, scopes in those, spans in those.
fn spans(request: &[u8]) -> Vec<Span> {
    let below = |bytes: &[u8], number: u64| {
        fields(bytes).into_iter().filter(|field| field.0 == number).map(|field| field.2).collect::<Vec<_>>()
    };
    let scopes = below(request, 1).into_iter().flat_map(|resource| below(&resource, 2));
    let spans = scopes.flat_map(|scope| below(&scope, 2));
    spans.map(|span| span_of(&span)).collect()
}

fn span_of(bytes: &[u8]) -> Span {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut span = Span::default();
    for (number, value, bytes) in fields(bytes) {
        match number {
            1 => span.trace = hex(&bytes),
            2 => span.id = hex(&bytes),
            3 => span.state = text(&bytes),
            4 => span.parent = hex(&bytes),
            5 => span.name = text(&bytes),
            16 => span.flags = value,
            _not_looked_at => {}
        }
    }
    span
}

/// The fields of a message of Protocol Buffers: number, and value or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (number, kind) = (key >> 3, key & 7);
        let length = match kind {
            0 => {
                all.push((number, varint(&mut bytes), Vec::new()));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).unwrap(),
            5 => 4,
            other => panic!("a field of kind {other}"),
        };
        let (value, rest) = bytes.split_at(length);
        let fixed = value.iter().rev().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        all.push((number, fixed, value.to_vec()));
        bytes = rest;
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}
