//! The body of a request in OpenAI's format, written as it is sent.

use super::super::render::{ask_user, is_answer_alone};
use super::super::{Attempt, render};
use crate::llm::providers::ProviderKind;
use ::genai::chat::{JsonSchemaDialect, ReasoningEffort, sanitize_json_schema};
use bob_messages::chat::{ContentPart, Message, ToolCall, ToolResult};
use bob_messages::llm::{Capabilities, LlmRequest, ToolMode};
use bob_messages::tools::ToolSet;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How many sets of tools are kept as they are sent.
const MOST_SETS: usize = 32;

/// Where Fireworks has its models whose name says no place.
const FIREWORKS_MODELS: &str = "accounts/fireworks/models/";

/// How many tokens are asked of Fireworks where the configuration names no limit: without one it answers 2,000 at most, and
/// it takes a limit above a model's own for that.
const FIREWORKS_TOKENS: u32 = 512_000;

/// The limit of a model of Fireworks that takes none above its own.
const FIREWORKS_STRICT: (&str, u32) = ("muse-glimmer-30b", 68_000);

/// The tools of requests as they are sent, made once for each set.
#[derive(Debug, Default)]
pub(in super::super) struct Tools(Mutex<Vec<(Weak<ToolSet>, Arc<RawValue>)>>);

impl Tools {
    /// The list for a set. A weak pointer keeps its address from being used by another set.
    pub(super) fn of(&self, set: &Arc<ToolSet>) -> Option<Arc<RawValue>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, list)) = kept.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(set)) {
            return Some(Arc::clone(list));
        }
        kept.retain(|(known, _)| known.strong_count() > 0);
        if kept.len() == MOST_SETS {
            kept.remove(0);
        }
        let list: Arc<RawValue> = list(set)?.into();
        kept.push((Arc::downgrade(set), Arc::clone(&list)));
        Some(list)
    }
}

fn list(set: &ToolSet) -> Option<Box<RawValue>> {
    let function = |name: &str, description: &str, schema: &Value| {
        json!({
            "type": "function",
            "function": { "name": name, "description": description, "parameters": schema, "strict": false },
        })
    };
    let offered = set.with_native_names().map(|(tool, native)| function(native, &tool.description, &tool.schema));
    let (name, description, schema) = ask_user();
    let all: Vec<Value> = offered.chain([function(name, description, schema)]).collect();
    serde_json::value::to_raw_value(&all).ok()
}

/// A request as it is sent. The tools are before the messages, so that a provider's cache of prompts begins with them.
#[derive(serde::Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
}

/// How DeepSeek is told whether to think.
#[derive(serde::Serialize)]
struct Thinking {
    r#type: &'static str,
}

#[derive(serde::Serialize)]
struct StreamOptions {
    include_usage: bool,
}

pub(super) fn render(attempt: &Attempt<'_>, request: &LlmRequest, can: &Capabilities, tools: &Tools) -> Vec<u8> {
    let kind = attempt.provider.kind;
    let name = name(kind, attempt.model.model());
    let (effort, model) = ReasoningEffort::from_model_name(&name);
    let limit = attempt.provider.max_tokens.or_else(|| default_limit(kind, &name));
    let thinking = effort.as_ref().filter(|_| kind == ProviderKind::DeepSeek);
    let is_completion = ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|family| model.starts_with(family));
    let has_tools = request.mode == ToolMode::Native && !is_answer_alone(request);
    let schema = render::schema(request, can);
    let body = Body {
        model,
        stream: true,
        prompt_cache_options: caches_unasked(kind, &name).then(|| json!({ "mode": "explicit" })),
        thinking: thinking.map(|effort| Thinking {
            r#type: if matches!(effort, ReasoningEffort::Zero) { "disabled" } else { "enabled" },
        }),
        reasoning_effort: effort.as_ref().and_then(|effort| keyword(kind, effort)),
        tools: if has_tools { tools.of(&request.tools) } else { None },
        messages: Messages { request, can },
        response_format: schema.map(|(name, schema)| {
            let schema = sanitize_json_schema(schema, JsonSchemaDialect::OpenAiStrict);
            json!({ "type": "json_schema", "json_schema": { "name": name, "strict": true, "schema": schema } })
        }),
        stream_options: StreamOptions { include_usage: true },
        temperature: attempt.provider.temperature,
        max_tokens: limit.filter(|_| !is_completion),
        max_completion_tokens: limit.filter(|_| is_completion),
    };
    // Keys are texts and numbers are finite, so nothing of it can fail.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The name of a model for its provider, with the effort it is to make.
fn name(kind: ProviderKind, model: &str) -> Cow<'_, str> {
    let name = model.split_once("::").map_or(model, |(_namespace, name)| name);
    match kind {
        ProviderKind::Fireworks if !model.contains('/') => format!("{FIREWORKS_MODELS}{name}").into(),
        _takes_it_as_it_is => name.into(),
    }
}

fn default_limit(kind: ProviderKind, model: &str) -> Option<u32> {
    let (strict, limit) = FIREWORKS_STRICT;
    let limit = if model.contains(strict) { limit } else { FIREWORKS_TOKENS };
    (kind == ProviderKind::Fireworks).then_some(limit)
}

fn keyword(kind: ProviderKind, effort: &ReasoningEffort) -> Option<&'static str> {
    match effort {
        ReasoningEffort::Zero if kind == ProviderKind::DeepSeek => None,
        ReasoningEffort::Zero => Some("none"),
        other => other.as_keyword(),
    }
}

/// Whether a model fills its cache of prompts by itself, at a price: gpt-5.6 and what came after.
fn caches_unasked(kind: ProviderKind, model: &str) -> bool {
    let version = model.strip_prefix("gpt-").and_then(|rest| rest.split('-').next()).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let is_newer = match (parts.next().flatten(), parts.next()) {
        (Some(major), None) => major > 5,
        (Some(major), Some(Some(minor))) => major > 5 || (major == 5 && minor >= 6),
        _no_version => false,
    };
    is_newer && matches!(kind, ProviderKind::OpenAi | ProviderKind::Ollama)
}

struct Messages<'a> {
    request: &'a LlmRequest,
    can: &'a Capabilities,
}

#[derive(serde::Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Turn<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: &'a str,
        #[serde(skip_serializing_if = "Calls::is_empty")]
        tool_calls: Calls<'a>,
    },
    Tool {
        content: String,
        tool_call_id: &'a str,
    },
}

#[derive(serde::Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Address },
    VideoUrl { video_url: Address },
    InputAudio { input_audio: Sound<'a> },
    File { file: Attached },
}

#[derive(serde::Serialize)]
struct Address {
    url: String,
}

#[derive(serde::Serialize)]
struct Sound<'a> {
    data: &'a str,
    format: &'a str,
}

#[derive(serde::Serialize)]
struct Attached {
    filename: Option<String>,
    file_data: String,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { request, can } = *self;
        let mut list = serializer.serialize_seq(None)?;
        if !request.system.is_empty() {
            list.serialize_element(&Turn::System { content: &request.system })?;
        }
        let mut pictures: Vec<Part<'_>> = Vec::new();
        for message in &request.messages {
            if let Message::Tool { result } = &**message {
                let content = result.output.for_model();
                list.serialize_element(&Turn::Tool { content, tool_call_id: result.call.as_str() })?;
                pictures.extend(seen(result, can));
                continue;
            }
            show(&mut list, &mut pictures)?;
            match &**message {
                Message::User { parts } => list.serialize_element(&Turn::User { content: user(parts, can) })?,
                // A message that says nothing is one that providers refuse.
                Message::Assistant { text, calls } if !text.is_empty() || !calls.is_empty() => {
                    let tool_calls = Calls { request, calls };
                    list.serialize_element(&Turn::Assistant { content: text, tool_calls })?;
                }
                Message::Assistant { .. } | Message::Tool { .. } => {}
            }
        }
        show(&mut list, &mut pictures)?;
        list.end()
    }
}

/// What the results of a step show, behind all of them.
fn show<S: SerializeSeq>(list: &mut S, pictures: &mut Vec<Part<'_>>) -> Result<(), S::Error> {
    if pictures.is_empty() {
        return Ok(());
    }
    list.serialize_element(&Turn::User { content: Content::Parts(std::mem::take(pictures)) })
}

/// The images and sounds of a result, for a model that takes them; its text names them in any case.
fn seen<'a>(result: &'a ToolResult, can: &'a Capabilities) -> impl Iterator<Item = Part<'a>> + 'a {
    let shown = result.output.parts.iter().filter(|part| can.takes(part)).filter_map(binary);
    let head = || Part::Text { text: render::of_result(result).into() };
    shown.enumerate().flat_map(move |(number, part)| (number == 0).then(head).into_iter().chain([part]))
}

fn binary(part: &ContentPart) -> Option<Part<'_>> {
    let (ContentPart::Image { mime_type, data } | ContentPart::Audio { mime_type, data }) = part else { return None };
    let url = || format!("data:{mime_type};base64,{data}");
    let kind = mime_type.trim().to_ascii_lowercase();
    Some(match kind.split_once('/').map(|(kind, _)| kind) {
        Some("audio") => {
            let format = mime_type.rsplit('/').next().unwrap_or_default();
            let format = if format == "mpeg" { "mp3" } else { format };
            Part::InputAudio { input_audio: Sound { data, format } }
        }
        Some("image") => Part::ImageUrl { image_url: Address { url: url() } },
        Some("video") => Part::VideoUrl { video_url: Address { url: url() } },
        _any_other => Part::File { file: Attached { filename: None, file_data: url() } },
    })
}

/// Texts alone are one text; beside a picture each is a part.
fn user<'a>(parts: &'a [ContentPart], can: &Capabilities) -> Content<'a> {
    let text = |part: &'a ContentPart| match part {
        ContentPart::Text { text } => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(other.as_text()),
    };
    let shown = |part: &'a ContentPart| if can.takes(part) { binary(part) } else { None };
    if parts.iter().any(|part| shown(part).is_some()) {
        let part = |part| shown(part).unwrap_or_else(|| Part::Text { text: text(part) });
        return Content::Parts(parts.iter().map(part).collect());
    }
    if let [one] = parts {
        return Content::Text(text(one));
    }
    let mut joined = String::new();
    for part in parts.iter().map(text) {
        if !joined.is_empty() {
            joined.push_str(if joined.ends_with('\n') { "\n" } else { "\n\n" });
        }
        joined.push_str(&part);
    }
    Content::Text(joined.into())
}

struct Calls<'a> {
    request: &'a LlmRequest,
    calls: &'a [Arc<ToolCall>],
}

impl Calls<'_> {
    fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[derive(serde::Serialize)]
struct Call<'a> {
    r#type: &'static str,
    id: &'a str,
    function: Function,
}

#[derive(serde::Serialize)]
struct Function {
    name: String,
    arguments: String,
}

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.calls.iter().map(|call| Call {
            r#type: "function",
            id: call.id.as_str(),
            function: Function {
                name: self.request.tools.native_name(&call.name),
                arguments: call.arguments.to_string(),
            },
        }))
    }
}
