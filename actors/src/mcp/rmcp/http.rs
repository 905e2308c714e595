//! A tool server over streamable HTTP.
//!
//! [`Web`] is rmcp's HTTP client with additions: restricted destinations, detection of lost sessions, redaction of
//! errors, and an orderly end. It follows redirects within one origin only, sends the configured headers to that
//! origin only, opens no address named by a server, and sends a request again only if its token was refused. Tokens are
//! the matter of `oauth`, which asks the authorization server that a server names.

use super::oauth::{Challenge, Tokens};
use super::trouble::{self, Key, Trouble};
use super::{Misfit, PLAIN_URL, clip};
use crate::loopback::{is_loopback_host, keeps_secrets};
use bob_messages::options::{HttpSpec, Named};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Client, Url};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage, NumberOrString, PingRequest, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long connecting may take at most.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept; a restarted server is reached over a new one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// After this much silence the system asks whether the far end is still there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How large one event of a stream may be, in bytes. Bodies that are no streams have the same bound.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// How many redirects one request may take.
const MAX_REDIRECTS: usize = 3;

/// How many requests of one connection may be under way at once.
const MAX_REQUESTS: usize = 1024;

/// How often a cut stream is taken up again before its call is given up; about three seconds together.
const RESUMPTIONS: usize = 4;

/// How often one request is sent at most, each time with another token.
const MAX_ATTEMPTS: usize = 4;

/// Before the second of them; doubled each time.
const RESUME_AFTER: Duration = Duration::from_millis(200);

/// Pause before each stream but the first, independent of what the server requests: one that closes every stream immediately
/// must not cause a busy loop.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the first request waits for the server-to-client stream. Before it is open, messages of the server are
/// lost, and a server that counts streams mistakes a late one for a resumed one.
const WAY_BACK_WITHIN: Duration = Duration::from_secs(1);

/// The code of existing servers for an unknown session, with status 400, where the specification requires 404. It is
/// used for other errors as well.
const SESSION_UNKNOWN: ErrorCode = ErrorCode(-32000);

type Answer<T> = Result<T, StreamableHttpError<Trouble>>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The HTTP client of one server. Clones share it.
#[derive(Clone)]
pub(super) struct Web(Arc<Inner>);

struct Inner {
    http: Client,
    key: Key,
    /// Everything under way ends with it.
    closed: CancellationToken,
    /// Notified when the server may be gone.
    suspect: Arc<Notify>,
    streamed: AtomicBool,
    /// Cancelled when the first stream is there or refused.
    way_back: CancellationToken,
    tokens: Option<Arc<Tokens>>,
}

impl Web {
    pub(super) fn new(
        spec: &HttpSpec,
        closed: CancellationToken,
        suspect: Arc<Notify>,
        tokens: Option<Arc<Tokens>>,
    ) -> Result<Self, Misfit> {
        let url = Url::parse(&spec.url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| Misfit::new("has no usable `url`: it must begin with http:// or https://"))?;
        if spec.sign_in.is_some() && !keeps_secrets(&url) {
            return Err(Misfit::new(PLAIN_URL));
        }
        let key = Key::new(&url, spec);
        // Fails if a provider is installed already, which is fine.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .default_headers(headers(spec)?)
            .redirect(Policy::custom(redirect))
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_keepalive(KEEPALIVE);
        if is_loopback_host(&url) {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Misfit::new(format!("has no HTTP client: {}", clip(&error.to_string()))))?;
        let (streamed, way_back) = (AtomicBool::new(false), CancellationToken::new());
        Ok(Self(Arc::new(Inner { http, key, closed, suspect, streamed, way_back, tokens })))
    }

    /// The configuration of rmcp's transport. Lost sessions are replaced by the keeper, which knows which calls may
    /// be repeated.
    pub(super) fn config(spec: &HttpSpec) -> StreamableHttpClientTransportConfig {
        let mut retry = ExponentialBackoff::default();
        retry.max_times = Some(RESUMPTIONS);
        retry.base_duration = RESUME_AFTER;
        let mut config = StreamableHttpClientTransportConfig::with_uri(spec.url.as_str())
            .max_concurrent_requests(MAX_REQUESTS)
            .max_sse_event_size(MAX_EVENT_BYTES)
            .reinit_on_expired_session(false);
        config.retry_config = Arc::new(retry);
        config
    }

    /// Whether the server still knows the session. No response counts as yes.
    async fn knows(&self, uri: &Arc<str>, session: &Arc<str>, token: Option<String>, headers: &Headers) -> bool {
        let id = RequestId::from(NumberOrString::String("bob-session".into()));
        let ping = ClientJsonRpcMessage::request(ClientRequest::PingRequest(PingRequest::default()), id);
        let asked = self.0.http.post_message_with_max_sse_event_size(
            Arc::clone(uri),
            ping,
            Some(Arc::clone(session)),
            token,
            headers.clone(),
            MAX_EVENT_BYTES,
        );
        match self.while_open(asked).await {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)) => {
                error.error.code != SESSION_UNKNOWN
            }
            Err(StreamableHttpError::SessionExpired) => false,
            Ok(_) | Err(_) => true,
        }
    }

    async fn while_open<T>(
        &self,
        request: impl Future<Output = Result<T, StreamableHttpError<reqwest::Error>>>,
    ) -> Answer<T> {
        tokio::select! { biased;
            () = self.0.closed.cancelled() => Err(StreamableHttpError::TransportChannelClosed),
            answer = request => answer.map_err(|error| trouble::of(error, &self.0.key)),
        }
    }

    /// Sends a request with the token, and again with another one if it was refused: a refused request has done nothing.
    /// Returns the token with it.
    async fn signed<T, F>(
        &self,
        given: Option<String>,
        send: impl Fn(Option<String>) -> F,
    ) -> Answer<(T, Option<String>)>
    where
        F: Future<Output = Result<T, StreamableHttpError<reqwest::Error>>>,
    {
        let Some(tokens) = &self.0.tokens else {
            return Ok((self.while_open(send(given.clone())).await?, given));
        };
        let closed = || self.0.closed.cancelled();
        let refused = |why| StreamableHttpError::Client(Trouble::Refused(why));
        let mut token = tokio::select! { biased;
            () = closed() => return Err(StreamableHttpError::TransportChannelClosed),
            token = tokens.current() => token.map_err(refused)?,
        };
        let mut attempts = 1;
        loop {
            self.0.key.learn(tokens.secrets());
            let error = tokio::select! { biased;
                () = closed() => return Err(StreamableHttpError::TransportChannelClosed),
                answer = send(token.clone()) => match answer {
                    Ok(answer) => return Ok((answer, token)),
                    Err(error) => error,
                },
            };
            let Some(challenge) = challenge(&error).filter(|_| attempts < MAX_ATTEMPTS) else {
                return Err(trouble::of(error, &self.0.key));
            };
            attempts += 1;
            let next = tokio::select! { biased;
                () = closed() => return Err(StreamableHttpError::TransportChannelClosed),
                next = tokens.after(token.as_deref(), &challenge) => next.map_err(refused)?,
            };
            token = Some(next);
        }
    }

    fn until_closed(&self, events: Events) -> Events {
        let web = self.clone();
        let events = events.map(move |event| event.map(|event| web.without_keys(event)));
        events.take_until(self.0.closed.clone().cancelled_owned()).boxed()
    }

    /// An event without the keys that an error in it repeats.
    fn without_keys(&self, mut event: Sse) -> Sse {
        let data = event.data.as_deref().filter(|data| data.contains("\"error\""));
        let error = data.and_then(|data| serde_json::from_str(data).ok());
        if let Some(ServerJsonRpcMessage::Error(mut error)) = error {
            error.error.message = self.0.key.hidden_in(&error.error.message).into();
            event.data = serde_json::to_string(&ServerJsonRpcMessage::Error(error)).ok();
        }
        event
    }
}

impl StreamableHttpClient for Web {
    type Error = Trouble;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Answer<StreamableHttpPostResponse> {
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, MAX_EVENT_BYTES).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Answer<StreamableHttpPostResponse> {
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
        };
        if asked.is_some() && session.is_some() && timeout(WAY_BACK_WITHIN, self.0.way_back.cancelled()).await.is_err()
        {
            self.0.way_back.cancel();
        }
        let post = |token| {
            let (uri, message, session) = (Arc::clone(&uri), message.clone(), session.clone());
            self.0.http.post_message_with_max_sse_event_size(uri, message, session, token, headers.clone(), max_event)
        };
        let (answer, token) = self.signed(token, post).await?;
        let (mut error, named) = match answer {
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), named) => (error, named),
            StreamableHttpPostResponse::Sse(events, named) => {
                return Ok(StreamableHttpPostResponse::Sse(self.until_closed(events), named));
            }
            answer => return Ok(answer),
        };
        if let (SESSION_UNKNOWN, Some(session)) = (error.error.code, &session)
            && !self.knows(&uri, session, token, &headers).await
        {
            return Err(StreamableHttpError::SessionExpired);
        }
        // An error without an id belongs to the request of this connection.
        error.id = error.id.or(asked);
        error.error.message = self.0.key.hidden_in(&error.error.message).into();
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), named))
    }

    /// Ends the session, without waiting for the response.
    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Answer<()> {
        let token = match &self.0.tokens {
            // A session that ends is not worth another token.
            Some(tokens) => tokens.known(),
            None => token,
        };
        let _heard_or_not = self.0.http.delete_session(uri, session, token, headers).await;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Answer<Events> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, MAX_EVENT_BYTES).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Answer<Events> {
        if self.0.streamed.swap(true, Ordering::Relaxed) {
            tokio::time::sleep(PAUSE).await;
        }
        let open = |token| {
            let (uri, session, last) = (Arc::clone(&uri), session.clone(), last_event.clone());
            self.0.http.get_stream_with_max_sse_event_size(uri, session, last, token, headers.clone(), max_event)
        };
        let opened = self.signed(token, open).await;
        self.0.way_back.cancel();
        match opened {
            Ok((events, _)) => Ok(self.until_closed(events)),
            Err(error) => {
                if !matches!(error, StreamableHttpError::ServerDoesNotSupportSse) {
                    self.0.suspect.notify_one();
                }
                Err(error)
            }
        }
    }
}

/// A refusal for lack of a token, or of what a token permits.
fn challenge(error: &StreamableHttpError<reqwest::Error>) -> Option<Challenge> {
    let (status, header) = match error {
        StreamableHttpError::AuthRequired(refused) => (401, refused.www_authenticate_header.clone()),
        StreamableHttpError::InsufficientScope(refused) => (403, refused.www_authenticate_header.clone()),
        StreamableHttpError::HttpStatus(failed) if failed.status == 401 => (401, String::new()),
        StreamableHttpError::UnexpectedServerResponse(said) if said.starts_with("HTTP 401") => (401, String::new()),
        _ => return None,
    };
    Some(Challenge { status, header })
}

/// The configured headers, marked as not to be shown.
fn headers(spec: &HttpSpec) -> Result<HeaderMap, Misfit> {
    let mut headers = HeaderMap::new();
    for Named { name, value } in &spec.headers {
        let refuse = |why: &str| Misfit::new(format!("cannot be sent the header {name:?} of its `headers`: {why}"));
        let name: HeaderName = name.parse().map_err(|_| refuse("this is no name of a header"))?;
        if name.as_str().starts_with("mcp-") || ["accept", "content-type", "last-event-id"].contains(&name.as_str()) {
            return Err(refuse("it belongs to the protocol; leave it out"));
        }
        let mut value = HeaderValue::from_str(value.expose().unwrap_or_default())
            .map_err(|_holds_it| refuse("its value has characters that no header can have"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Follows redirects that preserve the request, within its origin.
fn redirect(attempt: Attempt<'_>) -> Action {
    let to = attempt.url().origin();
    let stays = attempt.previous().first().is_some_and(|asked| asked.origin() == to);
    let keeps = matches!(attempt.status().as_u16(), 307 | 308);
    if !stays {
        let to = clip(&to.ascii_serialization());
        attempt.error(format!(
            "redirects to another place, {to:?}, which is not followed; if that is right, set `url` to it"
        ))
    } else if !keeps {
        let status = attempt.status();
        attempt.error(format!("redirects with HTTP {status}, which would lose the request; set `url` to where it is"))
    } else if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error("redirects again and again")
    } else {
        attempt.follow()
    }
}
