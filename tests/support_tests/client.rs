//! A minimal HTTP client that reads the raw response and detects whether it is complete.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A possibly partial response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// The framing marked its end.
    pub(crate) complete: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    /// The events of a stream, checked for their exact shape: `(event name or "", data)`.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let body = self.body.strip_suffix("\n\n").expect("a stream that ends with an empty line");
        let events = body.split("\n\n").map(|event| match event.strip_prefix("event: ") {
            Some(named) => {
                let (name, data) = named.split_once("\ndata: ").expect("a data line behind the event line");
                (name.to_owned(), data.to_owned())
            }
            None => (String::new(), event.strip_prefix("data: ").expect("a data line").to_owned()),
        });
        events.inspect(|(_, data)| assert!(!data.contains('\n'), "data of one line: {data}")).collect()
    }

    /// The data of every event that is JSON.
    pub(crate) fn data(&self) -> Vec<Value> {
        let events = self.events().into_iter().filter(|(_, data)| data != "[DONE]");
        events.map(|(_, data)| serde_json::from_str(&data).expect("JSON data")).collect()
    }
}

/// One connection, kept for several questions.
pub(crate) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    ended: bool,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a provider that listens");
        Self { stream, received: Vec::new(), ended: false }
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: fake\r\nanthropic-version: 2023-06-01\r\nX-Api-Key: k1\r\n");
        let whole = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.stream.write_all(whole.as_bytes()).await.expect("a provider that reads");
    }

    pub(crate) async fn get(&mut self, path: &str) {
        let head = format!("GET {path} HTTP/1.1\r\nHost: fake\r\n\r\n");
        self.stream.write_all(head.as_bytes()).await.expect("a provider that reads");
    }

    /// Reads one answer, to its end or to the end of the connection.
    pub(crate) async fn answer(&mut self) -> Answer {
        tokio::time::timeout(DEADLINE, self.read_answer()).await.expect("an answer within the deadline")
    }

    /// Reads until this text has arrived.
    pub(crate) async fn read_until(&mut self, text: &str) -> String {
        let read = async {
            while !self.text().contains(text) {
                assert!(self.fill().await, "the connection ended before {text:?}: {}", self.text());
            }
        };
        tokio::time::timeout(DEADLINE, read).await.expect("the text within the deadline");
        self.text()
    }

    /// Everything until the provider closes.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let read = async { while self.fill().await {} };
        tokio::time::timeout(DEADLINE, read).await.expect("a closed connection within the deadline");
        std::mem::take(&mut self.received)
    }

    async fn read_answer(&mut self) -> Answer {
        let head = loop {
            if let Some(at) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                let head: Vec<u8> = self.received.drain(..at + 4).collect();
                break String::from_utf8(head).expect("a head of text");
            }
            assert!(self.fill().await, "the connection ended inside the head");
        };
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let mut answer = Answer { status, head, body: String::new(), complete: false };
        let body = if answer.header("transfer-encoding") == Some("chunked") {
            self.read_chunks(&mut answer.complete).await
        } else {
            let length = answer.header("content-length").and_then(|text| text.parse().ok()).expect("a length");
            answer.complete = self.want(length).await;
            let length = length.min(self.received.len());
            self.received.drain(..length).collect()
        };
        answer.body = String::from_utf8(body).expect("a body of text");
        answer
    }

    async fn read_chunks(&mut self, complete: &mut bool) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = self.received.windows(2).position(|window| window == b"\r\n") {
                    break self.received.drain(..at + 2).collect::<Vec<u8>>();
                }
                if !self.fill().await {
                    return body;
                }
            };
            let line = String::from_utf8(line).expect("a chunk size");
            let size = usize::from_str_radix(line.trim_end(), 16).expect("a chunk size in hexadecimal");
            let whole = self.want(size + 2).await;
            let mut chunk: Vec<u8> = self.received.drain(..(size + 2).min(self.received.len())).collect();
            if whole {
                assert_eq!(chunk.split_off(size), b"\r\n", "a chunk ends with a line end");
            }
            body.extend(chunk);
            if size == 0 || !whole {
                *complete = whole;
                return body;
            }
        }
    }

    async fn want(&mut self, length: usize) -> bool {
        while self.received.len() < length {
            if !self.fill().await {
                return false;
            }
        }
        true
    }

    async fn fill(&mut self) -> bool {
        self.ended = self.ended || self.stream.read_buf(&mut self.received).await.unwrap_or(0) == 0;
        !self.ended
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }
}

/// One request on a new connection.
pub(crate) async fn ask(address: SocketAddr, path: &str, body: &Value) -> Answer {
    let mut client = Client::connect(address).await;
    client.post(path, body).await;
    client.answer().await
}
