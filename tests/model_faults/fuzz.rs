//! Fuzzed streams through the whole adapter, judged by the naive reader.
//!
//! An input is either a stream after the name of its format and a line end (kept in `__fuzz__`), or bytes that select
//! fragments of real servers' oddities.

use crate::model_faults::laws;
use crate::model_faults::recordings::Player;
use crate::support::reply::Reply;
use bob_actors::llm::providers::ProviderKind::{self, Anthropic, DeepSeek, Gemini, Mistral, Ollama, OpenAi};
use bob_messages::llm::LlmAnswer;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::runtime::Runtime;

/// DeepSeek and Mistral stand for the other providers of OpenAI's format.
pub(crate) const KINDS: [(&str, ProviderKind); 6] = [
    ("openai", OpenAi),
    ("anthropic", Anthropic),
    ("gemini", Gemini),
    ("ollama", Ollama),
    ("deepseek", DeepSeek),
    ("mistral", Mistral),
];

const INDEXES: [&str; 12] = [
    "",
    "\"index\":0,",
    "\"index\":1,",
    "\"index\":2,",
    "\"index\":-1,",
    "\"index\":2147483648,",
    "\"index\":1e40,",
    "\"index\":\"1\",",
    "\"index\":1.0,",
    "\"index\":null,",
    "\"index\":400,",
    "\"index\":[],",
];
const IDS: [&str; 5] = ["", "\"id\":\"\",", "\"id\":null,", "\"id\":\"c1\",", "\"id\":\"c2\","];
const NAMES: [&str; 5] = ["", "\"name\":\"\",", "\"name\":\"pay\",", "\"name\":\"ask\",", "\"name\":null,"];
const ARGUMENTS: [&str; 7] = ["\"\"", "null", "\"{}\"", "\"{\\\"a\\\":\"", "\"1}\"", "{\"a\":1}", "\"{\\\"a\\\":1}\""];
const TEXTS: [&str; 5] = ["\"\"", "null", "\"I \"", "\"pay.\"", "[{\"type\":\"text\",\"text\":\"part\"}]"];

/// A model for each format, whose provider answers with the stream in its slot.
struct Fixture {
    runtime: Runtime,
    formats: Vec<(Player, Slot)>,
}

/// The stream that is answered next.
type Slot = Arc<Mutex<Vec<u8>>>;

/// One test at a time has it.
static FIXTURE: LazyLock<Mutex<Fixture>> = LazyLock::new(|| {
    let format = |(_, kind): (&str, ProviderKind)| {
        let slot = Slot::default();
        let shared = Arc::clone(&slot);
        let answer = move |_| Reply::Pieces(vec![shared.lock().unwrap_or_else(PoisonError::into_inner).clone()]);
        (Player::new(kind, answer), slot)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Mutex::new(Fixture { runtime, formats: KINDS.into_iter().map(format).collect() })
});

/// The adapter's answer of a provider of the format with this number that sends this stream.
pub(crate) fn answer(kind: usize, stream: &str) -> Option<LlmAnswer> {
    let fixture = FIXTURE.lock().unwrap_or_else(PoisonError::into_inner);
    let (player, slot) = &fixture.formats[kind];
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = stream.as_bytes().to_vec();
    fixture.runtime.block_on(player.play(0)).ok()
}

/// Which format, and the stream.
fn stream(input: &[u8]) -> (usize, String) {
    let text = String::from_utf8_lossy(input);
    if let Some((name, stream)) = text.split_once('\n')
        && let Some(kind) = KINDS.iter().position(|(known, _)| *known == name)
    {
        return (kind, stream.to_owned());
    }
    let (kind, input) = input.split_first().map_or((0, input), |(kind, rest)| (usize::from(*kind) % KINDS.len(), rest));
    let pieces = input.chunks(6).map(|piece| {
        let of = |number: usize, words: &[&'static str]| words[usize::from(piece.get(number).copied().unwrap_or(0)) % words.len()];
        let (index, id, name) = (of(0, &INDEXES), of(1, &IDS), of(2, &NAMES));
        let (arguments, text, number) = (of(3, &ARGUMENTS), of(4, &TEXTS), of(5, &INDEXES[..6]));
        match KINDS[kind].1 {
            Anthropic => block(piece.get(5).copied().unwrap_or(0), index, id, name, arguments, text),
            Gemini => {
                let call = format!("{{{id}{name}\"args\":{{\"a\":1}}}}");
                let part = if arguments == "\"\"" { format!("{{\"text\":{text}}}") } else { format!("{{\"functionCall\":{call}}}") };
                format!("data: {{\"candidates\":[{{{number}\"content\":{{\"parts\":[{part}]}}}}]}}\n\n")
            }
            _speaks_openai => format!(
                "data: {{\"choices\":[{{{number}\"delta\":{{\"content\":{text},\"tool_calls\":[{{{index}{id}\"function\":{{{name}\"arguments\":{arguments}}}}}]}}}}]}}\n\n"
            ),
        }
    });
    let end = match KINDS[kind].1 {
        Anthropic => "event: message_stop\ndata: {}\n\n".to_owned(),
        Gemini => "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n".to_owned(),
        _speaks_openai => "data: [DONE]\n\n".to_owned(),
    };
    (kind, pieces.chain([end]).collect())
}

fn block(what: u8, index: &str, id: &str, name: &str, arguments: &str, text: &str) -> String {
    let event = |event: &str, rest: &str| format!("event: {event}\ndata: {{{index}{rest}}}\n\n");
    match what % 5 {
        0 => event(
            "content_block_start",
            &format!("\"content_block\":{{\"type\":\"tool_use\",{id}{name}\"input\":{{}}}}"),
        ),
        1 => event("content_block_start", "\"content_block\":{\"type\":\"text\"}"),
        2 => event("content_block_stop", "\"x\":1"),
        3 => event("content_block_delta", &format!("\"delta\":{{\"text\":{text}}}")),
        _piece => event("content_block_delta", &format!("\"delta\":{{\"partial_json\":{arguments}}}")),
    }
}

#[test]
fn fuzz_streams_through_the_adapter() {
    bolero::check!(name = "streams").with_iterations(100).with_max_len(120).for_each(|input: &[u8]| {
        let (kind, stream) = stream(input);
        let wrong = laws::wrong(KINDS[kind].1, &stream, answer(kind, &stream).as_ref());
        assert_eq!(wrong, None, "{}:\n{stream}", KINDS[kind].0);
    });
}
