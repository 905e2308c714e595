//! A transport that accepts only the response to the handshake as such.
//!
//! A server may send other messages first: a response with an unknown id, or an error without an id. A client that
//! takes the first response for the handshake would fail.

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::borrow::Cow;

/// A transport, and how far its handshake is.
pub(super) struct Handshake<T> {
    transport: T,
    first: First,
}

/// The first request of a connection, which is its handshake.
enum First {
    /// Not sent.
    Unsent,
    /// Sent under this id.
    Asked(RequestId),
    Answered,
}

impl<T> Handshake<T> {
    pub(super) fn new(transport: T) -> Self {
        Self { transport, first: First::Unsent }
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
            // Some servers write numbers as texts.
            First::Asked(asked) if id.is_some_and(|id| id.to_string() == asked.to_string()) => {
                self.first = First::Answered;
                false
            }
            First::Asked(_) => true,
            First::Answered => false,
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Handshake<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let (First::Unsent, JsonRpcMessage::Request(request)) = (&self.first, &item) {
            self.first = First::Asked(request.id.clone());
        }
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.transport.receive().await?;
            if !self.is_stray(&message) {
                return Some(message);
            }
            tracing::debug!(target: "bob::mcp", "a reply to no question came before the handshake's");
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}
