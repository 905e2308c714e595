use crate::address::Address;
use crate::tools::registry::HostAddress;
use bob_messages::mcp::McpMessage;
use bob_messages::tools::ToolsMessage;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::MessagingErr;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long an actor that is to be woken may take to be there.
const STARTS_WITHIN: Duration = Duration::from_secs(20);

impl HostAddress for Address<McpMessage> {
    fn send(&self, message: ToolsMessage) -> Result<(), Box<ToolsMessage>> {
        let Some(actor) = self.actor() else { return Err(Box::new(message)) };
        match actor.send_message(McpMessage::Tools(message)) {
            Err(MessagingErr::SendErr(McpMessage::Tools(message))) => Err(Box::new(message)),
            // Ractor's other errors concern messages of another kind, which this cannot be.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn wake(&self) {
        let Some(runtime) = Address::send(self, McpMessage::Wake).err().and_then(|_gone| Handle::try_current().ok())
        else {
            return;
        };
        // Its supervisor is starting it; a wake that is lost would leave it asleep.
        let address = self.clone();
        runtime.spawn(async move {
            if let Some(actor) = Address::wait_for_actor_within(&address, STARTS_WITHIN).await {
                drop(actor.send_message(McpMessage::Wake));
            }
        });
    }

    fn look(&self) {
        Address::tell(self, McpMessage::Refresh);
    }

    fn wait_for_actor(&self) -> BoxFuture<'_, ()> {
        self.wait_for_actor().map(drop).boxed()
    }
}
