//! Messages of chats, as a hub and its channels exchange them.

use crate::AgentRequest;
use bob_messages::ids::{RequestId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest text of an [`OutboundMessage`] that the tool takes, in bytes.
pub const MAX_CONTENT_BYTES: usize = 64 * 1024;

/// A chat: a channel, and one of its conversations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chat {
    /// The name of the channel: 1 to 32 letters, digits and `-`.
    pub channel: String,
    /// The channel's own name of the conversation.
    pub chat_id: String,
}

impl Chat {
    /// The chat of a session called `{channel}_{chat_id}`; `None` when it is not called so.
    pub fn of_session(session: &SessionId) -> Option<Self> {
        let (channel, chat_id) = session.as_str().split_once('_')?;
        let is_one = is_channel(channel) && !chat_id.is_empty();
        is_one.then(|| Self { channel: channel.to_owned(), chat_id: chat_id.to_owned() })
    }

    /// The session of the chat, `{channel}_{chat_id}`.
    ///
    /// # Errors
    /// [`HubError::Channel`] and [`HubError::Session`]: the two make no id of a session. A channel whose ids have other
    /// characters gives each chat an id of its own.
    pub fn session(&self) -> Result<SessionId, HubError> {
        if !is_channel(&self.channel) {
            return Err(HubError::Channel(self.channel.clone()));
        }
        SessionId::parse(&format!("{}_{}", self.channel, self.chat_id))
            .map_err(|why| HubError::Session(why.to_string()))
    }
}

/// A message that came in over a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboundMessage {
    /// The name of the channel.
    pub channel: String,
    /// The conversation.
    pub chat_id: String,
    /// The channel's id of the message: the same message that comes twice is one request.
    pub message_id: String,
    /// The text.
    pub content: String,
    /// What else the channel says of it. It is not shown to the model.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl InboundMessage {
    /// A message without metadata.
    pub fn new(
        channel: impl Into<String>,
        chat_id: impl Into<String>,
        message_id: impl Into<String>,
        content: impl Into<String>,
    ) -> Self {
        let (channel, chat_id) = (channel.into(), chat_id.into());
        Self { channel, chat_id, message_id: message_id.into(), content: content.into(), metadata: Map::new() }
    }

    /// Its chat.
    pub fn chat(&self) -> Chat {
        Chat { channel: self.channel.clone(), chat_id: self.chat_id.clone() }
    }

    /// The request that it is to a runtime: to the session of its chat, under its id. A message that comes a second time
    /// gets the first outcome, and nothing runs.
    ///
    /// # Errors
    /// As [`Chat::session`].
    pub fn request(&self) -> Result<AgentRequest, HubError> {
        let request = AgentRequest::text(self.chat().session()?, &self.content);
        Ok(AgentRequest { request_id: Some(RequestId::new(&*self.message_id)), ..request })
    }

    /// A message to its chat that replies to it. Its key is made of the id that it replies to.
    pub fn answer(&self, content: impl Into<String>) -> OutboundMessage {
        let Chat { channel, chat_id } = self.chat();
        let key = format!("{channel}/{chat_id}/{}", self.message_id);
        let to = Chat { channel, chat_id };
        OutboundMessage::new(key, to, content).replying_to(&*self.message_id)
    }
}

/// A message that goes out over a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutboundMessage {
    /// Names the message: one that is delivered again has the same key, so a channel that remembers keys shows it once.
    pub key: String,
    /// The name of the channel.
    pub channel: String,
    /// The conversation.
    pub chat_id: String,
    /// The text.
    pub content: String,
    /// The id of the message that it replies to, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// What else the channel is told.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl OutboundMessage {
    /// A message that replies to none.
    pub fn new(key: impl Into<String>, to: Chat, content: impl Into<String>) -> Self {
        let Chat { channel, chat_id } = to;
        Self { key: key.into(), channel, chat_id, content: content.into(), reply_to: None, metadata: Map::new() }
    }

    /// As a reply to the message with this id.
    #[must_use]
    pub fn replying_to(mut self, message_id: impl Into<String>) -> Self {
        self.reply_to = Some(message_id.into());
        self
    }
}

/// Why something is no message of a chat.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The name of a channel.
    #[error("the name of a channel has 1 to 32 letters, digits and `-`, not {0:?}")]
    Channel(String),
    /// Two channels have this name.
    #[error("two channels are called {0:?}")]
    Twice(String),
    /// The ids of channel and chat make no id of a session; why.
    #[error("{0}")]
    Session(String),
}

/// Whether a channel can be called so: the first `_` of a session's id ends its channel's name.
pub(super) fn is_channel(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (1..=32).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('-')
}
