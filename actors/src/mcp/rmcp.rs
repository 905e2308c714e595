//! The protocol, spoken by rmcp. Its types do not leave this module.
//!
//! A [`Connection`] has shaken hands and lists tools; a [`Caller`] calls them. Deadlines
//! are the caller's: a future that is dropped takes its request back, and nothing here
//! waits for a server to agree.
//!
//! | file | what is in it |
//! |---|---|
//! | `handler` | what a server may ask of us |
//! | `tools` | a server's tools as descriptors, with their bounds |
//! | `output` | a server's result as a tool's output |

mod handler;
mod output;
mod tools;

pub(super) use handler::Handler;
pub(super) use tools::{Listed, Shop};

use super::sieve::{LINE_TOO_LONG, Sieve};
use crate::tools::Invocation;
use bob_messages::tools::ToolOutput;
use bob_messages::trace;
use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData, PaginatedRequestParams, ProtocolVersion,
    RequestMetaObject, RequestParamsMeta,
};
use rmcp::service::{ClientInitializeError, Peer, ServiceError, serve_client_with_ct};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The longest line a server may write, in bytes. A longer one is dropped as it comes,
/// and the call it answers fails as soon as it is known which one that is.
const MAX_LINE_BYTES: usize = 64 << 20;

/// How many pages of tools are asked for.
const MAX_PAGES: usize = 128;

/// How much of a server's complaint is repeated, in bytes.
const COMPLAINT_BYTES: usize = 2 * 1024;

/// Under this key of a call's `_meta` goes the key under which its effect happens once.
const IDEMPOTENCY_KEY: &str = "bob/idempotencyKey";

/// A session with a server, from the end of its handshake. Dropping it closes the way
/// to the server.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    _closes: DropGuard,
}

/// Why a server cannot be used.
#[derive(Debug)]
pub(super) struct Misfit {
    /// What it does instead: reads after its name.
    pub(super) why: String,
    /// Whether the connection ended; then its process may tell more.
    pub(super) closed: bool,
}

impl Misfit {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), closed: false }
    }
}

/// Resolves when a connection has ended, for whatever reason.
pub(super) type Gone = BoxFuture<'static, ()>;

impl Connection {
    /// Shakes hands over two pipes. Takes as long as the server does; dropping the
    /// future closes the pipes.
    ///
    /// # Errors
    /// What the server did instead.
    pub(super) async fn open<R, W>(read: R, write: W, handler: Handler) -> Result<(Self, Gone), Misfit>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let read = Sieve::new(read, MAX_LINE_BYTES);
        // Here the end of a line counts, too.
        Self::over(AsyncRwTransport::new_client(read, write).with_max_line_length(MAX_LINE_BYTES + 1), handler).await
    }

    async fn over<T, E, A>(transport: T, handler: Handler) -> Result<(Self, Gone), Misfit>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let token = CancellationToken::new();
        let closes = token.clone().drop_guard();
        let service =
            Box::pin(serve_client_with_ct(handler, transport, token)).await.map_err(|error| misfit(&error))?;
        let peer = service.peer().clone();
        let spoken = peer.peer_info().map(|info| info.protocol_version.clone());
        if let Some(spoken) = spoken.filter(|spoken| !ProtocolVersion::KNOWN_VERSIONS.contains(spoken)) {
            let spoken = clip(spoken.as_str());
            return Err(Misfit::new(format!("speaks version {spoken:?} of the protocol, which nobody here does")));
        }
        let gone = Box::pin(async move { drop(service.waiting().await) });
        Ok((Self { peer, _closes: closes }, gone))
    }

    /// Name and version, as the server tells them.
    pub(super) fn server(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        let said = info.server_info.as_ref()?;
        Some(clip(format!("{} {}", said.name, said.version).trim()))
    }

    /// All pages of the server's tools, as `shop` takes them in.
    ///
    /// # Errors
    /// What the server did instead.
    pub(super) async fn list(&self, shop: &Shop) -> Result<Listed, Misfit> {
        let mut listing = shop.open();
        let mut cursor = None;
        for _page in 0..MAX_PAGES {
            let asked = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let page = match self.peer.list_tools(Some(asked)).await {
                Ok(page) => page,
                // A server without tools need not know the question.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
                Err(error) => {
                    let closed = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
                    return Err(Misfit { why: format!("does not list its tools: {}", complaint(&error)), closed });
                }
            };
            if !listing.take(page.tools) {
                break;
            }
            match page.next_cursor {
                None => break,
                next if next == cursor => {
                    listing.note("it repeats a page of its list");
                    break;
                }
                next => cursor = next,
            }
        }
        Ok(listing.close())
    }

    /// The way to call tools over this connection, also when it has ended.
    pub(super) fn caller(&self) -> Caller {
        Caller(self.peer.clone())
    }
}

/// Calls tools over one connection.
#[derive(Clone)]
pub(super) struct Caller(Peer<RoleClient>);

/// Why a call has no output.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server says no, or answers with what is no result: reads after its name.
    Refused(String),
    /// The connection is no more; the call may have run.
    Broken,
}

impl Caller {
    /// Runs one call. Dropping the future tells the server that nobody waits any more.
    pub(super) async fn call(&self, invocation: &Invocation, read_only: bool) -> Result<ToolOutput, Failure> {
        let call = &invocation.call;
        let mut params = CallToolRequestParams::new(call.name.own_name().to_owned());
        if let Value::Object(arguments) = &call.arguments {
            params = params.with_arguments(arguments.clone());
        }
        params.set_meta(meta(invocation, read_only));
        match self.0.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => Ok(output::from(result)),
            Ok(_more_rounds_or_a_task) => {
                Err(Failure::Refused("asks for more than a result, which nobody here speaks".into()))
            }
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => Err(Failure::Broken),
            Err(ServiceError::McpError(error)) if error.code.0 == LINE_TOO_LONG => {
                Err(Failure::Refused(format!("{}; the call has run, ask for less", clip(&error.message))))
            }
            Err(error) => Err(Failure::Refused(format!("refuses the call: {}", complaint(&error)))),
        }
    }
}

/// What goes with a call beside its arguments: its trace, and for a call that changes
/// something the key under which it may happen once.
fn meta(invocation: &Invocation, read_only: bool) -> RequestMetaObject {
    let Invocation { call, context, .. } = invocation;
    let trace = trace::trace_id(&context.turn, Some(&context.traceparent));
    let span = trace::call_span(&context.turn, call.id.as_str());
    let mut meta = RequestMetaObject::new();
    meta.set_traceparent(trace::traceparent(&trace, &span));
    if !read_only {
        meta.insert(IDEMPOTENCY_KEY.to_owned(), invocation.idempotency_key().into());
    }
    meta
}

/// Why there was no handshake.
fn misfit(error: &ClientInitializeError) -> Misfit {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            Misfit { why: "closed the connection during the handshake".to_owned(), closed: true }
        }
        ClientInitializeError::TransportError { error, .. } => {
            Misfit { why: format!("cannot be told the handshake: {}", clip(&error.to_string())), closed: true }
        }
        ClientInitializeError::JsonRpcError(error) => Misfit::new(format!("refuses the handshake: {}", told(error))),
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            Misfit::new("answers the handshake with something else; is it a server of the Model Context Protocol?")
        }
        other => Misfit::new(format!("fails the handshake: {}", clip(&other.to_string()))),
    }
}

fn complaint(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => told(error),
        ServiceError::UnexpectedResponse => "its answer is not of the protocol".to_owned(),
        other => clip(&other.to_string()),
    }
}

fn told(error: &ErrorData) -> String {
    format!("{} ({})", clip(&error.message), error.code.0)
}

/// A stranger's words, short enough for an error, without control characters.
fn clip(text: &str) -> String {
    let (short, more) = match text.len() <= COMPLAINT_BYTES {
        true => (text, ""),
        false => (&text[..text.floor_char_boundary(COMPLAINT_BYTES)], "…"),
    };
    let clean: String = short.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{}{more}", clean.trim())
}

#[cfg(test)]
#[path = "rmcp_tests.rs"]
mod tests;
