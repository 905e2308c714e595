//! A chat system, and an agent that writes to it first.

use bob::BoxFuture;
use bob::approvals::PermissionMode;
use bob::hub::{Channels, ChatChannel, DeliveryError, OutboundMessage};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder};
use std::sync::{Arc, Mutex};

/// Keeps what it shows.
#[derive(Default)]
pub struct Board {
    messages: Mutex<Vec<Arc<OutboundMessage>>>,
}

impl ChatChannel for Board {
    fn name(&self) -> &str {
        "board"
    }

    fn deliver(&self, message: Arc<OutboundMessage>) -> BoxFuture<'_, Result<(), DeliveryError>> {
        Box::pin(async move {
            if message.chat_id != "ops" {
                return Err(DeliveryError::refused("there is no such chat"));
            }
            self.messages.lock().expect("no thread panicked").push(message);
            Ok(())
        })
    }
}

#[tokio::test]
async fn an_agent_writes_to_a_chat_first() {
    let board = Arc::new(Board::default());
    let channels = Channels::new([board.clone() as Arc<dyn ChatChannel>]).expect("a channel");
    let said = serde_json::json!({ "content": "It is done.", "channel": "board", "chat_id": "ops" });
    let replies = vec![ScriptedReply::call("local/message", said), ScriptedReply::text("I told them.")];
    let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo").expect("a name"))
        .model(Arc::new(ScriptedLlm::replies(replies)))
        .permission_mode(PermissionMode::Auto)
        .tools(Arc::new(channels.message_tool()))
        .build()
        .await
        .expect("a runtime");
    runtime.run(AgentRequest::once("Do it.")).await.expect("a turn");
    let messages = board.messages.lock().expect("no thread panicked").clone();
    assert_eq!(messages.iter().map(|one| one.content.as_str()).collect::<Vec<_>>(), ["It is done."]);
    runtime.shutdown().await;
}
