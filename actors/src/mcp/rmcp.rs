//! The protocol, implemented by rmcp. Its types do not leave this module.
//!
//! A [`Connection`] has completed the handshake and lists tools; a [`Caller`] calls them. Deadlines are the caller's:
//! dropping a future cancels its request, without waiting for the server.
//!
//! | file | contents |
//! |---|---|
//! | `handshake` | accepts only the response to the handshake |
//! | `handler` | requests of the server |
//! | `http` | a server over streamable HTTP |
//! | `errors`, `trouble` | error texts, of the protocol and of HTTP |
//! | `progress` | running calls and their progress |
//! | `tools` | a server's tools as descriptors, with their bounds |
//! | `output` | a server's result as a tool's output |

mod errors;
mod handler;
mod handshake;
mod http;
mod output;
mod progress;
mod tools;
mod trouble;

pub(super) use handler::Handler;
pub(super) use tools::{Listed, ToolFilter};

use super::sieve::{LINE_TOO_LONG, Sieve};
use crate::tools::Invocation;
use bob_messages::options::HttpSpec;
use bob_messages::tools::ToolOutput;
use errors::misfit;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use handshake::Handshake;
use http::Web;
use progress::OnTheirWay;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, ClientRequest, ErrorCode, PaginatedRequestParams, PingRequest, ProtocolVersion,
    RequestMetaObject, RequestParamsMeta, ServerResult,
};
use rmcp::service::{Peer, ServiceError, serve_client_with_ct};
use rmcp::transport::IntoTransport;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use trouble::clip;

/// The longest line from a server, in bytes. A longer one is dropped while reading, and its call fails as soon as it
/// is identified.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Maximum of pages of a tool list.
const MAX_PAGES: usize = 128;

/// How long taking leave of a server may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Under this key of a call's `_meta` goes the key under which its effect happens once.
const IDEMPOTENCY_KEY: &str = "bob/idempotencyKey";

/// A session with a server, from the end of its handshake. Dropping it closes the way to the server.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    calls: OnTheirWay,
    closes: DropGuard,
    gone: Gone,
}

/// Why a server cannot be used.
#[derive(Debug)]
pub(super) struct Misfit {
    /// The error; the text follows the server's name.
    pub(super) why: String,
    /// Whether the connection ended; then its process may tell more.
    pub(super) closed: bool,
    /// Whether the server no longer knows the session, so that a new one may help.
    pub(super) lost: bool,
}

impl Misfit {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), closed: false, lost: false }
    }
}

/// Resolves when a connection has ended for any reason.
pub(super) type Gone = Shared<BoxFuture<'static, ()>>;

impl Connection {
    /// Performs the handshake over two pipes, without a timeout; dropping the future closes the pipes.
    ///
    /// # Errors
    /// Returns the unexpected behaviour of the server.
    pub(super) async fn open<R, W>(read: R, write: W, handler: Handler) -> Result<(Self, Gone), Misfit>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let read = Sieve::new(read, MAX_LINE_BYTES);
        // Here the end of a line counts, too.
        let transport = AsyncRwTransport::new_client(read, write).with_max_line_length(MAX_LINE_BYTES + 1);
        Self::over(Handshake::new(transport), handler, CancellationToken::new()).await
    }

    /// Performs the handshake with a server over HTTP, with a timeout for connecting only; dropping the future ends
    /// every request. `suspect` is notified of symptoms of a dead server.
    ///
    /// # Errors
    /// Returns the unexpected behaviour of the server, or the invalid part of `spec`.
    pub(super) async fn reach(spec: &HttpSpec, handler: Handler, suspect: Arc<Notify>) -> Result<(Self, Gone), Misfit> {
        let token = CancellationToken::new();
        let web = Web::new(spec, token.clone(), suspect)?;
        Self::over(StreamableHttpClientTransport::with_client(web, Web::config(spec)), handler, token).await
    }

    async fn over<T, E, A>(transport: T, handler: Handler, token: CancellationToken) -> Result<(Self, Gone), Misfit>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let (closes, calls) = (token.clone().drop_guard(), handler.calls());
        let service =
            Box::pin(serve_client_with_ct(handler, transport, token)).await.map_err(|error| misfit(&error))?;
        let peer = service.peer().clone();
        let spoken = peer.peer_info().map(|info| info.protocol_version.clone());
        if let Some(spoken) = spoken.filter(|spoken| !ProtocolVersion::KNOWN_VERSIONS.contains(spoken)) {
            let spoken = clip(spoken.as_str());
            return Err(Misfit::new(format!("speaks version {spoken:?} of the protocol, which is not supported")));
        }
        let gone = async move { drop(service.waiting().await) }.boxed().shared();
        Ok((Self { peer, calls, closes, gone: gone.clone() }, gone))
    }

    /// Asks the server for a sign of life. Takes as long as the server does.
    ///
    /// # Errors
    /// When it gives none.
    pub(super) async fn ping(&self) -> Result<(), Misfit> {
        match self.peer.send_request(ClientRequest::PingRequest(PingRequest::default())).await {
            // Any response to a ping, also an error, is a sign of life.
            Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => Ok(()),
            Err(error) => Err(errors::unfit(&error, "does not answer")),
        }
    }

    /// Takes leave, where there is a way to do so: at most a second.
    pub(super) async fn close(self) {
        let Self { peer: _, calls: _, closes, gone } = self;
        drop(closes);
        let _in_time_or_not = timeout(FAREWELL, gone).await;
    }

    /// Name and version, as reported by the server.
    pub(super) fn server(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        let said = info.server_info.as_ref()?;
        Some(clip(format!("{} {}", said.name, said.version).trim()))
    }

    /// Lists all pages of the server's tools, through `filter`.
    ///
    /// # Errors
    /// Returns the unexpected behaviour of the server.
    pub(super) async fn list(&self, filter: &ToolFilter) -> Result<Listed, Misfit> {
        let mut listing = filter.open();
        let mut cursor = None;
        for page in 1..=MAX_PAGES {
            let asked = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let listed = match self.peer.list_tools(Some(asked)).await {
                Ok(listed) => listed,
                // A server without tools need not know the question.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
                Err(error) => return Err(errors::unfit(&error, "does not list its tools")),
            };
            if !listing.take(listed.tools) {
                break;
            }
            match listed.next_cursor {
                None => break,
                next if next == cursor => {
                    listing.note("it repeats a page of its list");
                    break;
                }
                next => cursor = next,
            }
            if page == MAX_PAGES {
                listing.note(&format!("its list has more than {MAX_PAGES} pages"));
            }
        }
        Ok(listing.close())
    }

    /// The way to call tools over this connection, also when it has ended.
    pub(super) fn caller(&self) -> Caller {
        Caller(self.peer.clone(), self.calls.clone())
    }
}

/// Calls tools over one connection.
#[derive(Clone)]
pub(super) struct Caller(Peer<RoleClient>, OnTheirWay);

/// Why a call has no output.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of the server, or an invalid result; the text follows its name.
    Refused(String),
    /// The call did not leave; why reads after the server's name.
    NotSent(String),
    /// The call may have run, and its result cannot be had; why reads after the server's name.
    Doubtful(String),
    /// The connection ended; the call may have run.
    Broken,
    /// The server responded that it no longer knows the session.
    SessionLost,
}

impl Caller {
    /// Runs one call. Dropping the future sends a cancel notification.
    pub(super) async fn call(&self, invocation: &Invocation, read_only: bool) -> Result<ToolOutput, Failure> {
        let call = &invocation.call;
        let mut params = CallToolRequestParams::new(call.name.own_name().to_owned());
        if let Value::Object(arguments) = &*call.arguments {
            params = params.with_arguments(arguments.clone());
        }
        params.set_meta(meta(invocation, read_only));
        match progress::call(&self.0, &self.1, params, invocation.progress()).await {
            Ok(ServerResult::CallToolResult(result)) => Ok(output::from(result)),
            Ok(ServerResult::InputRequiredResult(_) | ServerResult::CreateTaskResult(_)) => {
                Err(Failure::Refused("asks for further input, which is not supported".into()))
            }
            Ok(_of_another_question) => Err(errors::failure(&ServiceError::UnexpectedResponse)),
            Err(ServiceError::McpError(error)) if error.code.0 == LINE_TOO_LONG => {
                Err(Failure::Refused(format!("{}; the call has run, ask for less", clip(&error.message))))
            }
            Err(error) => Err(errors::failure(&error)),
        }
    }
}

/// Metadata of a call: its trace, and for a call with side effects its idempotency key.
fn meta(invocation: &Invocation, read_only: bool) -> RequestMetaObject {
    let Invocation { call, context, .. } = invocation;
    let mut meta = RequestMetaObject::new();
    meta.set_traceparent(context.call_traceparent(&call.id));
    if let Some(state) = &context.tracestate {
        meta.set_tracestate(&**state);
    }
    if !read_only {
        meta.insert(IDEMPOTENCY_KEY.to_owned(), invocation.idempotency_key().into());
    }
    meta
}

#[cfg(test)]
#[path = "rmcp_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "rmcp_fuzz.rs"]
mod fuzz;
