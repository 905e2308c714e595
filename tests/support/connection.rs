//! One connection of a fake provider: hand-written HTTP/1.1, because a proper server could not cut, stall or
//! mis-frame.
//!
//! It reads requests with a declared length, executes plans, and monitors the client during pauses. It does not
//! choose the responses.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::plan::{Ending, Framing, Head, Plan};

/// Larger requests are a mistake of the test.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// A request as received; header names in lower case.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The end of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Complete; the connection can be reused.
    Whole,
    /// Everything the plan wanted was sent and the connection was closed by the provider.
    Closed,
    /// The client left before the plan was carried out.
    ClientLeft,
}

pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes received and not yet used.
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        // Every piece is sent immediately, so that the client receives the pieces separately.
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// The next request, or `None` when the client is done with this connection.
    pub(crate) async fn read(&mut self) -> io::Result<Option<Request>> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill().await? {
                return Ok(None);
            }
        };
        let head: Vec<u8> = self.buffer.drain(..head_end).collect();
        let mut request = parse_head(&String::from_utf8_lossy(&head))?;
        let length = request.headers.iter().find(|(name, _)| name == "content-length");
        let length = length.and_then(|(_, value)| value.parse::<usize>().ok()).unwrap_or(0);
        while self.buffer.len() < length {
            if !self.fill().await? {
                return Ok(None);
            }
        }
        request.body = self.buffer.drain(..length).collect();
        Ok(Some(request))
    }

    /// Carries out a plan.
    pub(crate) async fn send(&mut self, plan: Plan) -> Sent {
        if self.left_within(plan.delay).await || !self.write_head(&plan).await {
            return Sent::ClientLeft;
        }
        let chunked = plan.chunked();
        if chunked && plan.pause.is_zero() && plan.repeat == 0 {
            // The framing keeps the pieces apart, so they may leave together, which is much faster.
            if !self.write(&plan.pieces.iter().flat_map(|piece| chunk(piece)).collect::<Vec<_>>()).await {
                return Sent::ClientLeft;
            }
            return self.end(plan.ending, chunked).await;
        }
        for (index, piece) in plan.pieces.iter().enumerate() {
            if index > 0 && self.left_within(plan.pause).await {
                return Sent::ClientLeft;
            }
            let written = if chunked { self.write(&chunk(piece)).await } else { self.write(piece).await };
            if !written {
                return Sent::ClientLeft;
            }
        }
        let again = plan.pieces.last().map(|piece| if chunked { chunk(piece) } else { piece.clone() });
        for piece in std::iter::repeat_n(again.unwrap_or_default(), plan.repeat) {
            if !self.write(&piece).await {
                return Sent::ClientLeft;
            }
        }
        self.end(plan.ending, chunked).await
    }

    async fn end(&mut self, ending: Ending, chunked: bool) -> Sent {
        match ending {
            Ending::Whole if chunked && !self.write(b"0\r\n\r\n").await => Sent::ClientLeft,
            Ending::Whole => Sent::Whole,
            Ending::Close => {
                // The client may have disconnected already.
                let _ = self.stream.shutdown().await;
                Sent::Closed
            }
            Ending::Hold => {
                self.left().await;
                Sent::ClientLeft
            }
        }
    }

    async fn write_head(&mut self, plan: &Plan) -> bool {
        let Some(Head { code, headers, framing }) = &plan.head else { return true };
        let mut head = format!("HTTP/1.1 {code} {}\r\n", reason(*code));
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &match framing {
            Framing::Length(length) => format!("content-length: {length}\r\n\r\n"),
            Framing::Chunked => "transfer-encoding: chunked\r\n\r\n".to_owned(),
        };
        self.write(head.as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Waits this long; returns whether the client disconnected.
    async fn left_within(&mut self, wait: Duration) -> bool {
        !wait.is_zero() && tokio::time::timeout(wait, self.left()).await.is_ok()
    }

    /// Waits until the client closes or resets the connection.
    async fn left(&mut self) {
        while self.fill().await.unwrap_or(false) {}
    }

    /// Receives more bytes; `false` at the end of input. Cancel-safe.
    async fn fill(&mut self) -> io::Result<bool> {
        if self.buffer.len() > MAX_REQUEST_BYTES {
            return Err(io::Error::other("request too large for a fake provider"));
        }
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn parse_head(head: &str) -> io::Result<Request> {
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path), Some("HTTP/1.1")) = (first.next(), first.next(), first.next()) else {
        return Err(io::Error::other(format!("not an HTTP/1.1 request: {head}")));
    };
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    Ok(Request { method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() })
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", piece.len()).into_bytes();
    framed.extend_from_slice(piece);
    framed.extend_from_slice(b"\r\n");
    framed
}

fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Other",
    }
}
