use crate::address::Address;
use bob_messages::tools::{LocalToolsMessage, ToolsMessage};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::MessagingErr;
use std::fmt::Debug;

/// How a host is reached. Its actor is looked up at every send.
pub trait HostAddress: Debug + Send + Sync + 'static {
    /// Sends to the current actor.
    ///
    /// # Errors
    /// The message, when there is none.
    fn send(&self, message: ToolsMessage) -> Result<(), Box<ToolsMessage>>;

    /// Asks a host that sleeps to start. Hosts that never sleep need not answer.
    fn wake(&self) {}

    /// Notes that what the host offers was read, so that it asks again when that is
    /// old. Hosts whose tools never change need not listen.
    fn look(&self) {}

    /// Waits for an actor, without a limit. Cancel-safe.
    fn wait_for_actor(&self) -> BoxFuture<'_, ()>;
}

impl HostAddress for Address<LocalToolsMessage> {
    fn send(&self, message: ToolsMessage) -> Result<(), Box<ToolsMessage>> {
        let Some(actor) = self.actor() else { return Err(Box::new(message)) };
        match actor.send_message(LocalToolsMessage::Tools(message)) {
            Err(MessagingErr::SendErr(LocalToolsMessage::Tools(message))) => Err(Box::new(message)),
            // Ractor's other errors concern messages of another kind, which this cannot be.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn wait_for_actor(&self) -> BoxFuture<'_, ()> {
        self.wait_for_actor().map(drop).boxed()
    }
}
