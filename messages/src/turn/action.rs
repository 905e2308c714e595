//! One model reply → what the model decided.
//!
//! The envelope is read strictly: exactly one JSON object, no other text around it (a Markdown fence is tolerated),
//! no key twice. Errors are precise, because the model is asked again with their text.

use super::strict;
use crate::chat::StopReason;
use crate::ids::ToolName;
use crate::llm::{LlmAnswer, RawCall, ToolMode};
use crate::tools::ToolSet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The decision of a model, as its envelope contains it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentAction {
    /// The final answer.
    Final {
        /// The text of the answer.
        content: String,
    },
    /// A call of a tool.
    ToolCall {
        /// The name of the tool.
        name: String,
        /// The arguments, a JSON object.
        arguments: Value,
    },
    /// A question to the user.
    AskUser {
        /// The text of the question.
        question: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Understood {
    Final(String),
    /// Words and calls; the question to the user is a call of `ask_user`.
    Calls(String, Vec<Asked>),
}

/// A call before it has an id.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) name: ToolName,
    pub(super) arguments: Value,
    pub(super) argument_bytes: usize,
    pub(super) signatures: Vec<String>,
}

/// Reads a reply. Errors: what is wrong with it, in words for the model.
pub(super) fn understand(
    mode: ToolMode,
    answer: &LlmAnswer,
    tools: &ToolSet,
    is_structured: bool,
) -> Result<Understood, String> {
    let declined = matches!(answer.stop_reason, StopReason::Refusal | StopReason::ContentFilter);
    if declined {
        return Ok(Understood::Final(answer.text.clone()));
    }
    if !answer.calls.is_empty() {
        if answer.stop_reason == StopReason::MaxTokens {
            return Err("the reply was cut at the token limit in the middle of a tool call; make it shorter".into());
        }
        let calls = answer.calls.iter().map(|raw| native_call(raw, tools)).collect::<Result<_, _>>()?;
        return Ok(Understood::Calls(answer.text.clone(), calls));
    }
    if is_structured && mode == ToolMode::Native {
        return Ok(Understood::Final(answer.text.clone()));
    }
    // Most answers: as an envelope they would be read only for an error of JSON, whose text is made for nothing.
    let is_plain = mode == ToolMode::Native && !without_fence(&answer.text).trim_start().starts_with('{');
    if is_plain && !answer.text.trim().is_empty() {
        return Ok(Understood::Final(answer.text.clone()));
    }
    match (mode, read_action(&answer.text, is_structured)) {
        (_, Ok(action)) => Ok(enveloped(action, &answer.text, tools)),
        (ToolMode::Native, Err(_)) if !answer.text.trim().is_empty() || answer.stop_reason == StopReason::MaxTokens => {
            Ok(Understood::Final(answer.text.clone()))
        }
        (ToolMode::Native, Err(_)) => Err("the reply was empty".into()),
        (ToolMode::Json, Err(_)) if answer.stop_reason == StopReason::MaxTokens => {
            Err("the reply was cut at the token limit before the JSON object ended; make it shorter".into())
        }
        (ToolMode::Json, Err(complaint)) => Err(complaint),
    }
}

fn enveloped(action: AgentAction, text: &str, tools: &ToolSet) -> Understood {
    let call = |name: ToolName, arguments: Value| {
        let argument_bytes = text.len();
        Understood::Calls(String::new(), vec![Asked { name, arguments, argument_bytes, signatures: Vec::new() }])
    };
    match action {
        AgentAction::Final { content } => Understood::Final(content),
        AgentAction::ToolCall { name, arguments } => call(spoken(&name, tools), arguments),
        AgentAction::AskUser { question } => {
            call(ToolName::new(ToolName::ASK_USER), serde_json::json!({ "question": question }))
        }
    }
}

fn native_call(raw: &RawCall, tools: &ToolSet) -> Result<Asked, String> {
    // Some models send nothing for a tool that takes nothing.
    let text = if raw.arguments.trim().is_empty() { "{}" } else { raw.arguments.as_str() };
    let arguments =
        strict::parse(text).map_err(|error| format!("the arguments of {} are not JSON: {error}", raw.name))?;
    if !arguments.is_object() {
        return Err(format!("the arguments of {} are not a JSON object", raw.name));
    }
    let name = spoken(&raw.name, tools);
    if name.is_ask_user() && !arguments.get("question").is_some_and(Value::is_string) {
        return Err("ask_user needs a `question` of type string".into());
    }
    Ok(Asked { name, arguments, argument_bytes: text.len(), signatures: raw.signatures.clone() })
}

fn spoken(name: &str, tools: &ToolSet) -> ToolName {
    tools.by_spoken_name(name).map_or_else(|| ToolName::new(name), |tool| tool.id.clone())
}

/// Reads one envelope.
///
/// # Errors
/// Invalid JSON, text around it, a missing field, a wrong type and an unknown action have different error texts,
/// written for the model.
pub fn parse_action(text: &str) -> Result<AgentAction, String> {
    read_action(text, false)
}

/// Reads an answer that is to be JSON, in a Markdown fence or not.
/// Errors: what is wrong with it, in words for the model.
pub(super) fn structured(text: &str) -> Result<Value, String> {
    strict::parse(without_fence(text)).map_err(|error| format!("the answer is not one JSON value: {error}"))
}

/// The content of a structured final answer as JSON. Models that are used to texts put
/// theirs into one; a text that is not such JSON is meant as it is.
fn structured_content(fields: &mut Map<String, Value>, kind: &str) -> Result<String, String> {
    match fields.remove("content") {
        Some(Value::String(text)) => Ok(match structured(&text) {
            Ok(Value::Object(_) | Value::Array(_)) => text,
            Ok(_) | Err(_) => Value::String(text).to_string(),
        }),
        Some(content) => Ok(content.to_string()),
        None => Err(format!("the field `content` of a {kind} is missing")),
    }
}

fn read_action(text: &str, is_structured: bool) -> Result<AgentAction, String> {
    let value =
        strict::parse(without_fence(text)).map_err(|error| format!("the reply is not one JSON object: {error}"))?;
    let Value::Object(mut fields) = value else {
        return Err("the reply is JSON but not an object".into());
    };
    let kind = match fields.remove("type") {
        Some(Value::String(kind)) => kind,
        Some(_) => return Err("the field `type` must be a string: \"final\", \"tool_call\" or \"ask_user\"".into()),
        None => return Err("the field `type` is missing; it is \"final\", \"tool_call\" or \"ask_user\"".into()),
    };
    let action = match kind.as_str() {
        "final" if is_structured => AgentAction::Final { content: structured_content(&mut fields, &kind)? },
        "final" => AgentAction::Final { content: string(&mut fields, "content", &kind)? },
        "tool_call" => AgentAction::ToolCall {
            name: string(&mut fields, "name", &kind)?,
            arguments: match fields.remove("arguments") {
                Some(arguments @ Value::Object(_)) => arguments,
                Some(_) => return Err("the field `arguments` of a tool_call must be a JSON object".into()),
                None => return Err("the field `arguments` of a tool_call is missing; use {} for none".into()),
            },
        },
        "ask_user" => AgentAction::AskUser { question: string(&mut fields, "question", &kind)? },
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(format!("the type {shown:?} is unknown; use \"final\", \"tool_call\" or \"ask_user\""));
        }
    };
    match fields.keys().next() {
        Some(unknown) => Err(format!("the field `{unknown}` does not belong to a {kind}")),
        None => Ok(action),
    }
}

fn string(fields: &mut Map<String, Value>, name: &str, kind: &str) -> Result<String, String> {
    match fields.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("the field `{name}` of a {kind} must be a string")),
        None => Err(format!("the field `{name}` of a {kind} is missing")),
    }
}

/// The text without a Markdown fence around the whole of it.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((language, body)) if language.trim().chars().all(char::is_alphanumeric) => body,
        _ => text,
    }
}
