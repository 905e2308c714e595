//! What went wrong with a request over HTTP, and what may be said of it.
//!
//! A server's words are shortened and stripped, and what it repeats of a key is hidden.
//! A challenge (`WWW-Authenticate`) is never followed.

use crate::secrets::Secrets;
use bob_messages::options::Named;
use reqwest::Url;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::borrow::Cow;
use std::error::Error;

/// How much of a server's complaint is repeated, in bytes.
const COMPLAINT_BYTES: usize = 2 * 1024;

/// What a request came to that got no answer. Each reads after the server's name.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// It did not leave.
    #[error("{0}")]
    NotSent(String),
    /// The server said no.
    #[error("{0}")]
    Refused(String),
    /// It may have done its work.
    #[error("{0}")]
    Doubtful(String),
}

/// What is sent to a server to be let in, and where it is asked.
pub(super) struct Key {
    origin: String,
    names: Vec<String>,
    secrets: Secrets,
}

impl Key {
    pub(super) fn new(url: &Url, headers: &[Named]) -> Self {
        // Some servers are let in by their address; both as it is written there and as it is meant.
        let written = url.query().into_iter().flat_map(|query| query.split('&'));
        let written = written.map(|pair| Cow::Borrowed(pair.split_once('=').map_or(pair, |(_name, value)| value)));
        let asked: Vec<_> = written.chain(url.query_pairs().map(|(_, value)| value)).collect();
        Self {
            origin: url.origin().ascii_serialization(),
            names: headers.iter().map(|named| named.name.clone()).collect(),
            secrets: Secrets::of(
                headers.iter().filter_map(|named| named.value.expose()).chain(asked.iter().map(AsRef::as_ref)),
            ),
        }
    }

    /// A server's words without the key.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        self.secrets.hidden_in(text)
    }

    /// Why the server lets nobody in, and what can be done.
    fn refused(&self, status: u16, challenge: &str) -> Trouble {
        let sent: Vec<_> = self.names.iter().map(|name| format!("{name:?}")).collect();
        let advice = match (status, sent.is_empty()) {
            (401, true) => "asks for a key (HTTP 401): give it as one of the `headers` of this server".to_owned(),
            (401, false) => format!(
                "takes no key from us (HTTP 401): see the `headers` of this server, which send {}",
                sent.join(", ")
            ),
            (_, true) => {
                format!("lets nobody in without a key (HTTP {status}): give it as one of the `headers` of this server")
            }
            (_, false) => format!(
                "forbids it (HTTP {status}): see what the `headers` of this server, {}, are good for",
                sent.join(", ")
            ),
        };
        let more = more_at(challenge).map(|url| format!("; it says more at {:?}", clip(&self.hidden_in(&url))));
        Trouble::Refused(format!("{advice}{}", more.unwrap_or_default()))
    }
}

/// The page a challenge names, if it may be shown. Nobody opens it.
fn more_at(challenge: &str) -> Option<String> {
    let (_, rest) = challenge.split_once("resource_metadata=")?;
    let named = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split([',', ' ']).next()?,
    };
    let url = Url::parse(named).ok().filter(|url| url.scheme() == "https")?;
    // Somebody may paste it into a shell.
    let is_plain = url.path().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._~-%".contains(&byte));
    Some(format!("{}{}", url.origin().ascii_serialization(), if is_plain { url.path() } else { "/" }))
}

/// Reads rmcp's error. What rmcp itself acts upon stays what it is.
pub(super) fn of(error: StreamableHttpError<reqwest::Error>, key: &Key) -> StreamableHttpError<Trouble> {
    use StreamableHttpError as E;
    let trouble = match error {
        E::SessionExpired => return E::SessionExpired,
        E::ServerDoesNotSupportSse => return E::ServerDoesNotSupportSse,
        E::TransportChannelClosed => return E::TransportChannelClosed,
        E::Client(error) => of_http(&error, key),
        E::HttpStatus(failed) => of_status(failed.status, "", key),
        E::AuthRequired(asked) => key.refused(401, &asked.www_authenticate_header),
        E::InsufficientScope(asked) => key.refused(403, &asked.www_authenticate_header),
        E::UnexpectedServerResponse(said) => match said.strip_prefix("HTTP ").and_then(status_and_words) {
            Some((status, words)) => of_status(status, words, key),
            None => Trouble::Doubtful(format!("answers with what is not of the protocol: {}", said_by(&said, key))),
        },
        E::ResponseBodyTooLarge { max_size } => {
            Trouble::Doubtful(format!("answers with more than {max_size} bytes, which nobody here reads"))
        }
        E::UnexpectedContentType(_) => Trouble::Doubtful(
            "answers with neither JSON nor events; is `url` the address of a server of the Model Context Protocol?"
                .into(),
        ),
        other => Trouble::Doubtful(format!("broke the connection: {}", said_by(&other.to_string(), key))),
    };
    E::Client(trouble)
}

fn of_http(error: &reqwest::Error, key: &Key) -> Trouble {
    let cause = said_by(&root_cause(error).to_string(), key);
    if error.is_redirect() {
        Trouble::Refused(cause)
    } else if error.is_connect() && error.is_timeout() {
        Trouble::NotSent(format!("cannot be reached at {}: nobody answers there", key.origin))
    } else if error.is_connect() {
        Trouble::NotSent(format!("cannot be reached at {}: {cause}", key.origin))
    } else if let Some(status) = error.status() {
        of_status(status.as_u16(), "", key)
    } else {
        Trouble::Doubtful(format!("broke the connection: {cause}"))
    }
}

fn of_status(status: u16, words: &str, key: &Key) -> Trouble {
    let words = said_by(words, key);
    let words = if words.is_empty() { words } else { format!(": {words}") };
    match status {
        401 | 403 => key.refused(status, ""),
        404 => Trouble::Refused(format!("is not at this `url` (HTTP 404){words}")),
        429 | 503 => Trouble::Refused(format!("takes no more just now (HTTP {status}){words}")),
        500.. => Trouble::Doubtful(format!("fails with HTTP {status}{words}")),
        _ => Trouble::Refused(format!("answers with HTTP {status}{words}")),
    }
}

/// Status and body of rmcp's `404 Not Found: body`.
fn status_and_words(said: &str) -> Option<(u16, &str)> {
    let status = said.get(..3)?.parse().ok()?;
    Some((status, said.split_once(": ").map_or("", |(_, words)| words)))
}

fn said_by(words: &str, key: &Key) -> String {
    clip(&key.hidden_in(words))
}

/// The innermost of an error's causes; the outer ones repeat the whole URL.
fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}

/// A stranger's words, short enough for an error, without control characters.
pub(super) fn clip(text: &str) -> String {
    let (short, more) = match text.len() <= COMPLAINT_BYTES {
        true => (text, ""),
        false => (&text[..text.floor_char_boundary(COMPLAINT_BYTES)], "…"),
    };
    let clean: String = short.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{}{more}", clean.trim())
}
