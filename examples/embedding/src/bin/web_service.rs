//! A web service: each request is a turn whose events are sent as they happen; a client that goes away cancels its turn,
//! and a request that the runtime refuses has a status that says so.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderName, RETRY_AFTER};
use axum::response::AppendHeaders;
use axum::response::sse::{Event, Sse};
use axum::routing::post;
use bob::events::{AgentEvent, AgentEvents, EventsFrom, OnDrop};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::{AgentError, AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
use futures_util::{Stream, StreamExt};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Refused = (StatusCode, AppendHeaders<Option<(HeaderName, String)>>, String);

async fn say(
    State(runtime): State<Arc<dyn AgentRuntime>>,
    Path(session): Path<String>,
    text: String,
) -> Result<Sse<impl Stream<Item = Result<Event, axum::Error>>>, Refused> {
    let session = SessionId::parse(&session)
        .map_err(|error| (StatusCode::BAD_REQUEST, AppendHeaders(None), error.to_string()))?;
    let stream = runtime.run_stream(AgentRequest::text(session, text)).await.map_err(refused)?;
    let mut stream = stream.on_drop(OnDrop::Cancel);
    // A refusal ends the stream before its first event: the status of the answer is known only then.
    let first = stream.next().await;
    if let (None, Some(Err(error))) = (&first, stream.ended()) {
        return Err(refused(error.clone()));
    }
    let items = futures_util::stream::iter(first).chain(stream);
    Ok(Sse::new(items.map(|item| Event::default().json_data(item))))
}

/// What `docs/api.md` has for each error.
fn refused(error: AgentError) -> Refused {
    let status = match &error {
        AgentError::Invalid(_) => StatusCode::BAD_REQUEST,
        AgentError::Busy { .. } => StatusCode::CONFLICT,
        AgentError::Overloaded { .. } | AgentError::Stopped(_) => StatusCode::SERVICE_UNAVAILABLE,
        AgentError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let seconds = match &error {
        AgentError::Overloaded { retry_after_ms, .. } => retry_after_ms.map(|ms| ms.div_ceil(1_000).to_string()),
        _ => None,
    };
    (status, AppendHeaders(seconds.map(|seconds| (RETRY_AFTER, seconds))), error.to_string())
}

/// Sends a message to a session, and returns the connection.
async fn client(address: SocketAddr, session: &str, text: &str) -> std::io::Result<TcpStream> {
    let mut connection = TcpStream::connect(address).await?;
    let head = format!("POST /{session} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
    connection.write_all(request.as_bytes()).await?;
    Ok(connection)
}

async fn finished(mut events: AgentEvents) -> Result<FinishReason, AgentError> {
    while let Some(event) = events.next().await {
        if let AgentEvent::TurnFinished { outcome } = &event?.event {
            return Ok(outcome.finish_reason);
        }
    }
    Err(AgentError::Internal("the runtime ended".into()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedLlm::from_fn(|request| match request.messages.last().map(|message| message.bytes()) {
        Some(5) => ScriptedReply::text("Hello to you."),
        _ => ScriptedReply::Stall,
    });
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model));
    // One turn at a time, and none waits: a second session is refused while one is busy.
    let builder = builder.max_concurrent_turns(1).max_waiting_turns(0);
    let runtime: Arc<dyn AgentRuntime> = Arc::new(builder.build().await?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = Router::new().route("/{session}", post(say)).with_state(runtime.clone());
    let server = tokio::spawn(async move { axum::serve(listener, service).await });

    let mut answer = String::new();
    client(address, "ann", "hello").await?.read_to_string(&mut answer).await?;
    println!("{answer}");
    assert!(answer.contains("Hello to you."), "{answer}");

    // This client goes away while the model thinks. Until then there is no place for another session.
    let events = runtime.subscribe(SessionId::parse("ann")?, EventsFrom::Now).await?;
    let mut connection = client(address, "ann", "a long question").await?;
    let mut piece = [0; 512];
    let read = connection.read(&mut piece).await?;
    println!("{}", String::from_utf8_lossy(&piece[..read]));
    let mut overloaded = String::new();
    client(address, "bob", "hello").await?.read_to_string(&mut overloaded).await?;
    println!("{overloaded}");
    assert!(overloaded.starts_with("HTTP/1.1 503"), "{overloaded}");
    drop(connection);
    let ended = finished(events).await?;
    println!("{ended:?}");
    assert_eq!(ended, FinishReason::Cancelled);

    let mut invalid = String::new();
    client(address, "a%20b", "hello").await?.read_to_string(&mut invalid).await?;
    println!("{invalid}");
    assert!(invalid.starts_with("HTTP/1.1 400"), "{invalid}");
    assert_eq!(refused(AgentError::busy("another process has it")).0, StatusCode::CONFLICT);
    assert_eq!(refused(AgentError::timeout("too late", "summary", 1)).0, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(refused(AgentError::Stopped("it ended".into())).0, StatusCode::SERVICE_UNAVAILABLE);
    let (status, headers, _) = refused(AgentError::overloaded_for("too much to do", Some(1_500)));
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(headers.0.map(|(_, seconds)| seconds).as_deref(), Some("2"));
    runtime.shutdown().await;
    let mut stopped = String::new();
    client(address, "ann", "hello").await?.read_to_string(&mut stopped).await?;
    println!("{stopped}");
    assert!(stopped.starts_with("HTTP/1.1 503"), "{stopped}");
    server.abort();
    Ok(())
}
