//! The way to a host over its restarts.

use crate::address::Address;
use bob_messages::tools::ToolsMessage;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::MessagingErr;
use std::fmt::Debug;

/// How a host is reached. Whoever is there is looked up at every send.
pub trait HostAddress: Debug + Send + Sync + 'static {
    /// Sends to whoever is there now.
    ///
    /// # Errors
    /// The message, when nobody is.
    fn send(&self, message: ToolsMessage) -> Result<(), Box<ToolsMessage>>;

    /// Asks a host that sleeps to start. Hosts that never sleep need not answer.
    fn wake(&self) {}

    /// Says that somebody looks at what the host offers, so that it asks again when that is
    /// old. Hosts whose tools never change need not listen.
    fn look(&self) {}

    /// Waits until somebody is there; as long as it takes. Cancel-safe.
    fn wait_for_actor(&self) -> BoxFuture<'_, ()>;
}

/// The room of an actor whose mailbox takes the questions as they are.
impl HostAddress for Address<ToolsMessage> {
    fn send(&self, message: ToolsMessage) -> Result<(), Box<ToolsMessage>> {
        let Some(actor) = self.actor() else { return Err(Box::new(message)) };
        match actor.send_message(message) {
            Ok(()) => Ok(()),
            Err(MessagingErr::SendErr(message)) => Err(Box::new(message)),
            // Ractor's other errors concern messages of another type, which this cannot be.
            Err(MessagingErr::ChannelClosed | MessagingErr::InvalidActorType) => Ok(()),
        }
    }

    fn wait_for_actor(&self) -> BoxFuture<'_, ()> {
        self.wait_for_actor().map(drop).boxed()
    }
}
