//! Why a model call failed.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;

/// The kind of a model call's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LlmErrorKind {
    /// No connection, a 5xx, a cut or malformed stream.
    Unavailable,
    /// 429 with hope: try later.
    RateLimited,
    /// 429 without hope: the quota is used up.
    QuotaExhausted,
    /// No headers, or silence in a stream, for longer than the provider may take.
    Timeout,
    /// 401 or 403.
    Unauthorized,
    /// The provider does not know the model.
    UnknownModel,
    /// The configuration does not know the provider.
    UnknownProvider,
    /// The key's environment variable is not set.
    MissingKey,
    /// No model fits the selector, or the catalogue of models is not available.
    NotSelected,
    /// The cost is bounded, and the model has no known price.
    NoPrice,
    /// The prompt is longer than the model's context.
    ContextExceeded,
    /// Any other 4xx, content refused by an HTTP error included.
    Rejected,
    /// The answer was larger than we take (8 MiB).
    TooLarge,
    /// The reply was no action, twice in a row.
    #[doc(alias = "ActionParseError")]
    Malformed,
    /// A tape or script has no answer for this request.
    NotScripted,
    /// The local model server could not be started.
    NotStarted,
    /// The LlmActor went away while the call was in flight.
    Gone,
    /// The port of the model panicked: a fault of its own.
    Panicked,
}

/// Why a model call failed permanently. The text is for users: short, with advice, and without response bodies or
/// secrets.
///
/// What it comes from is its [`source`](Error::source), where that is known: of a call over HTTP the chain of the connection,
/// with the error of the system at its end as an [`io::Error`](std::io::Error), and of a port what the port gave with
/// [`with_source`](Self::with_source). It is not serialised, so an error in a journal or on a tape has none, and it is not
/// compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LlmError {
    /// The kind.
    pub kind: LlmErrorKind,
    /// The text.
    pub message: String,
    /// The HTTP status, when there was one.
    pub status: Option<u16>,
    /// The provider's requested delay in milliseconds, unchanged.
    pub retry_after_ms: Option<u64>,
    #[serde(skip)]
    cause: Cause,
}

impl LlmError {
    /// An error without status.
    pub fn new(kind: LlmErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after_ms: None, cause: Cause::default() }
    }

    /// With the HTTP status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// With the delay that the provider asks for, in milliseconds.
    #[must_use]
    pub fn with_retry_after_ms(self, retry_after_ms: u64) -> Self {
        Self { retry_after_ms: Some(retry_after_ms), ..self }
    }

    /// With the error that it comes from. Its texts are shown in logs as the message is: without response bodies and secrets.
    /// It is held in memory as long as the outcome of the turn is.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Cause::of(source), ..self }
    }

    /// Whether another attempt may help: connection failures, 408, 429 with hope,
    /// 5xx, cut, silent and malformed streams.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            LlmErrorKind::Unavailable | LlmErrorKind::RateLimited | LlmErrorKind::Timeout | LlmErrorKind::Gone => true,
            LlmErrorKind::QuotaExhausted
            | LlmErrorKind::Unauthorized
            | LlmErrorKind::UnknownModel
            | LlmErrorKind::UnknownProvider
            | LlmErrorKind::MissingKey
            | LlmErrorKind::NotSelected
            | LlmErrorKind::NoPrice
            | LlmErrorKind::ContextExceeded
            | LlmErrorKind::Rejected
            | LlmErrorKind::TooLarge
            | LlmErrorKind::NotStarted
            | LlmErrorKind::Malformed
            | LlmErrorKind::NotScripted
            | LlmErrorKind::Panicked => false,
        }
    }

    /// Whether the caller's request is at fault rather than the provider: front ends exit with 2 for these.
    pub fn is_usage(&self) -> bool {
        matches!(
            self.kind,
            LlmErrorKind::UnknownModel
                | LlmErrorKind::UnknownProvider
                | LlmErrorKind::MissingKey
                | LlmErrorKind::NotSelected
                | LlmErrorKind::NoPrice
        )
    }
}

impl fmt::Display for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for LlmError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.error()
    }
}
