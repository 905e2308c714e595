//! A model behind a protocol of one's own over HTTP: the question is a text, the answer `{"text": …}`.

use bob::model::{Capabilities, DeltaSink, LlmAnswer, LlmError, LlmErrorKind, LlmPort, LlmRequest};
use bob::{BoxFuture, ModelName};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Wire(pub SocketAddr);

impl LlmPort for Wire {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities::default())
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let model = model.clone();
        Box::pin(async move {
            let question = serde_json::to_string(&request.messages).unwrap_or_default();
            let response = asked(self.0, &question).await.map_err(|error| away(error.to_string()))?;
            let text = read(&response)?;
            deltas.text(&text);
            Ok(LlmAnswer::text(model, text))
        })
    }
}

async fn asked(address: SocketAddr, question: &str) -> std::io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(address).await?;
    let head = format!("POST / HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", question.len());
    connection.write_all(format!("{head}{question}").as_bytes()).await?;
    let mut response = Vec::new();
    connection.read_to_end(&mut response).await?;
    Ok(response)
}

fn read(response: &[u8]) -> Result<String, LlmError> {
    let text = std::str::from_utf8(response).map_err(|error| away(error.to_string()))?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| away("no end of its head".to_owned()))?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| away("no status".to_owned()))?;
    let kind = match status {
        200 => None,
        401 | 403 => Some(LlmErrorKind::Unauthorized),
        408 => Some(LlmErrorKind::Timeout),
        429 => Some(LlmErrorKind::RateLimited),
        _ => Some(LlmErrorKind::Unavailable),
    };
    if let Some(kind) = kind {
        return Err(LlmError::new(kind, format!("status {status}")).with_status(status));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    if length != Some(body.len()) {
        return Err(away("it was cut".to_owned()));
    }
    let answer: Value = serde_json::from_str(body).map_err(|error| away(error.to_string()))?;
    answer["text"].as_str().map(str::to_owned).ok_or_else(|| away("no text".to_owned()))
}

/// What may be better the next time.
fn away(why: String) -> LlmError {
    LlmError::new(LlmErrorKind::Unavailable, format!("the answer cannot be used: {why}"))
}
