//! Texts of a run for its spans, as JSON of the conventions: what the user said, and the messages that each model call had
//! and gave. Only where the settings ask for texts, and bounded.

use bob_messages::chat::{ContentPart, StopReason, ToolCall, ToolResult};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::collections::VecDeque;

/// The bytes of one text that is sent.
const MOST_TEXT: usize = 16 * 1024;
/// The user's messages of one run that are sent.
const MOST_INPUTS: usize = 16;
/// The messages before a model call that are sent, bytes as they are written: the newest that fit, but at least one.
const MOST_MESSAGES: usize = 64 * 1024;
/// The text and the calls of one reply that are sent.
const MOST_PARTS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Contents {
    inputs: Vec<Json>,
    /// Each with its size as it is written.
    messages: VecDeque<(usize, Json)>,
    bytes: usize,
    /// What is known of the model's last reply.
    reply: Vec<Json>,
}

impl Contents {
    pub(super) fn said(&mut self, parts: &[ContentPart]) {
        let texts = parts.iter().filter_map(|part| match part {
            ContentPart::Text { text } => Some(text.as_str()),
            _of_another_kind => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        let text = shortened(&text);
        let said = json!({"role": "user", "parts": [{"type": "text", "content": text}]});
        if self.inputs.len() < MOST_INPUTS {
            self.inputs.push(said.clone());
        }
        self.add(said);
    }

    /// The text of a reply, which [`replied`](Self::replied) ends.
    pub(super) fn text(&mut self, text: &str) {
        let text = shortened(text);
        if !text.is_empty() {
            self.part(json!({"type": "text", "content": text}));
        }
    }

    /// A call in a reply, which [`replied`](Self::replied) ends.
    pub(super) fn call(&mut self, call: &ToolCall) {
        let written = call.arguments.to_string();
        let arguments = shortened(&written);
        let shown = match &arguments {
            Cow::Borrowed(_whole) => (*call.arguments).clone(),
            Cow::Owned(cut) => Json::String(cut.clone()),
        };
        let part = json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": shown});
        self.part(part);
    }

    /// Ends a reply; as an array with the one message, if it has text or calls.
    pub(super) fn replied(&mut self, reason: &str) -> Option<Json> {
        let parts = std::mem::take(&mut self.reply);
        if parts.is_empty() {
            return None;
        }
        let output = json!([{"role": "assistant", "parts": &parts, "finish_reason": reason}]);
        self.add(json!({"role": "assistant", "parts": parts}));
        Some(output)
    }

    pub(super) fn returned(&mut self, result: &ToolResult) {
        let text = result.output.plain();
        let text = shortened(&text);
        let part = json!({"type": "tool_call_response", "id": result.call, "response": text});
        self.add(json!({"role": "tool", "parts": [part]}));
    }

    /// What the user said in this run.
    pub(super) fn take_inputs(&mut self) -> Option<Json> {
        (!self.inputs.is_empty()).then(|| Json::Array(std::mem::take(&mut self.inputs)))
    }

    pub(super) fn messages(&self) -> Option<Json> {
        (!self.messages.is_empty()).then(|| self.messages.iter().map(|(_, message)| message.clone()).collect())
    }

    fn part(&mut self, part: Json) {
        if self.reply.len() < MOST_PARTS {
            self.reply.push(part);
        }
    }

    fn add(&mut self, message: Json) {
        let bytes = message.to_string().len();
        self.messages.push_back((bytes, message));
        self.bytes += bytes;
        while self.bytes > MOST_MESSAGES && self.messages.len() > 1 {
            self.bytes -= self.messages.pop_front().map_or(0, |(bytes, _)| bytes);
        }
    }
}

pub(super) fn answer(text: &str, reason: &str) -> Json {
    json!([{"role": "assistant", "parts": [{"type": "text", "content": shortened(text)}], "finish_reason": reason}])
}

pub(super) fn reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Stop | StopReason::Other => "stop",
        StopReason::ToolCalls => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refusal | StopReason::ContentFilter => "content_filter",
    }
}

/// A text that may be long: its beginning, with a sign that there was more.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    match text.floor_char_boundary(MOST_TEXT) {
        kept if kept < text.len() => format!("{}…", &text[..kept]).into(),
        _whole => text.into(),
    }
}
