//! Errors of HTTP requests, as safe texts.
//!
//! A server's text is shortened and stripped, and keys in it are redacted. A challenge (`WWW-Authenticate`) is followed
//! by `oauth` alone, for a server whose client signs in.

use crate::cause::root_cause;
use crate::secrets::Secrets;
use bob_messages::options::HttpSpec;
use reqwest::Url;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// How much of a server's complaint is repeated, in bytes.
const COMPLAINT_BYTES: usize = 2 * 1024;

/// How many tokens and secrets are hidden, the latest ones.
const MAX_LEARNED: usize = 16;

/// Why a request failed. Each text follows the server's name.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// It did not leave.
    #[error("{0}")]
    NotSent(String),
    /// An error response.
    #[error("{0}")]
    Refused(String),
    /// It may have done its work.
    #[error("{0}")]
    Doubtful(String),
}

pub(super) struct Key {
    origin: String,
    names: Vec<String>,
    secrets: Secrets,
    signs_in: bool,
    /// Tokens that were sent, the latest last.
    learned: Mutex<Vec<String>>,
}

impl Key {
    pub(super) fn new(url: &Url, spec: &HttpSpec) -> Self {
        let headers = &spec.headers;
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
            signs_in: spec.sign_in.is_some(),
            learned: Mutex::default(),
        }
    }

    /// These keys are hidden from now on, and those before them: an answer to an older request may still come.
    pub(super) fn learn(&self, keys: Vec<String>) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learned.retain(|known| !keys.contains(known));
        learned.extend(keys);
        let surplus = learned.len().saturating_sub(MAX_LEARNED);
        learned.drain(..surplus);
    }

    pub(super) fn hidden_in(&self, text: &str) -> String {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match learned.as_slice() {
            [] => self.secrets.hidden_in(text),
            keys => self.secrets.and(keys.iter().map(String::as_str)).hidden_in(text),
        }
    }

    /// The error for rejected credentials, with advice.
    fn refused(&self, status: u16, challenge: &str) -> Trouble {
        let sent: Vec<_> = self.names.iter().map(|name| format!("{name:?}")).collect();
        let advice = match (status, sent.is_empty()) {
            (401, _) if self.signs_in => {
                "rejects its token (HTTP 401): sign in again with `cli-agent mcp login`".to_owned()
            }
            (_, _) if self.signs_in => {
                format!("denies access (HTTP {status}): check what the account may do that was signed in with")
            }
            (401, true) if challenge.contains("resource_metadata") => {
                "requires a key (HTTP 401): configure one in `headers` of this server, or `auth = \"oauth\"`".to_owned()
            }
            (401, true) => "requires a key (HTTP 401): configure one in `headers` of this server".to_owned(),
            (401, false) => {
                format!("rejects the credentials (HTTP 401): check the `headers` of this server, {}", sent.join(", "))
            }
            (_, true) => {
                format!("requires a key (HTTP {status}): configure one in `headers` of this server")
            }
            (_, false) => format!(
                "denies access (HTTP {status}): check the permissions of the credentials in `headers` of this server, {}",
                sent.join(", ")
            ),
        };
        let more = more_at(challenge).map(|url| format!("; see {:?}", clip(&self.hidden_in(&url))));
        Trouble::Refused(format!("{advice}{}", more.unwrap_or_default()))
    }
}

/// The page named in a challenge, if it is safe to show. It is not opened.
fn more_at(challenge: &str) -> Option<String> {
    let (_, rest) = challenge.split_once("resource_metadata=")?;
    let named = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split([',', ' ']).next()?,
    };
    let url = Url::parse(named).ok().filter(|url| url.scheme() == "https")?;
    // A user may paste it into a shell.
    let is_plain = url.path().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._~-%".contains(&byte));
    Some(format!("{}{}", url.origin().ascii_serialization(), if is_plain { url.path() } else { "/" }))
}

/// Converts rmcp's error. Errors that rmcp handles itself are unchanged.
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
            None => Trouble::Doubtful(format!("sends an invalid response: {}", said_by(&said, key))),
        },
        E::ResponseBodyTooLarge { max_size } => {
            Trouble::Doubtful(format!("sends a response larger than {max_size} bytes"))
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
        Trouble::NotSent(format!("cannot be reached at {}: the connection timed out", key.origin))
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
        404 => Trouble::Refused(format!("was not found at this `url` (HTTP 404){words}")),
        429 | 503 => Trouble::Refused(format!("is overloaded (HTTP {status}){words}")),
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

/// Foreign text, shortened for an error, without control characters.
pub(super) fn clip(text: &str) -> String {
    let (short, more) = match text.len() <= COMPLAINT_BYTES {
        true => (text, ""),
        false => (&text[..text.floor_char_boundary(COMPLAINT_BYTES)], "…"),
    };
    let clean: String = short.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{}{more}", clean.trim())
}
