//! Each rule of the wire is broken by a port that is made for it, and kept by one without a fault.

use super::*;
use crate::contract::testing::each_rule_is_broken;
use crate::llm::LlmPort;
use bob_messages::llm::{Capabilities, LlmErrorKind};
use futures_util::future::BoxFuture;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A port for a provider that answers with plain text and its length.
struct Plain {
    address: SocketAddr,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Uppercase,
    OneRead,
    TakesAPart,
    InATask,
    NoStatus,
    Trusting,
}

fn unavailable(why: impl std::fmt::Display) -> LlmError {
    LlmError::new(LlmErrorKind::Unavailable, why.to_string())
}

async fn ask(address: SocketAddr, fault: Fault) -> Result<String, LlmError> {
    let mut connection = TcpStream::connect(address).await.map_err(unavailable)?;
    connection.write_all(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n").await.map_err(unavailable)?;
    let mut bytes = Vec::new();
    if fault == Fault::OneRead {
        bytes.resize(4096, 0);
        let read = connection.read(&mut bytes).await.map_err(unavailable)?;
        bytes.truncate(read);
    } else {
        connection.read_to_end(&mut bytes).await.map_err(unavailable)?;
    }
    let text = String::from_utf8(bytes).map_err(unavailable)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| unavailable("no head"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    match status {
        Some(200) => {}
        Some(_) if fault == Fault::NoStatus => {}
        Some(401 | 403) => return Err(LlmError::new(LlmErrorKind::Unauthorized, "no")),
        Some(429) => return Err(LlmError::new(LlmErrorKind::RateLimited, "later")),
        _other => return Err(unavailable("down")),
    }
    if fault == Fault::Trusting {
        return Ok(body.strip_prefix("text: ").expect("it is a text").to_owned());
    }
    let length = head.split("content-length: ").nth(1).and_then(|length| length.lines().next()?.parse().ok());
    if fault != Fault::TakesAPart && length != Some(body.len()) {
        return Err(unavailable("cut"));
    }
    let text = body.strip_prefix("text: ").ok_or_else(|| unavailable("no text"))?;
    Ok(if fault == Fault::Uppercase { text.to_uppercase() } else { text.to_owned() })
}

impl LlmPort for Plain {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities::default())
    }

    fn complete_stream(
        &self,
        _request: Arc<LlmRequest>,
        model: &ModelName,
        _deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let (model, address, fault) = (model.clone(), self.address, self.fault);
        Box::pin(async move {
            let text = match fault {
                Fault::InATask => tokio::spawn(ask(address, fault)).await.map_err(unavailable)??,
                _itself => ask(address, fault).await?,
            };
            Ok(LlmAnswer::text(model, text))
        })
    }
}

async fn of(fault: Fault) -> crate::contract::Suite {
    let (text, model) = ("Hello, é".to_owned(), ModelName::parse("plain:m").unwrap());
    let body = format!("text: {text}");
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes();
    let make = move |address| -> Arc<dyn LlmPort> { Arc::new(Plain { address, fault }) };
    wire(&ModelWire { make, model, response, text }).await
}

#[tokio::test]
async fn a_port_without_a_fault_keeps_the_rules_of_the_wire() {
    of(Fault::None).await.assert();
}

#[tokio::test]
async fn each_rule_of_the_wire_is_broken_by_a_port_with_its_fault() {
    let mut suites = Vec::new();
    for (rule, fault) in [
        ("a whole answer is read, and its pieces are its text", Fault::Uppercase),
        ("an answer that comes byte by byte is the same", Fault::OneRead),
        ("an answer that is cut at any byte is whole or an error that can be retried", Fault::TakesAPart),
        ("a status of the provider is an error of its kind", Fault::NoStatus),
        ("bytes that are no answer are an error, without a panic", Fault::Trusting),
        ("a call that is dropped ends its connection", Fault::InATask),
    ] {
        suites.push((rule, of(fault).await));
    }
    each_rule_is_broken(suites);
}
