//! What others send over HTTP or a pipe: answers of a provider in each format, and lines of a tool server.
//!
//! Large events of the formats that genai reads are not among them: what it may work on one event is bounded by the clock of
//! the processor (`actors/src/llm/genai/pace.rs`), which under valgrind is another one.

use super::readings::{PATIENCE_MS, builder, say};
use bob::AgentRuntime;
use bob::Providers;
use bob::model::ScriptedLlm;
use bob::model::providers::{CapabilityOverrides, KeySource, ProviderConfig, ProviderKind};
use bob::store::MemoryStore;
use bob::tools::servers::{ServerId, ServerSpec};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

/// A stream: what begins it, what it has again and again, and what ends it.
struct Shape {
    name: &'static str,
    kind: ProviderKind,
    /// Whether the model is asked for an object with its answer, which is read while it grows.
    in_json: bool,
    first: String,
    piece: String,
    last: String,
}

const OPENAI: ProviderKind = ProviderKind::OpenAi;
const ANTHROPIC: ProviderKind = ProviderKind::Anthropic;
const GEMINI: ProviderKind = ProviderKind::Gemini;

/// How many calls an answer may have.
const CALLS: usize = 256;

fn delta(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
}

fn event(name: &str, rest: &str) -> String {
    format!("event: {name}\ndata: {{{rest}}}\n\n")
}

fn block(rest: &str) -> String {
    event("content_block_delta", &format!("\"index\":0,\"delta\":{{{rest}}}"))
}

fn part(part: &str) -> String {
    format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\n\n")
}

fn end(kind: ProviderKind) -> String {
    match kind {
        ProviderKind::Anthropic => event("message_stop", "\"x\":1"),
        ProviderKind::Gemini => "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n".to_owned(),
        _speaks_openai => "data: [DONE]\n\n".to_owned(),
    }
}

/// An answer that is over soon.
fn done(kind: ProviderKind) -> String {
    let said = match kind {
        ProviderKind::Anthropic => {
            event("content_block_start", "\"index\":0,\"content_block\":{\"type\":\"text\"}")
                + &block("\"text\":\"Done.\"")
        }
        ProviderKind::Gemini => part("{\"text\":\"Done.\"}"),
        _speaks_openai => delta("{\"content\":\"Done.\"}"),
    };
    said + &end(kind)
}

/// The beginning and the end of a frame around a list or a text that is its own.
fn around(frame: &str) -> (String, String) {
    let (before, behind) = frame.split_once('@').unwrap();
    (before.to_owned(), behind.to_owned())
}

fn shapes() -> Vec<Shape> {
    let many =
        |name, kind, first: String, piece: String| Shape { name, kind, in_json: false, first, piece, last: end(kind) };
    // One frame in which the pieces stand where the sign is.
    let one = |name, kind, before: &str, frame: &str, piece: &str| {
        let (first, last) = around(frame);
        Shape {
            name,
            kind,
            in_json: false,
            first: before.to_owned() + &first,
            piece: piece.to_owned(),
            last: last + &end(kind),
        }
    };
    let in_json = |shape: Shape| Shape { in_json: true, ..shape };
    let call = |piece: &str| delta(&format!("{{\"tool_calls\":[{piece}]}}"));
    let word = |number: usize| format!("{}{number:03}", "x".repeat(57));
    let calls = |index: &dyn Fn(usize) -> String| {
        let of =
            |number| format!("{{\"index\":{},\"id\":\"c{number}\",\"function\":{{\"name\":\"f\"}}}}", index(number));
        call(&(0..CALLS).map(of).collect::<Vec<_>>().join(","))
    };
    let start = |block: &str| event("content_block_start", &format!("\"index\":0,\"content_block\":{{{block}}}"));
    let tool = start("\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}");
    let kilobyte = "x".repeat(1 << 10);
    vec![
        many("openai: text in letters", OPENAI, String::new(), delta("{\"content\":\"x\"}")),
        one("openai: text at once", OPENAI, "", &delta("{\"content\":\"@\"}"), "x"),
        one("openai: escaped text at once", OPENAI, "", &delta("{\"content\":\"@\"}"), "\\u00e9"),
        many("openai: thoughts in letters", OPENAI, String::new(), delta("{\"reasoning\":\"x\"}")),
        many(
            "openai: arguments in brackets",
            OPENAI,
            call("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\"}}"),
            call("{\"index\":0,\"function\":{\"arguments\":\"[\"}}"),
        ),
        many(
            "openai: arguments in brackets, with the name alone",
            OPENAI,
            String::new(),
            call("{\"function\":{\"name\":\"f\",\"arguments\":\"[\"}}"),
        ),
        one(
            "openai: arguments of brackets at once",
            OPENAI,
            "",
            &call("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"@\"}}"),
            "[",
        ),
        one(
            "openai: arguments of a list at once",
            OPENAI,
            "",
            &call("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[@0]}\"}}"),
            "0,",
        ),
        one(
            "openai: arguments as an object",
            OPENAI,
            "",
            &call("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[@0]}}}"),
            "[],",
        ),
        one(
            "openai: pieces of the first of 256 calls, by number",
            OPENAI,
            &calls(&|number| number.to_string()),
            &call("@{}"),
            "{\"index\":0},",
        ),
        one(
            "openai: pieces of the first of 256 calls, by word",
            OPENAI,
            &calls(&|number| format!("\"{}\"", word(number))),
            &call("@{}"),
            &format!("{{\"index\":\"{}\"}},", word(0)),
        ),
        one(
            "openai: pieces of the first of 256 calls, by id",
            OPENAI,
            &calls(&|_| "null".to_owned()),
            &call("@{}"),
            "{\"id\":\"c0\"},",
        ),
        one(
            "openai: choices",
            OPENAI,
            "",
            "data: {\"choices\":[@{\"delta\":{\"content\":\"x\"}}]}\n\n",
            "{\"index\":1},",
        ),
        one("openai: fields", OPENAI, "", "data: {@\"choices\":[]}\n\n", "\"a\":0,"),
        many("openai: ends of lines", OPENAI, String::new(), "\n".to_owned()),
        many("openai: comments", OPENAI, String::new(), ":\n\n".to_owned()),
        many("openai: lines of one event", OPENAI, "data: 1\n".to_owned(), "data:\n".to_owned()),
        in_json(many(
            "openai: an envelope in letters",
            OPENAI,
            delta("{\"content\":\"{\\\"type\\\":\\\"final\\\",\\\"content\\\":\\\"\"}"),
            delta("{\"content\":\"x\"}"),
        )),
        in_json(many(
            "openai: an envelope in kilobytes",
            OPENAI,
            delta("{\"content\":\"{\\\"type\\\":\\\"final\\\",\\\"content\\\":\\\"\"}"),
            delta(&format!("{{\"content\":\"{kilobyte}\"}}")),
        )),
        in_json(one(
            "openai: an envelope of brackets at once",
            OPENAI,
            "",
            &delta("{\"content\":\"{\\\"type\\\":\\\"final\\\",\\\"a\\\":@\"}"),
            "[",
        )),
        in_json(many(
            "openai: an envelope of brackets in kilobytes",
            OPENAI,
            delta("{\"content\":\"{\\\"type\\\":\\\"final\\\",\\\"a\\\":\"}"),
            delta(&format!("{{\"content\":\"{}\"}}", "[".repeat(1 << 10))),
        )),
        many("anthropic: text in letters", ANTHROPIC, start("\"type\":\"text\""), block("\"text\":\"x\"")),
        many("anthropic: thoughts in letters", ANTHROPIC, start("\"type\":\"thinking\""), block("\"thinking\":\"x\"")),
        many("anthropic: arguments in brackets", ANTHROPIC, tool.clone(), block("\"partial_json\":\"[\"")),
        many(
            "anthropic: arguments in kilobytes",
            ANTHROPIC,
            tool.clone(),
            block(&format!("\"partial_json\":\"{kilobyte}\"")),
        ),
        many("anthropic: signs of life", ANTHROPIC, String::new(), event("ping", "")),
        many("gemini: text in letters", GEMINI, String::new(), part("{\"text\":\"x\"}")),
    ]
}

/// What a tool server's line is made of, by name; `server.py` has the same names.
const LINES: [&str; 4] = ["text", "parts", "brackets", "structure"];

pub(crate) fn names() -> Vec<String> {
    let answers = shapes().into_iter().map(|shape| shape.name.to_owned());
    answers.chain(LINES.iter().map(|line| format!("tool server: {line}"))).collect()
}

pub(crate) async fn read(name: &str, bytes: usize) {
    if let Some(line) = name.strip_prefix("tool server: ") {
        return line_of_a_server(line, bytes).await;
    }
    let shape =
        shapes().into_iter().find(|shape| shape.name == name).unwrap_or_else(|| panic!("{name}: no such shape"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let base_url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let Shape { kind, in_json, first, piece, last, .. } = shape;
    let stream = first + &piece.repeat(bytes / piece.len()) + &last;
    let _ends_with_the_process = std::thread::spawn(move || serve(&listener, kind, stream.as_bytes()));
    let provider = ProviderConfig {
        name: "fake".into(),
        kind: Some(kind),
        base_url: Some(base_url),
        key: Some(KeySource::value("none")),
        timeout_ms: Some(PATIENCE_MS),
        capabilities: CapabilityOverrides { native_tools: Some(!in_json), ..CapabilityOverrides::default() },
        ..ProviderConfig::default()
    };
    let model = Providers::new().configured(provider).build().unwrap();
    let runtime = builder("fake:m").model(Arc::new(model)).store(MemoryStore::new()).build().await.unwrap();
    say(&runtime).await;
}

/// Answers the first request with the stream and all others shortly.
fn serve(listener: &TcpListener, kind: ProviderKind, stream: &[u8]) {
    let mut is_first = true;
    for connection in listener.incoming() {
        let mut connection = connection.unwrap();
        request(&mut connection);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let done = done(kind);
        let body = if std::mem::take(&mut is_first) { stream } else { done.as_bytes() };
        // A client that has enough closes the connection.
        let _sent = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
    }
}

/// Reads a request; each byte is looked at once, so that what is counted is not this.
fn request(connection: &mut TcpStream) {
    let mut reader = BufReader::new(connection);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 0 && !line.trim().is_empty() {
        if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        line.clear();
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).unwrap();
}

/// A call of a tool of a server that answers with so many bytes.
async fn line_of_a_server(line: &str, bytes: usize) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server.py");
    let mut server = ServerSpec::stdio(ServerId::new("s"), "python3", [script, line, &bytes.to_string()]);
    (server.startup_timeout_ms, server.tool_timeout_ms) = (PATIENCE_MS, Some(PATIENCE_MS));
    let replies =
        json!([{ "replies": [{ "calls": [{ "name": "mcp/s/get", "arguments": {} }] }, { "text": "Done." }] }]);
    let model = Arc::new(ScriptedLlm::from_json(&replies.to_string()).unwrap());
    let runtime =
        builder("scripted:m").model(model).store(MemoryStore::new()).tool_server(server).build().await.unwrap();
    say(&runtime).await;
    runtime.shutdown().await;
}
