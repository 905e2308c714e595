//! A fake tool server over HTTP: it behaves, or fails in one named way.
//!
//! It has its own tokio runtime, so that it can be killed with all connections and restarted at its address.
//! Unexpected requests panic: the test fails there.

use super::arguments::McpServerArguments;
use super::testing::arguments;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use bob_messages::ids::ServerId;
use bob_messages::options::ServerSpec;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Requests so far, and the configured behaviour.
#[derive(Default)]
pub(super) struct World {
    /// The current session.
    session: Option<String>,
    pub(super) inits: usize,
    /// Sessions that were taken leave of.
    pub(super) farewells: usize,
    /// How often the tools were listed, by version 2026-07-28.
    pub(super) lists: usize,
    /// Calls that ran.
    pub(super) calls: Vec<String>,
    /// The `Last-Event-ID` of each stream request.
    pub(super) resumed: Vec<String>,
    /// The configured header of the last request.
    pub(super) key: Option<String>,
    pub(super) manners: Manners,
}

/// How it behaves.
#[derive(Default)]
pub(super) struct Manners {
    /// The response to an unknown session.
    pub(super) unknown_session: UnknownSession,
    /// A call's response stream ends after this many events.
    pub(super) cut: Option<Cut>,
    /// It speaks version 2026-07-28, and no other.
    pub(super) is_newest: bool,
    /// It answers every request at its address with this instead.
    pub(super) instead: Option<Instead>,
}

/// Status, headers and body.
pub(super) type Instead = (StatusCode, Vec<(header::HeaderName, String)>, String);

#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) enum UnknownSession {
    #[default]
    NotFound,
    BadRequest,
    BadRequestForNobody,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Of the three: one that only has an id, a notification, the result.
    pub(super) after: usize,
    /// Whether the connection breaks instead of ending.
    pub(super) is_rude: bool,
    /// Whether the rest can be had by another stream.
    pub(super) resumes: bool,
}

pub(super) struct Web {
    pub(super) address: SocketAddr,
    world: Arc<Mutex<World>>,
    runtime: Option<Runtime>,
}

impl Web {
    pub(super) fn start() -> Self {
        let mut web = Self { address: ([127, 0, 0, 1], 0).into(), world: Arc::default(), runtime: None };
        web.start_again();
        web
    }

    /// Where it was, knowing no session.
    pub(super) fn start_again(&mut self) {
        self.world().session = None;
        let listener = std::net::TcpListener::bind(self.address).expect("the port is free");
        listener.set_nonblocking(true).expect("a listener");
        self.address = listener.local_addr().expect("an address");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let router = Router::new().fallback(any(answer)).with_state(Arc::clone(&self.world));
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, router).await.expect("it serves");
        });
        self.runtime = Some(runtime);
    }

    pub(super) fn kill(&mut self) {
        self.runtime.take().expect("it lives").shutdown_background();
    }

    /// As a server does that was started again.
    pub(super) fn forget_the_session(&self) {
        self.world().session = None;
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no test panics while it looks")
    }

    /// How many sessions were begun, and how many calls ran.
    pub(super) fn counts(&self) -> (usize, usize) {
        let world = self.world();
        (world.inits, world.calls.len())
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) fn arguments(&self) -> McpServerArguments {
        arguments(spec(self.url()))
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A server at this address.
pub(super) fn spec(url: impl Into<String>) -> ServerSpec {
    ServerSpec::http(ServerId::new("sh"), url)
}

async fn answer(
    State(world): State<Arc<Mutex<World>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut world = world.lock().expect("no test panics while it looks");
    world.key = header("x-key");
    if let Some((status, headers, body)) = world.manners.instead.as_ref().filter(|_| uri.path() == "/mcp") {
        let mut response = (*status, body.clone()).into_response();
        for (name, value) in headers {
            response.headers_mut().insert(name, value.parse().expect("a header"));
        }
        return response;
    }
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = &message["id"];
    if world.manners.is_newest {
        return newest(&mut world, &message, header("mcp-protocol-version"), header("mcp-session-id"));
    }
    if message["method"] == "initialize" {
        world.inits += 1;
        let session = format!("session-{}", world.inits);
        world.session = Some(session.clone());
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}});
        return ([("mcp-session-id", session)], Json(json!({"jsonrpc": "2.0", "id": id, "result": result})))
            .into_response();
    }
    if header("mcp-session-id") != world.session {
        let error = json!({"code": -32000, "message": "no such session"});
        return match world.manners.unknown_session {
            UnknownSession::NotFound => StatusCode::NOT_FOUND.into_response(),
            UnknownSession::BadRequest => {
                (StatusCode::BAD_REQUEST, Json(json!({"jsonrpc": "2.0", "id": id, "error": error}))).into_response()
            }
            UnknownSession::BadRequestForNobody => {
                (StatusCode::BAD_REQUEST, Json(json!({"jsonrpc": "2.0", "id": null, "error": error}))).into_response()
            }
        };
    }
    if method == Method::DELETE {
        world.farewells += 1;
        return StatusCode::OK.into_response();
    }
    if message.is_null() {
        return stream(&mut world, header("last-event-id"));
    }
    let result = match message["method"].as_str() {
        _ if id.is_null() => return StatusCode::ACCEPTED.into_response(),
        Some("ping") => json!({}),
        Some("tools/list") => json!({"tools": tools()}),
        Some("tools/call") => return call(&mut world, &message),
        _ => return StatusCode::BAD_REQUEST.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

fn tools() -> Value {
    json!([
        {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "write", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": false}},
        {"name": "refuse", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": false}},
        {"name": "hang", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": false}},
    ])
}

/// Each request stands for itself: without a session, and with the version in a header.
fn newest(world: &mut World, message: &Value, version: Option<String>, session: Option<String>) -> Response {
    let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default());
    let refused = |code: i64, why: &str| {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}});
        (StatusCode::BAD_REQUEST, Json(error)).into_response()
    };
    if version.as_deref() != Some("2026-07-28") || session.is_some() {
        return refused(-32020, "no version in the headers, or a session");
    }
    let mut result = match method {
        "server/discover" => {
            world.inits += 1;
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}})
        }
        "subscriptions/listen" => {
            let of = json!({"io.modelcontextprotocol/subscriptionId": id});
            let params = json!({"_meta": of, "notifications": {"toolsListChanged": true}});
            let told = |method: &str, params: &Value| {
                format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": method, "params": params}))
            };
            let sent = vec![
                told("notifications/subscriptions/acknowledged", &params),
                told("notifications/tools/list_changed", &json!({"_meta": of})),
            ];
            return events(String::new(), sent, End::Never);
        }
        "tools/list" => {
            world.lists += 1;
            json!({"tools": tools()})
        }
        "tools/call" => {
            world.calls.push(message["params"]["name"].as_str().expect("a name").to_owned());
            heard()
        }
        _ => return refused(-32601, "no such method"),
    };
    for (name, value) in [("resultType", json!("complete")), ("ttlMs", json!(0)), ("cacheScope", json!("private"))] {
        result[name] = value;
    }
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

fn call(world: &mut World, message: &Value) -> Response {
    let (name, id) = (message["params"]["name"].as_str().expect("a name"), message["id"].clone());
    world.calls.push(name.to_owned());
    match (name, world.manners.cut) {
        ("hang", _) => events(json!({"id": id}).to_string(), Vec::new(), End::Never),
        // The code has another meaning here than for an unknown session.
        ("refuse", _) => {
            Json(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "not today"}})).into_response()
        }
        (_, None) => Json(json!({"jsonrpc": "2.0", "id": id, "result": heard()})).into_response(),
        (_, Some(cut)) => {
            let end = if cut.is_rude { End::Rude } else { End::Polite };
            let sent = three_events(&id).into_iter().take(cut.after).collect();
            events(String::new(), sent, end)
        }
    }
}

/// The rest of a call's answer. There is one call whose stream can be cut: the first.
fn stream(world: &mut World, last: Option<String>) -> Response {
    let Some(last) = last else { return StatusCode::METHOD_NOT_ALLOWED.into_response() };
    world.resumed.push(last.clone());
    let Some(Cut { resumes: true, .. }) = world.manners.cut else { return StatusCode::NOT_FOUND.into_response() };
    let (id, seen) = last.split_once('.').expect("an id of ours");
    let id: Value = serde_json::from_str(id).expect("the id of a request");
    let seen: usize = seen.parse().expect("a number");
    events(String::new(), three_events(&id).split_off(seen + 1), End::Polite)
}

fn three_events(id: &Value) -> Vec<String> {
    let said =
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "working"}});
    let result = json!({"jsonrpc": "2.0", "id": id, "result": heard()});
    let data = [String::new(), said.to_string(), result.to_string()];
    data.iter().enumerate().map(|(number, data)| format!("retry: 20\nid: {id}.{number}\ndata: {data}\n\n")).collect()
}

fn heard() -> Value {
    json!({"content": [{"type": "text", "text": "heard"}]})
}

enum End {
    Polite,
    Rude,
    Never,
}

fn events(comment: String, sent: Vec<String>, end: End) -> Response {
    let sent = std::iter::once(format!(": {comment}\n\n")).chain(sent).map(Ok::<_, std::io::Error>);
    let last = futures_util::stream::once(async move {
        match end {
            End::Polite => Ok(String::new()),
            End::Rude => {
                // Earlier data must be sent before the connection is closed.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                Err(std::io::Error::other("cut"))
            }
            End::Never => std::future::pending().await,
        }
    });
    let body = Body::from_stream(futures_util::stream::iter(sent).chain(last));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
