//! The provider of the race: OpenAI's chat format over HTTP, on one thread, at next to no cost of its own.
//!
//! The model's name says what it does: `fake-k3-l200` calls the first tool it is offered three times, then answers `done`,
//! 200 ms after each question. It keeps nothing: what it does next is read from the question.

use serde::Deserialize;
use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Deserialize)]
struct Question<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    tools: Vec<Tool<'a>>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Tool<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Serves until the process is ended; prints its address first.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener: TcpListener = socket.listen(16_384).unwrap();
        println!("http://{}/v1", listener.local_addr().unwrap());
        std::io::stdout().flush().unwrap();
        loop {
            match listener.accept().await {
                Ok((connection, _)) => drop(tokio::spawn(converse(connection))),
                // Too many open files; some will be closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
}

/// Answers one question after another until the other side closes.
async fn converse(mut connection: TcpStream) {
    connection.set_nodelay(true).unwrap();
    let mut buffer = Vec::with_capacity(8_192);
    loop {
        let Some((head, whole)) = ends(&buffer) else {
            match connection.read_buf(&mut buffer).await {
                Ok(read) if read > 0 => continue,
                _ => return,
            }
        };
        let (response, latency) = respond(&buffer[head..whole]);
        buffer.drain(..whole);
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        if connection.write_all(&response).await.is_err() {
            return;
        }
    }
}

/// Where the head of the first request ends, and where its body does, once all of it is there.
fn ends(buffer: &[u8]) -> Option<(usize, usize)> {
    let head = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..head]).unwrap();
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    let whole = head + length.unwrap_or(0);
    (buffer.len() >= whole).then_some((head, whole))
}

/// The response, and how long it is held back.
fn respond(body: &[u8]) -> (Vec<u8>, Duration) {
    let question: Question<'_> = serde_json::from_slice(body).unwrap();
    let calls = number(&question.model, "-k");
    let latency = Duration::from_millis(number(&question.model, "-l") as u64);
    let of_this_turn = question.messages.iter().rev().take_while(|message| message.role != "user");
    let done = of_this_turn.filter(|message| message.role == "tool").count();
    let (message, reason) = match question.tools.first() {
        Some(Tool { function }) if done < calls => (
            format!(
                r#""role":"assistant","content":null,"tool_calls":[{{"index":0,"id":"call_{done}","type":"function","function":{{"name":"{}","arguments":"{{\"text\":\"step {done}\"}}"}}}}]"#,
                function.name
            ),
            "tool_calls",
        ),
        _ => (r#""role":"assistant","content":"done""#.to_owned(), "stop"),
    };
    let asked = body.len() / 4;
    let usage = format!(r#"{{"prompt_tokens":{asked},"completion_tokens":16,"total_tokens":{}}}"#, asked + 16);
    let about = format!(r#""id":"race","created":1700000000,"model":"{}""#, question.model);
    let (kind, text) = if question.stream {
        let event = |choices: &str, usage: &str| {
            format!(
                "data: {{{about},\"object\":\"chat.completion.chunk\",\"choices\":[{choices}],\"usage\":{usage}}}\n\n"
            )
        };
        let said = event(&format!(r#"{{"index":0,"delta":{{{message}}},"finish_reason":null}}"#), "null");
        let over = event(&format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}"#), "null");
        ("text/event-stream", [said.as_str(), &over, &event("", &usage), "data: [DONE]\n\n"].concat())
    } else {
        let choice = format!(r#"{{"index":0,"message":{{{message}}},"finish_reason":"{reason}"}}"#);
        let text = format!(r#"{{{about},"object":"chat.completion","choices":[{choice}],"usage":{usage}}}"#);
        ("application/json", text)
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", text.len());
    ([head.into_bytes(), text.into_bytes()].concat(), latency)
}

/// The number behind this mark in a model's name.
fn number(model: &str, mark: &str) -> usize {
    let digits = model.split_once(mark).map_or("", |(_, rest)| rest.split('-').next().unwrap());
    digits.parse().unwrap_or(0)
}
