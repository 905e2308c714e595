//! The protocol, implemented by rmcp. Its types do not leave this module.
//!
//! A [`Connection`] has completed the handshake and lists tools; a [`Caller`] calls them. Deadlines are the caller's:
//! dropping a future cancels its request, without waiting for the server.
//!
//! | file | contents |
//! |---|---|
//! | `apart` | reads a large message apart |
//! | `handshake` | accepts only the response to the handshake |
//! | `lifecycle` | which version of the protocol a server speaks |
//! | `changes` | notifications of a changed tool list |
//! | `handler` | requests of the server |
//! | `answers` | answers to them, and to the questions in the result of a call |
//! | `http` | a server over streamable HTTP |
//! | `oauth` | tokens for such a server |
//! | `errors`, `trouble` | error texts, of the protocol and of HTTP |
//! | `progress` | running calls and their progress |
//! | `tasks` | calls that a server works on as tasks |
//! | `tools` | a server's tools as descriptors, with their bounds |
//! | `output` | a server's result as a tool's output |

mod answers;
mod apart;
mod changes;
mod errors;
mod handler;
mod handshake;
mod http;
mod lifecycle;
#[cfg(not(feature = "oauth"))]
mod no_oauth;
#[cfg(feature = "oauth")]
mod oauth;
mod output;
mod progress;
mod tasks;
mod tools;
mod trouble;

pub(super) use handler::Handler;
pub(super) use lifecycle::Discovery;
#[cfg(not(feature = "oauth"))]
use no_oauth as oauth;
pub(super) use oauth::{Tokens, log_in, log_out};
pub(super) use tools::{Listed, ToolFilter};

use super::sieve::{LINE_TOO_LONG, Sieve};
use crate::tools::Invocation;
use answers::{Answers, Asker};
use apart::Apart;
use bob_messages::chat::ServerWait;
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
use rmcp::service::{ClientLifecycleMode, Peer, ServiceError, serve_client_with_lifecycle_and_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, RwLock};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use trouble::clip;

/// The longest line from a server, in bytes. A longer one is dropped while reading, and its call fails as soon as it
/// is identified.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Maximum of pages of a tool list.
const MAX_PAGES: usize = 128;

/// How often a server may ask for something before it answers a call.
const MAX_ROUNDS: u32 = 10;

/// Before a call is repeated for a server that asked for nothing: this, times the number of the round.
const LATER: Duration = Duration::from_millis(100);

/// Of a server that needs what this build does not have.
const NO_OAUTH: &str = "cannot be signed in to: this program was built without the feature `oauth`";

/// Of a server to which a token would go in plain text.
const PLAIN_URL: &str = "cannot be signed in to: its `url` must begin with https:// (http:// only on this machine)";

/// How long taking leave of a server may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Under this key of a call's `_meta` goes the key under which its effect happens once.
const IDEMPOTENCY_KEY: &str = "bob/idempotencyKey";

/// A session with a server, from the end of its handshake. Dropping it closes the way to the server.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    calls: OnTheirWay,
    answers: Arc<Answers>,
    /// Locked to read while the server is told that a task is given up.
    giving_up: Arc<RwLock<()>>,
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
    /// Agrees on a version over two pipes, without a timeout; dropping the future closes the pipes. Without a discovery,
    /// there is only the handshake.
    pub(super) async fn open<R, W>(
        read: R,
        write: W,
        handler: Handler,
        discovery: Option<Discovery>,
    ) -> Result<(Self, Gone), Misfit>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let read = Sieve::new(read, MAX_LINE_BYTES);
        let is_large = read.is_large();
        // Here the end of a line counts, too.
        let transport = AsyncRwTransport::new_client(read, write).with_max_line_length(MAX_LINE_BYTES + 1);
        let mode = lifecycle::mode(discovery.as_ref());
        Self::over(Handshake::new(Apart::new(transport, is_large), discovery), handler, mode, CancellationToken::new())
            .await
    }

    /// Agrees on a version with a server over HTTP, with a timeout for connecting and for the discovery; dropping the
    /// future ends every request. `suspect` is notified of symptoms of a dead server.
    /// Errors: the unexpected behaviour of the server, or the invalid part of `spec`.
    pub(super) async fn reach(
        spec: &HttpSpec,
        handler: impl Fn() -> Handler,
        suspect: Arc<Notify>,
        discovery: Option<Discovery>,
        tokens: Option<Arc<Tokens>>,
    ) -> Result<(Self, Gone), Misfit> {
        if spec.sign_in.is_some() && tokens.is_none() {
            return Err(Misfit::new(NO_OAUTH));
        }
        let reached = async |mode| {
            let token = CancellationToken::new();
            let web = Web::new(spec, token.clone(), Arc::clone(&suspect), tokens.clone())?;
            let transport = StreamableHttpClientTransport::with_client(web, Web::config(spec));
            Self::over(transport, handler(), mode, token).await
        };
        if let Some(discovery) = discovery {
            // What a server of an older version answers to an unknown question differs, down to a page of a proxy.
            let pages = tokens.as_ref().map(|tokens| tokens.pages());
            match timeout(discovery.within, reached(lifecycle::discovery_only())).await {
                Ok(Ok(found)) => return Ok(found),
                // A person who has just not signed in is not asked again.
                Ok(Err(misfit)) if tokens.as_ref().zip(pages).is_some_and(|(it, pages)| it.was_denied_after(pages)) => {
                    return Err(misfit);
                }
                // It is of an older version, or silent.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        reached(ClientLifecycleMode::Initialize).await
    }

    async fn over<T, E, A>(
        transport: T,
        handler: Handler,
        mode: ClientLifecycleMode,
        token: CancellationToken,
    ) -> Result<(Self, Gone), Misfit>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let handler = if mode == ClientLifecycleMode::Initialize { handler.without_tasks() } else { handler };
        let (closes, calls, answers) = (token.clone().drop_guard(), handler.calls(), handler.answers());
        let served = serve_client_with_lifecycle_and_ct(handler, transport, mode, token);
        let service = Box::pin(served).await.map_err(|error| misfit(&error))?;
        let peer = service.peer().clone();
        let spoken = peer.peer_info().map(|info| info.protocol_version.clone());
        if let Some(spoken) = spoken.filter(|spoken| !ProtocolVersion::KNOWN_VERSIONS.contains(spoken)) {
            let spoken = clip(spoken.as_str());
            return Err(Misfit::new(format!("speaks version {spoken:?} of the protocol, which is not supported")));
        }
        let gone = async move { drop(service.waiting().await) }.boxed().shared();
        Ok((Self { peer, calls, answers, giving_up: Arc::default(), closes, gone: gone.clone() }, gone))
    }

    /// Asks the server for a sign of life. Takes as long as the server does.
    pub(super) async fn ping(&self) -> Result<(), Misfit> {
        match self.peer.send_request(ClientRequest::PingRequest(PingRequest::default())).await {
            // Any response to a ping, also an error, is a sign of life.
            Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => Ok(()),
            Err(error) => Err(errors::unfit(&error, "does not answer")),
        }
    }

    /// Takes leave, where there is a way to do so: at most a second. So long may it take the server to hear which tasks are
    /// given up.
    pub(super) async fn close(self) {
        self.gave_up().await;
        let Self { closes, gone, .. } = self;
        drop(closes);
        let _in_time_or_not = timeout(FAREWELL, gone).await;
    }

    /// Waits a moment until the server has heard which tasks are given up.
    pub(super) async fn gave_up(&self) {
        let _in_time_or_not = timeout(FAREWELL, self.giving_up.write()).await;
    }

    pub(super) fn server(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        let said = info.server_info.as_ref()?;
        Some(clip(format!("{} {}", said.name, said.version).trim()))
    }

    pub(super) fn protocol(&self) -> Option<String> {
        Some(clip(self.peer.peer_info()?.protocol_version.as_str()))
    }

    /// Whether the session began with a handshake, as in the versions before 2026-07-28.
    pub(super) fn has_handshake(&self) -> bool {
        self.peer.peer_info().is_none_or(|info| info.protocol_version.has_initialize())
    }

    /// Notifies `changed` of changes of the tools that have to be asked for.
    pub(super) async fn watch(&self, changed: &Notify) -> std::convert::Infallible {
        changes::watch(&self.peer, changed).await
    }

    /// Lists all pages of the server's tools, through `filter`.
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
        let (answers, giving_up) = (Arc::clone(&self.answers), Arc::clone(&self.giving_up));
        Caller { peer: self.peer.clone(), calls: self.calls.clone(), answers, giving_up }
    }
}

#[derive(Clone)]
pub(super) struct Caller {
    peer: Peer<RoleClient>,
    calls: OnTheirWay,
    answers: Arc<Answers>,
    giving_up: Arc<RwLock<()>>,
}

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
    /// Runs one call, again for each time that the server asks for something first; or asks for the result of one that the
    /// server has taken. Dropping the future sends a cancel notification.
    pub(super) async fn call(&self, invocation: &Invocation, read_only: bool) -> Result<ToolOutput, Failure> {
        let call = &invocation.call;
        let mut params = CallToolRequestParams::new(call.name.own_name().to_owned());
        if let Value::Object(arguments) = &*call.arguments {
            params = params.with_arguments(arguments.clone());
        }
        params.set_meta(meta(invocation, read_only));
        match invocation.context.server_wait.as_deref() {
            Some(ServerWait::Task { id }) => return self.follow(id, invocation).await,
            Some(wait @ ServerWait::Asks { questions, state, reply }) => {
                match self.answers.of_reply(questions, reply.as_deref().unwrap_or_default()) {
                    Ok(answers) => params.input_responses = Some(answers),
                    Err(why) => return Ok(wait.output(&why)),
                }
                params.request_state = state.as_deref().map(str::to_owned);
            }
            None => {}
        }
        let progress = invocation.progress();
        for round in 0..=MAX_ROUNDS {
            match progress::call(&self.peer, &self.calls, params.clone(), progress.clone()).await {
                Ok(ServerResult::CallToolResult(result)) => return Ok(output::from(result)),
                Ok(ServerResult::InputRequiredResult(_)) if round == MAX_ROUNDS => break,
                Ok(ServerResult::InputRequiredResult(asked)) => {
                    let questions = asked.input_requests.unwrap_or_default();
                    if let Some(wait) = self.answers.left(&questions, asked.request_state.as_deref(), invocation) {
                        return Ok(wait.output(""));
                    }
                    if questions.is_empty() {
                        sleep(LATER * (round + 1)).await;
                    }
                    let answers = self.answers.to(questions, &Asker::of_call(&invocation.context)).await?;
                    params.input_responses = (!answers.is_empty()).then_some(answers);
                    params.request_state = asked.request_state;
                }
                Ok(ServerResult::CreateTaskResult(made)) => return self.taken(&made).await,
                Ok(_of_another_question) => return Err(errors::failure(&ServiceError::UnexpectedResponse)),
                Err(ServiceError::McpError(error)) if error.code.0 == LINE_TOO_LONG => {
                    let why = clip(&error.message);
                    return Err(Failure::Refused(format!("{why}; the call has run, ask for less")));
                }
                Err(error) => return Err(errors::failure(&error)),
            }
        }
        Err(Failure::Refused(format!("asked for input more than {MAX_ROUNDS} times; the call was given up")))
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
#[path = "rmcp_newest_tests.rs"]
mod newest_tests;

#[cfg(test)]
#[path = "rmcp_fuzz_tests.rs"]
mod fuzz;
