//! The rules of a model's port that speaks HTTP: what it makes of each byte that a provider sends, or does not send.
//!
//! The provider is a thread on a loopback port. It reads one request of each connection, sends what the rule says, and
//! ends the connection, or waits until the port does.

use super::{Heard, LlmPort, request};
use crate::contract::{Found, Suite, holds};
use bob_messages::ids::ModelName;
use bob_messages::llm::{LlmAnswer, LlmError, LlmErrorKind};
use futures_util::future::{Either, select};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A bound against hanging, for one connection.
const LIMIT: Duration = Duration::from_secs(10);

/// A port under test, and what its provider sends.
pub struct ModelWire<F> {
    /// Makes a port that asks the provider at this address. It makes one attempt for each call, as every port.
    pub make: F,
    /// The model that is asked.
    pub model: ModelName,
    /// A whole response to a streamed request, from its status line to its end. It must not need its connection after it.
    pub response: Vec<u8>,
    /// The text that this response has.
    pub text: String,
}

/// What the provider does with one connection.
enum Plan {
    /// Sends these bytes and ends the connection.
    Send(Vec<u8>),
    /// Sends these bytes one by one, and ends the connection.
    ByteByByte(Vec<u8>),
    /// Sends these bytes and waits; tells when they are sent, and when the port has ended the connection.
    Hold(Vec<u8>, oneshot::Sender<()>, oneshot::Sender<()>),
}

/// Checks a port that speaks HTTP against the rules of the wire.
pub async fn wire<F: Fn(SocketAddr) -> Arc<dyn LlmPort>>(of: &ModelWire<F>) -> Suite {
    let mut suite = Suite::new("model port");
    suite.rule("a whole answer is read, and its pieces are its text", of.whole()).await;
    suite.rule("an answer that comes byte by byte is the same", of.byte_by_byte()).await;
    suite.rule("an answer that is cut at any byte is whole or an error that can be retried", of.cut()).await;
    suite.rule("a call that is dropped ends its connection", of.dropped()).await;
    suite.rule("a status of the provider is an error of its kind", of.statuses()).await;
    suite.rule("bytes that are no answer are an error, without a panic", of.garbage()).await;
    suite
}

impl<F: Fn(SocketAddr) -> Arc<dyn LlmPort>> ModelWire<F> {
    async fn whole(&self) -> Found {
        self.is_whole(self.asked(Plan::Send(self.response.clone())).await?)
    }

    async fn byte_by_byte(&self) -> Found {
        self.is_whole(self.asked(Plan::ByteByByte(self.response.clone())).await?)
    }

    async fn cut(&self) -> Found {
        for bytes in 0..self.response.len() {
            let place = |seen: String| format!("{seen}, of {bytes} of {} bytes", self.response.len());
            match self.asked(Plan::Send(self.response[..bytes].to_vec())).await.map_err(place)?.0 {
                Ok(answer) if answer.text == self.text => {}
                Ok(answer) => return Err(place(format!("the answer {:?}", answer.text))),
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(place(format!("the error `{error}` ({:?}), which is final", error.kind))),
            }
        }
        Ok(())
    }

    async fn dropped(&self) -> Found {
        for bytes in [0, self.response.len() / 2, self.response.len().saturating_sub(8)] {
            let ((sent, is_sent), (ended, has_ended)) = (oneshot::channel(), oneshot::channel());
            let provider = Provider::start(Plan::Hold(self.response[..bytes].to_vec(), sent, ended))?;
            let port = (self.make)(provider.address);
            let asked = request(&self.model, "Say a word.");
            let (deltas, _heard) = Heard::of(&asked);
            let call = port.complete_stream(asked, &self.model, deltas);
            match select(call, pin!(is_sent)).await {
                Either::Left(_answered_already) => {}
                Either::Right((_, call)) => drop(call),
            }
            let ended = tokio::time::timeout(LIMIT, has_ended).await;
            holds(matches!(ended, Ok(Ok(()))), || {
                format!(
                    "a connection that is open {} s after its call was dropped, behind {bytes} bytes",
                    LIMIT.as_secs()
                )
            })?;
        }
        Ok(())
    }

    async fn statuses(&self) -> Found {
        use LlmErrorKind::{QuotaExhausted, RateLimited, Timeout, Unauthorized, Unavailable};
        let kinds: [(u16, &[LlmErrorKind]); 6] = [
            (401, &[Unauthorized]),
            (403, &[Unauthorized]),
            (408, &[Timeout, Unavailable]),
            (429, &[RateLimited, QuotaExhausted]),
            (500, &[Unavailable]),
            (503, &[Unavailable]),
        ];
        for (status, expected) in kinds {
            let response = format!(
                "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: \
                 close\r\n\r\n{{}}"
            );
            match self.asked(Plan::Send(response.into_bytes())).await?.0 {
                Err(error) if expected.contains(&error.kind) => {}
                other => return Err(format!("{other:?} for the status {status}; expected one of {expected:?}")),
            }
        }
        Ok(())
    }

    async fn garbage(&self) -> Found {
        let body = |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes();
        let bodies = ["", "null", "[]", "{\"choices\":7}", "data: {\n\n", "<html>a proxy</html>", "data: [1]\n\n"];
        let raw = [&b"\0\xff\xfe"[..], b"SSH-2.0-server\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"];
        for bytes in bodies.map(body).into_iter().chain(raw.map(<[u8]>::to_vec)) {
            let sent = String::from_utf8_lossy(&bytes).into_owned();
            if let Ok(answer) = self.asked(Plan::Send(bytes)).await?.0 {
                return Err(format!("the answer {:?} of the bytes {sent:?}", answer.text));
            }
        }
        Ok(())
    }

    /// One call to a provider with this plan: the answer, and the text of its pieces.
    async fn asked(&self, plan: Plan) -> Result<(Result<LlmAnswer, LlmError>, String), String> {
        let provider = Provider::start(plan)?;
        let port = (self.make)(provider.address);
        let asked = request(&self.model, "Say a word.");
        let (deltas, mut heard) = Heard::of(&asked);
        let answer = tokio::time::timeout(LIMIT, port.complete_stream(asked, &self.model, deltas)).await;
        let answer = answer.map_err(|_elapsed| format!("no end of a call within {} s", LIMIT.as_secs()))?;
        Ok((answer, heard.text().to_owned()))
    }

    fn is_whole(&self, (answer, heard): (Result<LlmAnswer, LlmError>, String)) -> Found {
        let answer = answer.map_err(|error| format!("the error `{error}` ({:?})", error.kind))?;
        holds(answer.text == self.text, || format!("the text {:?} of {:?}", answer.text, self.text))?;
        holds(heard.is_empty() || heard == self.text, || format!("the pieces {heard:?} of {:?}", self.text))
    }
}

/// A provider of one connection. Dropping it ends its thread.
struct Provider {
    address: SocketAddr,
}

impl Provider {
    fn start(plan: Plan) -> Result<Self, String> {
        let start = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = listener.local_addr()?;
            std::thread::Builder::new().name("provider".to_owned()).spawn(move || {
                if let Ok((connection, _)) = listener.accept() {
                    let _the_port_left = serve(connection, plan);
                }
            })?;
            Ok(Self { address })
        };
        start().map_err(|error: std::io::Error| format!("no provider on a loopback port: {error}"))
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // A port that never connected: its thread waits for this connection.
        let _served_already = TcpStream::connect(self.address);
    }
}

fn serve(mut connection: TcpStream, plan: Plan) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(LIMIT))?;
    read_request(&connection)?;
    match plan {
        Plan::Send(bytes) => connection.write_all(&bytes)?,
        Plan::ByteByByte(bytes) => {
            for byte in bytes {
                connection.write_all(&[byte])?;
                std::thread::yield_now();
            }
        }
        Plan::Hold(bytes, sent, ended) => {
            connection.write_all(&bytes)?;
            let _is_waited_for = sent.send(());
            // Ended by the port: no more bytes, or a reset.
            let end = connection.read(&mut [0; 1024]);
            let is_over = match end {
                Ok(read) => read == 0,
                Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
            };
            if is_over {
                let _is_waited_for = ended.send(());
            }
        }
    }
    Ok(())
}

/// Reads the head of a request and its body.
fn read_request(connection: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).map(drop)
}
