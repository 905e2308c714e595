//! Chats of other systems: messages in and out, and a tool with which an agent speaks first.
//!
//! A program that connects a chat system implements [`ChatChannel`] for it, and makes a request of each message that comes
//! in ([`InboundMessage::request`]). [`Channels`] delivers messages, again and later where that may help, and tells of those
//! that it could not deliver; [`Channels::message_tool`] is the tool `local/message`, so that an agent may write to a chat
//! first, or while it works.
//!
//! ```
//! use bob::hub::{Channels, ChatChannel, DeliveryError, InboundMessage, OutboundMessage};
//! use bob::model::{ScriptedLlm, ScriptedReply};
//! use bob::{AgentRuntime, BoxFuture, ModelName, RuntimeBuilder};
//! use std::sync::{Arc, Mutex};
//!
//! #[derive(Default)]
//! struct Console(Mutex<Vec<String>>);
//!
//! impl ChatChannel for Console {
//!     fn name(&self) -> &str {
//!         "console"
//!     }
//!
//!     fn deliver(&self, message: Arc<OutboundMessage>) -> BoxFuture<'_, Result<(), DeliveryError>> {
//!         self.0.lock().unwrap().push(format!("{}: {}", message.chat_id, message.content));
//!         Box::pin(std::future::ready(Ok(())))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let console = Arc::new(Console::default());
//! let channels = Channels::new([console.clone() as Arc<dyn ChatChannel>])?;
//! let model = ScriptedLlm::replies(vec![ScriptedReply::text("Hello, Ann.")]);
//! let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model));
//! let runtime = builder.tools(Arc::new(channels.message_tool())).build().await?;
//!
//! let inbound = InboundMessage::new("console", "ann", "m-1", "Hi!");
//! let answer = runtime.run(inbound.request()?).await?;
//! channels.deliver(inbound.answer(&answer.response().content)).await?;
//! assert_eq!(*console.0.lock().unwrap(), ["ann: Hello, Ann."]);
//! # runtime.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod deliver;
mod message;
mod tool;

#[cfg(test)]
#[path = "hub/hub_tests.rs"]
mod tests;

pub use deliver::{Channels, ChatChannel, DeliveryError, DeliveryFailure};
pub use message::{Chat, HubError, InboundMessage, MAX_CONTENT_BYTES, OutboundMessage};
