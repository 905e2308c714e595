//! A second reader of streams, written for correctness instead of speed: it reads a whole stream at once. The adapter
//! must agree with it.
//!
//! What it does not do is join the pieces of OpenAI's calls. There servers differ from the documentation, so that a
//! second reader would have the adapter's own rules; an answer is judged by `laws` instead, and by where it came from
//! in `begun`.

use bob_actors::llm::providers::ProviderKind;
use bob_messages::llm::LlmAnswer;
use serde_json::Value;

/// The content of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    pub(crate) text: String,
    pub(crate) calls: Vec<(String, Value)>,
}

/// A call; its arguments as JSON, or as text where they are none.
pub(crate) fn call(name: &str, arguments: &str) -> (String, Value) {
    let value = serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()));
    (name.to_owned(), if value.is_null() { Value::String(String::new()) } else { value })
}

/// The content according to the adapter.
pub(crate) fn of(answer: &LlmAnswer) -> Reading {
    let calls = answer.calls.iter().map(|raw| call(&raw.name, &raw.arguments)).collect();
    Reading { text: answer.text.clone(), calls }
}

/// The content of a stream of Anthropic's or Gemini's format; `None` if it is invalid.
pub(crate) fn read(kind: ProviderKind, stream: &str) -> Option<Reading> {
    let reading = match kind {
        ProviderKind::Gemini => gemini(&frames(stream)),
        _anthropic => anthropic(&frames(stream)),
    }?;
    (!reading.text.trim().is_empty() || !reading.calls.is_empty()).then_some(reading)
}

fn frames(stream: &str) -> Vec<(String, String)> {
    stream.replace("\r\n", "\n").split("\n\n").filter_map(frame).collect()
}

fn frame(block: &str) -> Option<(String, String)> {
    let field =
        |name: &str| block.lines().find_map(|line| line.trim().strip_prefix(name)).map(|rest| rest.trim().to_owned());
    Some((field("event:").unwrap_or_default(), field("data:")?))
}

/// A number of any spelling as a canonical text; `None` for other values.
pub(crate) fn index(value: Option<&Value>) -> Option<String> {
    let text = match value? {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        _says_nothing => return None,
    };
    let number = text.parse::<f64>().ok().filter(|number| number.fract() == 0.0);
    match number {
        Some(_) if text.parse::<i128>().is_ok() => Some(text.parse::<i128>().unwrap().to_string()),
        Some(number) if number.abs() < 9e15 => Some(format!("{number:.0}")),
        _other_text => Some(text),
    }
}

/// Order of a choice: 0 first, then ascending, then negative ones.
fn rank(choice: &Value) -> u128 {
    let number = index(choice.get("index")).and_then(|text| text.parse::<i128>().ok()).unwrap_or(0);
    u128::try_from(number).unwrap_or(u128::MAX)
}

/// The choice of each frame that belongs to the lowest choice of the stream.
fn lowest(frames: &[Value], key: &str) -> Vec<Value> {
    let of_frame = |frame: &Value| frame.get(key)?.as_array()?.iter().min_by_key(|choice| rank(choice)).cloned();
    let chosen: Vec<Value> = frames.iter().filter_map(of_frame).collect();
    let best = chosen.iter().map(rank).min();
    chosen.into_iter().filter(|choice| Some(rank(choice)) == best).collect()
}

pub(crate) fn words(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What an OpenAI stream says: its text, and every piece of a call of the choice that is the answer. Which pieces make
/// one call is not decided here. `None`: it is no answer, with or without calls.
pub(crate) fn openai(stream: &str) -> Option<(String, Vec<Value>)> {
    let frames = frames(stream);
    let end = frames.iter().position(|(_, data)| data == "[DONE]")?;
    let frames: Vec<Value> =
        frames[..end].iter().map(|(_, data)| serde_json::from_str(data).ok()).collect::<Option<_>>()?;
    if frames.iter().any(|frame| frame.get("error").is_some_and(|error| !error.is_null())) {
        return None;
    }
    let deltas: Vec<Value> =
        lowest(&frames, "choices").iter().filter_map(|choice| choice.get("delta").cloned()).collect();
    let text = deltas.iter().map(|delta| match delta.get("content") {
        Some(Value::Array(parts)) => {
            parts.iter().filter(|part| part["type"] == "text").map(|part| words(part.get("text"))).collect()
        }
        content => words(content),
    });
    let text: String = text.collect();
    let pieces = deltas.into_iter().flat_map(|delta| match delta.get("tool_calls") {
        Some(Value::Array(pieces)) => pieces.clone(),
        Some(piece) => vec![piece.clone()],
        None => Vec::new(),
    });
    Some((text, pieces.filter(Value::is_object).collect()))
}

/// Arguments that were quoted once too often.
fn unquoted(arguments: &str) -> String {
    serde_json::from_str::<String>(arguments).unwrap_or_else(|_| arguments.to_owned())
}

fn anthropic(frames: &[(String, String)]) -> Option<Reading> {
    let end = frames.iter().position(|(event, _)| event == "message_stop")?;
    let frames: Vec<(String, Value)> = frames[..end]
        .iter()
        .filter(|(event, _)| event.starts_with("content_block") || event == "error")
        .map(|(event, data)| Some((event.clone(), serde_json::from_str(data).ok()?)))
        .collect::<Option<_>>()?;
    if frames.iter().any(|(event, _)| event == "error") {
        return None;
    }
    let mut text = String::new();
    let mut blocks: Vec<Block> = Vec::new();
    for (event, data) in &frames {
        let own = index(data.get("index"));
        let found = |open: &Block| own.as_ref().is_none_or(|own| open.index == *own);
        // Without an index the block that began last is meant, if it is still open.
        let last = blocks.iter().rposition(|block| block.is_last).filter(|at| blocks[*at].is_open);
        let at = if own.is_none() { last } else { blocks.iter().rposition(|block| block.is_open && found(block)) };
        match event.as_str() {
            "content_block_start" => {
                let own = own.clone().unwrap_or_else(|| "-1".to_owned());
                let taken = blocks.iter().position(|block| block.is_open && block.index == own);
                let begun = Block::of(own, &data["content_block"]);
                blocks.iter_mut().for_each(|block| block.is_last = false);
                match taken {
                    Some(at) if begun.kind == "tool_use" && !begun.id.is_empty() && blocks[at].is_call(&begun.id) => {
                        blocks[at].is_last = true;
                    }
                    taken => {
                        taken.into_iter().for_each(|at| blocks[at].is_open = false);
                        blocks.push(begun);
                    }
                }
            }
            "content_block_delta" => {
                text += &words(data.pointer("/delta/text"));
                let piece = match data.pointer("/delta/partial_json") {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::String(piece)) => piece.clone(),
                    Some(value) => value.to_string(),
                };
                match at.map(|at| (at, blocks[at].kind.as_str())) {
                    Some((at, "tool_use")) => blocks[at].arguments += &piece,
                    None | Some((_, "text")) if !piece.trim().is_empty() => return None,
                    _no_call => {}
                }
            }
            _stop => {
                if let Some(block) = at.and_then(|at| blocks.get_mut(at)) {
                    (block.is_open, block.is_whole) = (false, true);
                }
            }
        }
    }
    let calls = blocks.iter().filter(|block| block.kind == "tool_use").map(|block| {
        let arguments = match (block.arguments.is_empty(), block.input.is_empty()) {
            (false, _) => block.arguments.clone(),
            (true, false) => block.input.clone(),
            (true, true) if block.is_whole => "{}".to_owned(),
            (true, true) => String::new(),
        };
        call(&block.name, &unquoted(&arguments))
    });
    Some(Reading { text, calls: calls.collect() })
}

struct Block {
    index: String,
    kind: String,
    id: String,
    name: String,
    input: String,
    arguments: String,
    is_open: bool,
    is_whole: bool,
    is_last: bool,
}

impl Block {
    fn of(index: String, block: &Value) -> Self {
        let input = block["input"].as_object().filter(|input| !input.is_empty());
        Self {
            index,
            kind: words(block.get("type")),
            id: words(block.get("id")),
            name: words(block.get("name")),
            input: input.map(|input| Value::from(input.clone()).to_string()).unwrap_or_default(),
            arguments: String::new(),
            is_open: true,
            is_whole: false,
            is_last: true,
        }
    }

    fn is_call(&self, id: &str) -> bool {
        self.kind == "tool_use" && self.id == id
    }
}

fn gemini(frames: &[(String, String)]) -> Option<Reading> {
    let frames: Vec<Value> = frames.iter().map(|(_, data)| serde_json::from_str(data).ok()).collect::<Option<_>>()?;
    let candidates = lowest(&frames, "candidates");
    let end = candidates.iter().position(|candidate| candidate["finishReason"].is_string())?;
    let parts: Vec<&Value> = candidates[..=end]
        .iter()
        .filter_map(|candidate| candidate.pointer("/content/parts")?.as_array())
        .flatten()
        .collect();
    let is_text = |part: &&&Value| part.get("functionCall").is_none() && part["thought"] != true;
    let text = parts.iter().filter(is_text).map(|part| words(part.get("text"))).collect();
    let calls = parts.iter().filter_map(|part| part.get("functionCall"));
    let calls =
        calls.map(|said| call(&words(said.get("name")), &said.get("args").map(Value::to_string).unwrap_or_default()));
    Some(Reading { text, calls: calls.collect() })
}
