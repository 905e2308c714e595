//! The rules of a script, and which of them answers a request.

use bob_messages::chat::{ContentPart, Message};
use bob_messages::llm::{LlmErrorKind, LlmRequest, RawCall};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a scripted model says to some messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedRule {
    /// Answers turns whose message contains this; `None` answers every turn.
    #[serde(default)]
    pub when: Option<String>,
    /// One reply per step of the turn; the last one answers all further steps.
    pub replies: Vec<ScriptedReply>,
    /// How long each reply takes, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Whether the answer never ends: its text is shown, and then nothing happens.
    #[serde(default)]
    pub stall: bool,
}

/// One reply of a scripted model. In a script file `{"text": "hi"}`,
/// `{"calls": [{"name": "local/read", "arguments": {}}]}`, `{"error": "unavailable"}`, `{"malformed": "{\"type\":"}` or
/// `"stall"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "Written")]
pub enum ScriptedReply {
    /// A final answer; in JSON mode it comes in its envelope.
    Text(String),
    /// Tool calls, by full or native name. In JSON mode only the first is made.
    Calls(Vec<ScriptedCall>),
    /// The attempt fails like this.
    Error(LlmErrorKind),
    /// Exactly this text, in either mode.
    Malformed(String),
    /// Nothing, for ever.
    Stall,
}

/// A reply as it stands in a script, before it is known which one it is.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a reply is \"stall\" or an object")]
enum Written {
    Word(String),
    Object(Map<String, Value>),
}

impl TryFrom<Written> for ScriptedReply {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        const KINDS: &str = "a reply is {\"text\"}, {\"calls\"}, {\"error\"}, {\"malformed\"} or \"stall\"";
        fn read<T: DeserializeOwned>(key: &str, value: Value) -> Result<T, String> {
            serde_json::from_value(value).map_err(|error| format!("{key:?} of a reply: {error}"))
        }
        let fields = match written {
            Written::Word(word) if word == "stall" => return Ok(Self::Stall),
            Written::Word(word) => return Err(format!("{KINDS}, not {word:?}")),
            Written::Object(fields) => fields,
        };
        let keys = fields.keys().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" and ");
        let mut fields = fields.into_iter();
        let (Some((key, value)), None) = (fields.next(), fields.next()) else {
            let found = if keys.is_empty() { "nothing" } else { &keys };
            return Err(format!("{KINDS}, and one of them: this one has {found}"));
        };
        match key.as_str() {
            "text" => read(&key, value).map(Self::Text),
            "calls" => read(&key, value).map(Self::Calls),
            "error" => read(&key, value).map(Self::Error),
            "malformed" => read(&key, value).map(Self::Malformed),
            _ => Err(format!("{KINDS}, not {{{key:?}}}")),
        }
    }
}

/// One call of a scripted reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// Its arguments. A string is sent as it is, so that it need not be JSON.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

impl ScriptedReply {
    /// A reply of one call.
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::Calls(vec![ScriptedCall { name: name.into(), arguments }])
    }

    /// A final answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

impl ScriptedCall {
    pub(super) fn raw(self) -> RawCall {
        let arguments = match self.arguments {
            Value::String(text) => text,
            value => value.to_string(),
        };
        RawCall::new(self.name, arguments)
    }
}

impl ScriptedRule {
    pub(super) fn is_at_hand(&self) -> bool {
        self.delay_ms == 0 && !self.stall && !self.replies.contains(&ScriptedReply::Stall)
    }

    /// The reply to a step, from 1.
    pub(super) fn reply(&self, step: u32) -> Option<&ScriptedReply> {
        let at = usize::try_from(step.saturating_sub(1)).unwrap_or(usize::MAX);
        self.replies.get(at).or(self.replies.last())
    }
}

/// The first rule that fits the message of the turn.
pub(super) fn matching<'a>(rules: &'a [ScriptedRule], request: &LlmRequest) -> Option<&'a ScriptedRule> {
    let asked = message_of_turn(request);
    rules.iter().find(|rule| match &rule.when {
        None => true,
        Some(text) => asked.iter().any(|part| matches!(part, ContentPart::Text { text: said } if said.contains(text))),
    })
}

/// What the user said to begin the turn: the newest user message with an answer of the model behind it for each earlier
/// step, since results and complaints can be told in the user's role, too. Where answers of a long turn no longer fit
/// into the request, its message leads the rest.
fn message_of_turn(request: &LlmRequest) -> &[ContentPart] {
    let mut steps_behind = 0;
    let mut oldest: &[ContentPart] = &[];
    for message in request.messages.iter().rev() {
        match &**message {
            Message::Assistant { .. } => steps_behind += 1,
            Message::User { parts } if steps_behind + 1 >= request.step => return parts,
            Message::User { parts } => oldest = parts,
            Message::Tool { .. } => {}
        }
    }
    oldest
}
