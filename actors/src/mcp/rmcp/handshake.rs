//! A transport that accepts only the response to the handshake as such.
//!
//! A server may send other messages first: a response with an unknown id, or an error without an id. A client that
//! takes the first response for the handshake would fail.
//!
//! If the first request is `server/discover`, every response that does not offer the newest version becomes a refusal,
//! and so does silence: rmcp then performs the handshake on this transport.

use super::lifecycle::{Discovery, is_newest};
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::borrow::Cow;
use tokio::time::{Instant, timeout_at};

pub(super) struct Handshake<T> {
    transport: T,
    first: First,
    discovery: Option<Discovery>,
    /// The id of a `server/discover` that had no answer in time.
    given_up: Option<RequestId>,
}

/// The first request of a connection, which is its handshake; or its first two, if the first is refused.
enum First {
    Unsent,
    /// `server/discover`, sent under this id, and when it is given up.
    Discover(RequestId, Instant),
    /// The handshake, sent under this id.
    Asked(RequestId),
    Answered,
}

impl<T> Handshake<T> {
    pub(super) fn new(transport: T, discovery: Option<Discovery>) -> Self {
        Self { transport, first: First::Unsent, discovery, given_up: None }
    }

    /// What rmcp gets for the answer to `server/discover`.
    fn discovered(&mut self, id: RequestId, message: RxJsonRpcMessage<RoleClient>) -> RxJsonRpcMessage<RoleClient> {
        self.first = First::Unsent;
        match message {
            JsonRpcMessage::Response(response) if is_newest(&response.result) => {
                self.first = First::Answered;
                if let Some(discovery) = &self.discovery {
                    discovery.set_newest();
                }
                JsonRpcMessage::Response(response)
            }
            _ => refusal(id),
        }
    }

    /// Notices that a server which was given up speaks the newest version after all.
    fn look_at_stray(&self, message: &RxJsonRpcMessage<RoleClient>) {
        let (JsonRpcMessage::Response(response), Some(asked), Some(discovery)) =
            (message, &self.given_up, &self.discovery)
        else {
            return;
        };
        if is_same(&response.id, asked) && is_newest(&response.result) {
            discovery.set_late();
        }
    }

    /// Whether a message is a reply, but not to the handshake, which has no answer yet.
    fn is_stray(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return false,
        };
        match &self.first {
            First::Unsent => true,
            First::Discover(asked, _) => id.is_none_or(|id| !is_same(id, asked)),
            First::Asked(asked) if id.is_some_and(|id| is_same(id, asked)) => {
                self.first = First::Answered;
                false
            }
            First::Asked(_) => true,
            First::Answered => false,
        }
    }
}

/// Some servers write numbers as texts.
fn is_same(one: &RequestId, other: &RequestId) -> bool {
    one.to_string() == other.to_string()
}

fn is_answer(message: &RxJsonRpcMessage<RoleClient>) -> bool {
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
}

/// To rmcp, a server that does not know the question.
fn refusal(id: RequestId) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::error(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, "no discovery", None), Some(id))
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Handshake<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &mut item {
            if let ClientRequest::InitializeRequest(asked) = &mut request.request {
                // Tasks are of the version that has no handshake.
                asked.params.capabilities.extensions = None;
            }
            let id = request.id.clone();
            match (&request.request, &self.discovery, &self.first) {
                (ClientRequest::DiscoverRequest(_), Some(discovery), First::Unsent) => {
                    self.first = First::Discover(id, Instant::now() + discovery.within);
                }
                // rmcp may have waited for the discovery long enough.
                (ClientRequest::InitializeRequest(_), _, First::Unsent | First::Discover(..))
                | (_, _, First::Unsent) => {
                    if let First::Discover(asked, _) = std::mem::replace(&mut self.first, First::Asked(id)) {
                        self.given_up = Some(asked);
                    }
                }
                _behind_the_handshake => {}
            }
        }
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let asked = match &self.first {
                First::Discover(id, until) => Some((id.clone(), *until)),
                First::Unsent | First::Asked(_) | First::Answered => None,
            };
            let received = match &asked {
                Some((_, until)) => timeout_at(*until, self.transport.receive()).await,
                None => Ok(self.transport.receive().await),
            };
            let message = match (received, asked) {
                (Err(_silence), Some((id, _))) => {
                    self.first = First::Unsent;
                    self.given_up = Some(id.clone());
                    return Some(refusal(id));
                }
                (Err(_without_a_limit), None) => return None,
                (Ok(message), asked) => {
                    let message = message?;
                    match asked {
                        Some((id, _)) if is_answer(&message) && !self.is_stray(&message) => {
                            return Some(self.discovered(id, message));
                        }
                        _ => message,
                    }
                }
            };
            if !self.is_stray(&message) {
                return Some(message);
            }
            self.look_at_stray(&message);
            tracing::debug!(target: "bob::mcp", "a reply to no question came before the handshake's");
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}
