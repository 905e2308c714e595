//! The way of the tool plane to the actor of a server.

use crate::rooms::Address;
use crate::tools::plane::Door;
use bob_messages::mcp::McpMessage;
use bob_messages::tools::ToolsMessage;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::MessagingErr;

impl Door for Address<McpMessage> {
    fn send(&self, message: ToolsMessage) -> Result<(), ToolsMessage> {
        let Some(actor) = self.actor() else { return Err(message) };
        match actor.send_message(McpMessage::Tools(message)) {
            Err(MessagingErr::SendErr(McpMessage::Tools(message))) => Err(message),
            // Ractor's other errors concern messages of another kind, which this cannot be.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn wake(&self) {
        self.tell(McpMessage::Wake);
    }

    fn inhabited(&self) -> BoxFuture<'_, ()> {
        self.moved_in().map(drop).boxed()
    }
}
