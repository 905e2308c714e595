//! The tool with which an agent writes to a chat.

use super::deliver::Channels;
use super::message::{Chat, MAX_CONTENT_BYTES, OutboundMessage};
use crate::tools::{FnTool, Invocation, Risk, ToolError, ToolKind, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::Instant;

/// How long before the end of its call a message is given up, so that its result says so.
const BEFORE_THE_END: Duration = Duration::from_millis(250);

/// What the model says.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Say {
    /// The text of the message.
    content: String,
    /// The channel; without it, that of this conversation.
    channel: Option<String>,
    /// The chat in that channel; without it, this conversation.
    chat_id: Option<String>,
    /// The id of a message that this one replies to.
    reply_to: Option<String>,
}

impl Channels {
    /// The tool `local/message {content, channel?, chat_id?, reply_to?}`. Without `channel` and `chat_id` the message goes to
    /// the chat of the session that calls, if it is one. The tool is of high risk, since it writes to people: a call of it
    /// asks, unless the policy or [`FnTool::risk`] says otherwise.
    ///
    /// The key of the message is that of the call. A call that a crash interrupted is made again if all channels remember
    /// keys, and has an unknown outcome otherwise. The call ends when the message is delivered or given up,
    /// which it is before the time limit of the call: there is no further attempt if that would come too late.
    pub fn message_tool(&self) -> FnTool {
        let channels = self.clone();
        let run = move |say: Say, call: Invocation| {
            let channels = channels.clone();
            async move {
                let message = say.message(&call)?;
                let to = format!("{} of {}", message.chat_id, message.channel);
                // The call itself would be cut off without a word of what became of the message.
                let until =
                    call.deadline - BEFORE_THE_END.min(call.deadline.saturating_duration_since(Instant::now()) / 2);
                match channels.deliver_until(message, Some(until)).await {
                    Ok(()) => Ok(format!("delivered to {to}")),
                    Err(failure) if failure.error.is_cut_off() => Err(ToolError::outcome_unknown(failure)),
                    Err(failure) => Err(failure.into()),
                }
            }
        };
        let names = self.names();
        let about = format!(
            "Sends a message to a chat now. Your final answer is sent by itself; do not send it with this. Channels: \
             {names}."
        );
        let tool = tool("local/message", &about, run).title("Message").kind(ToolKind::Other).risk(Risk::High);
        if self.remember_keys() { tool.idempotent() } else { tool }
    }
}

impl Say {
    fn message(self, call: &Invocation) -> Result<OutboundMessage, ToolError> {
        if self.content.trim().is_empty() {
            return Err(ToolError::new("the message is empty"));
        }
        if self.content.len() > MAX_CONTENT_BYTES {
            let bytes = self.content.len();
            return Err(ToolError::new(format!("the message has {bytes} bytes; at most {MAX_CONTENT_BYTES} are sent")));
        }
        let to = match (self.channel, self.chat_id) {
            (Some(channel), Some(chat_id)) => Chat { channel, chat_id },
            // Its session is named after that of its caller, and would be taken for another chat of the channel.
            (None, None) if call.context.depth > 0 => {
                return Err(ToolError::new("a sub-agent is in no chat; name channel and chat_id"));
            }
            (None, None) => Chat::of_session(&call.context.session)
                .ok_or_else(|| ToolError::new("this is no session of a chat; name channel and chat_id"))?,
            _ => return Err(ToolError::new("channel and chat_id go together: name both or neither")),
        };
        let message = OutboundMessage::new(call.idempotency_key(), to, self.content);
        Ok(match self.reply_to {
            Some(id) => message.replying_to(id),
            None => message,
        })
    }
}
