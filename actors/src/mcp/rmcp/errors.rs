//! Error texts about a server, for users and models; each follows the server's name.

use super::trouble::{Trouble, clip};
use super::{Failure, Misfit};
use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

pub(super) fn misfit(error: &ClientInitializeError) -> Misfit {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            Misfit { closed: true, ..Misfit::new("closed the connection during the handshake") }
        }
        ClientInitializeError::TransportError { error, .. } => match http(error) {
            Some(Http::Trouble(trouble)) => Misfit { closed: true, ..Misfit::new(trouble.to_string()) },
            Some(Http::SessionLost) | None => {
                let why = format!("cannot be sent the handshake: {}", clip(&error.to_string()));
                Misfit { closed: true, ..Misfit::new(why) }
            }
        },
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => misfit(fallback),
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

/// The error for a server without a required feature, `what`.
pub(super) fn unfit(error: &ServiceError, what: &str) -> Misfit {
    let closed = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
    let (why, lost) = match error {
        ServiceError::TransportSend(sent) => match http(sent) {
            Some(Http::Trouble(trouble)) => (trouble.to_string(), false),
            Some(Http::SessionLost) => ("no longer knows the session".to_owned(), true),
            None => (format!("{what}: {}", complaint(error)), false),
        },
        _ => (format!("{what}: {}", complaint(error)), false),
    };
    Misfit { why, closed, lost }
}

pub(super) fn failure(error: &ServiceError) -> Failure {
    match error {
        ServiceError::TransportSend(sent) => match http(sent) {
            Some(Http::SessionLost) => Failure::SessionLost,
            Some(Http::Trouble(Trouble::NotSent(why))) => Failure::NotSent(why.clone()),
            Some(Http::Trouble(Trouble::Refused(why))) => Failure::Refused(why.clone()),
            Some(Http::Trouble(Trouble::Doubtful(why))) => Failure::Doubtful(why.clone()),
            None => Failure::Broken,
        },
        ServiceError::TransportClosed => Failure::Broken,
        ServiceError::McpError(_) => Failure::Refused(format!("refuses the call: {}", complaint(error))),
        // It answered, so it may have done the call.
        ServiceError::UnexpectedResponse => Failure::Doubtful("gave an answer that is not of the protocol".to_owned()),
        error => Failure::Doubtful(format!("failed ({})", complaint(error))),
    }
}

/// The text of an error of the HTTP transport.
enum Http<'a> {
    Trouble(&'a Trouble),
    SessionLost,
}

fn http(error: &DynamicTransportError) -> Option<Http<'_>> {
    match error.error.downcast_ref::<StreamableHttpError<Trouble>>()? {
        StreamableHttpError::Client(trouble) => Some(Http::Trouble(trouble)),
        StreamableHttpError::SessionExpired => Some(Http::SessionLost),
        _ => None,
    }
}

fn complaint(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => told(error),
        ServiceError::UnexpectedResponse => "its answer is not of the protocol".to_owned(),
        other => clip(&other.to_string()),
    }
}

pub(super) fn told(error: &ErrorData) -> String {
    format!("{} ({})", clip(&error.message), error.code.0)
}
