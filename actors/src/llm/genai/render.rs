//! A request of ours in genai's words.

use super::super::providers::{Provider, ProviderKind};
use super::tap::Tap;
use ::genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ContentPart as Part, JsonSpec, MessageContent, Tool, ToolCall as Call,
    ToolResponse,
};
use bob_messages::chat::{ContentPart, Message, ToolCall, ToolResult};
use bob_messages::ids::ToolName;
use bob_messages::llm::{Capabilities, LlmRequest, ToolMode};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Separates a signature from the thought it signs, where both must go back.
const SIGNED: char = '\n';

/// A signature and its thought as one text, opaque to other providers.
pub(super) fn sign(signature: &str, thought: &str) -> String {
    format!("{signature}{SIGNED}{thought}")
}

pub(super) fn chat(kind: ProviderKind, request: &LlmRequest, can: &Capabilities) -> ChatRequest {
    let mut messages: Vec<ChatMessage> = Vec::with_capacity(request.messages.len());
    let (mut results, mut pictures): (Vec<ToolResponse>, Vec<Part>) = (Vec::new(), Vec::new());
    for message in &request.messages {
        if let Message::Tool { result } = &**message {
            results.push(response(request, result));
            pictures.extend(seen(result, can));
            continue;
        }
        // The results of one step go together: some providers want them in one message.
        flush(&mut messages, &mut results, &mut pictures);
        match &**message {
            Message::User { parts } => messages.push(ChatMessage::user(user(parts, can))),
            Message::Assistant { text, calls } => messages.extend(assistant(kind, request, text, calls)),
            Message::Tool { .. } => {}
        }
    }
    flush(&mut messages, &mut results, &mut pictures);
    let chat = ChatRequest::new(messages);
    let chat = if request.system.is_empty() { chat } else { chat.with_system(&*request.system) };
    match request.mode {
        ToolMode::Native if !is_answer_alone(request) => chat.with_tools(tools(request)),
        ToolMode::Native | ToolMode::Json => chat,
    }
}

/// The results of a step, and what they show, which no provider takes inside of all results:
/// the user shows it behind them.
fn flush(messages: &mut Vec<ChatMessage>, results: &mut Vec<ToolResponse>, pictures: &mut Vec<Part>) {
    if !results.is_empty() {
        messages.push(std::mem::take(results).into());
    }
    if !pictures.is_empty() {
        messages.push(ChatMessage::user(MessageContent::from_parts(std::mem::take(pictures))));
    }
}

/// The images and sounds of a result, for a model that takes them; its text names them in any case.
fn seen<'r>(result: &'r ToolResult, can: &'r Capabilities) -> impl Iterator<Item = Part> + 'r {
    let shown = result.output.parts.iter().filter(|part| can.takes(part)).filter_map(binary);
    let head = || Part::from_text(of_result(result));
    shown.enumerate().flat_map(move |(number, part)| (number == 0).then(head).into_iter().chain([part]))
}

/// What stands before the images of a result.
pub(super) fn of_result(result: &ToolResult) -> String {
    format!("From the result of {} ({}):", result.name, result.call)
}

fn binary(part: &ContentPart) -> Option<Part> {
    match part {
        ContentPart::Image { mime_type, data } | ContentPart::Audio { mime_type, data } => {
            Some(Part::from_binary_base64(mime_type.as_str(), data.as_str(), None))
        }
        // What a model is sent of an artifact was put in its place before.
        ContentPart::Text { .. }
        | ContentPart::Resource { .. }
        | ContentPart::ResourceLink { .. }
        | ContentPart::Artifact(_) => None,
    }
}

/// How the call is made. What is said is read by the tap: genai's own collecting of calls believes any index and
/// copies with every piece. Reasoning is captured because providers are asked for it only then.
pub(super) fn options(provider: &Provider, request: &LlmRequest, can: &Capabilities, tap: Arc<Tap>) -> ChatOptions {
    let silence = Duration::from_millis(provider.limits.timeout_ms);
    let mut options = ChatOptions::default()
        .with_capture_content(false)
        // The servers of OpenAI's format are asked for the usage only then; genai's sums for the others can overflow.
        .with_capture_usage(!matches!(provider.kind, ProviderKind::Anthropic | ProviderKind::Gemini))
        .with_capture_tool_calls(false)
        .with_capture_reasoning_content(true)
        .with_stream_header_timeout(silence)
        .with_stream_read_timeout(silence)
        .with_raw_frame_sink_arc(tap);
    if let Some(temperature) = provider.temperature {
        options = options.with_temperature(temperature);
    }
    if let Some(max_tokens) = provider.max_tokens {
        options = options.with_max_tokens(max_tokens);
    }
    let parent = Some(("traceparent", &*request.traceparent)).filter(|(_, header)| !header.is_empty());
    let state = request.tracestate.as_deref().map(|state| ("tracestate", state));
    let trace: Vec<_> = parent.into_iter().chain(state).collect();
    if !trace.is_empty() {
        options = options.with_extra_headers(trace);
    }
    match schema(request, can) {
        Some((name, schema)) => options.with_response_format(JsonSpec::new(name, schema.clone())),
        None => options,
    }
}

pub(super) fn schema<'r>(request: &'r LlmRequest, can: &Capabilities) -> Option<(&'static str, &'r Value)> {
    let schema = request.envelope.as_deref().filter(|_| can.json_schema)?;
    match request.mode {
        ToolMode::Json => Some(("action", schema)),
        ToolMode::Native => is_answer_alone(request).then_some(("answer", schema)),
    }
}

/// Whether a structured answer is all there can be: with its schema no tool is offered, not even the question to the
/// user, which some providers refuse. Behind calls they insist on tools, and there the schema stays in words.
pub(super) fn is_answer_alone(request: &LlmRequest) -> bool {
    let has_calls = || request.messages.iter().any(|message| matches!(**message, Message::Tool { .. }));
    request.mode == ToolMode::Native && request.envelope.is_some() && !has_calls()
}

fn tools(request: &LlmRequest) -> Vec<Tool> {
    let tool = |(tool, native): (&Arc<bob_messages::tools::ToolDescriptor>, &str)| {
        Tool::new(native).with_description(tool.description.as_str()).with_schema(tool.schema.clone())
    };
    let (name, description, schema) = ask_user();
    let question = Tool::new(name).with_description(description).with_schema(schema.clone());
    request.tools.with_native_names().map(tool).chain([question]).collect()
}

/// The question to the user, as a function: name, description and schema. No tool of Bob's has its name.
pub(super) fn ask_user() -> (&'static str, &'static str, &'static Value) {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let question = json!({"type": "string", "description": "what you need to know"});
        json!({
            "type": "object", "properties": {"question": question}, "required": ["question"], "additionalProperties": false,
        })
    });
    let description = "Asks the user one question and waits for the answer. Only when you cannot go on without it.";
    (ToolName::ASK_USER, description, &SCHEMA)
}

fn user(parts: &[ContentPart], can: &Capabilities) -> MessageContent {
    let part = |part: &ContentPart| {
        let shown = if can.takes(part) { binary(part) } else { None };
        shown.unwrap_or_else(|| Part::from_text(part.as_text()))
    };
    MessageContent::from_parts(parts.iter().map(part).collect::<Vec<_>>())
}

/// `None` for a message that says nothing, which providers refuse.
fn assistant(kind: ProviderKind, request: &LlmRequest, text: &str, calls: &[Arc<ToolCall>]) -> Option<ChatMessage> {
    let mut parts: Vec<Part> = Vec::new();
    if kind == ProviderKind::Anthropic {
        let signed = calls.iter().flat_map(|call| &call.signatures).filter_map(|both| both.split_once(SIGNED));
        for (signature, thought) in signed {
            parts.extend([Part::ThoughtSignature(signature.into()), Part::ReasoningContent(thought.into())]);
        }
    }
    if !text.is_empty() {
        parts.push(Part::from_text(text));
    }
    parts.extend(calls.iter().map(|call| Part::ToolCall(tool_call(kind, request, call))));
    (!parts.is_empty()).then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
}

fn tool_call(kind: ProviderKind, request: &LlmRequest, call: &ToolCall) -> Call {
    // A signature means something only to the provider that made it: those that come
    // with their thoughts are another one's.
    let own = call.signatures.iter().filter(|signature| !signature.contains(SIGNED)).cloned().collect::<Vec<_>>();
    let own = Some(own).filter(|own| kind == ProviderKind::Gemini && !own.is_empty());
    Call {
        call_id: call.id.as_str().to_owned(),
        fn_name: request.tools.native_name(&call.name),
        fn_arguments: Value::clone(&call.arguments),
        thought_signatures: own,
    }
}

fn response(request: &LlmRequest, result: &ToolResult) -> ToolResponse {
    let text = result.output.for_model();
    ToolResponse::new(result.call.as_str(), text).with_fn_name(request.tools.native_name(&result.name))
}
