//! Ten servers' ways to number, cut and repeat output: each answer is accepted once, as it began.

use crate::model_faults::laws;
use crate::model_faults::naive::{self, Reading};
use crate::model_faults::recordings::Player;
use crate::support::reply::Reply;
use bob_actors::llm::providers::ProviderKind::{
    self, Anthropic, DeepSeek, Fireworks, Gemini, Groq, Mistral, Moonshot, Ollama, OpenAi, OpenRouter, Together, Xai,
};
use bob_messages::llm::LlmErrorKind;

/// A stream and its content.
struct Oddity {
    name: &'static str,
    kind: ProviderKind,
    stream: String,
    /// `None`: it is no answer.
    says: Option<(&'static str, &'static [Said])>,
}

/// A call: its name and its arguments.
type Said = (&'static str, &'static str);

const PAY: Said = ("pay", r#"{"to":"a"}"#);
const ASK: Said = ("ask", r#"{"of":"b"}"#);

/// An OpenAI stream of these deltas.
fn openai(deltas: &[&str]) -> String {
    let choices: Vec<String> = deltas.iter().map(|delta| format!(r#"[{{"index":0,"delta":{delta}}}]"#)).collect();
    chunks(&choices.iter().map(String::as_str).collect::<Vec<_>>())
}

/// An OpenAI stream of these `choices`.
fn chunks(choices: &[&str]) -> String {
    let last = r#"[{"index":0,"delta":{},"finish_reason":"tool_calls"}]"#;
    let frame = |choices: &&str| format!("data: {{\"id\":\"c\",\"model\":\"m\",\"choices\":{choices}}}\n\n");
    choices.iter().chain([&last]).map(frame).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

/// One whole call under this index, in one delta.
fn under(index: &str) -> String {
    openai(&[&whole(index, "c1", PAY)])
}

fn whole(index: &str, id: &str, (name, arguments): Said) -> String {
    let arguments = arguments.replace('"', "\\\"");
    let index = if index.is_empty() { String::new() } else { format!(r#""index":{index},"#) };
    let id = if id.is_empty() { String::new() } else { format!(r#""id":"{id}","#) };
    format!(r#"{{"tool_calls":[{{{index}{id}"function":{{"name":"{name}","arguments":"{arguments}"}}}}]}}"#)
}

/// An Anthropic stream of these events between its first and its last.
fn anthropic(events: &[(&str, &str)]) -> String {
    let first = ("message_start", r#""message":{"id":"m","model":"m","usage":{"input_tokens":1}}"#);
    let last = ("message_delta", r#""delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}"#);
    let event = |(name, rest): &(&str, &str)| format!("event: {name}\ndata: {{\"type\":\"{name}\",{rest}}}\n\n");
    let end = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n".to_owned();
    [first].iter().chain(events).chain([&last]).map(event).chain([end]).collect()
}

/// A Gemini stream of these parts, one a frame.
fn gemini(parts: &[&str]) -> String {
    let frame = |part: &&str| format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\n\n");
    let last = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"totalTokenCount\":1}}\n\n";
    parts.iter().map(frame).chain([last.to_owned()]).collect()
}

const START_PAY: &str = r#""index":0,"content_block":{"type":"tool_use","id":"t1","name":"pay","input":{}}"#;
const START_ASK: &str = r#""index":1,"content_block":{"type":"tool_use","id":"t2","name":"ask","input":{}}"#;
const PAY_A: &str = r#""index":0,"delta":{"type":"input_json_delta","partial_json":"{\"to\":"}"#;
const PAY_B: &str = r#""index":0,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}"#;
const ASK_A: &str = r#""index":1,"delta":{"type":"input_json_delta","partial_json":"{\"of\":"}"#;
const ASK_B: &str = r#""index":1,"delta":{"type":"input_json_delta","partial_json":"\"b\"}"}"#;

/// Every way in which a server may number one call.
const INDEXES: [&str; 18] = [
    "",
    "0",
    "1",
    "2",
    "7",
    "400",
    "40000",
    "-1",
    "-9223372036854775808",
    "2147483648",
    "4294967296",
    "9223372036854775808",
    "1e300",
    "0.0",
    "1.5",
    "\"0\"",
    "\"first\"",
    "null",
];

fn oddities() -> Vec<Oddity> {
    let says = |name, kind, stream, text, calls| Oddity { name, kind, stream, says: Some((text, calls)) };
    let numbered =
        INDEXES.iter().flat_map(|index| [OpenAi, Ollama].map(|kind| says(*index, kind, under(index), "", &[PAY])));
    let pieces = |first: &str, more: &str| {
        openai(&[
            &format!(r#"{{"tool_calls":[{{{first}"function":{{"name":"pay","arguments":""}}}}]}}"#),
            &format!(r#"{{"tool_calls":[{{{more}"function":{{"arguments":"{{\"to\":"}}}}]}}"#),
            &format!(r#"{{"tool_calls":[{{{more}"function":{{"arguments":"\"a\"}}"}}}}]}}"#),
        ])
    };
    let both = |a: &str, b: &str| openai(&[&whole(a, "c1", PAY), &whole(b, "c2", ASK)]);
    let mut all: Vec<Oddity> = numbered.collect();
    all.extend([
        says("Azure: filters before the first choice", OpenAi, format!("data: {{\"choices\":[],\"prompt_filter_results\":[]}}\n\n{}", under("0")), "", &[PAY]),
        says("OpenRouter: comments between", OpenAi, format!(": PROCESSING\n\n: PROCESSING\n\n{}", under("0")), "", &[PAY]),
        says("Groq: usage under a name of its own, whole call", OpenAi, format!("data: {{\"x_groq\":{{\"id\":\"r\"}},\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":null}}}}]}}\n\n{}", under("0")), "", &[PAY]),
        says("pieces, one-based", OpenAi, pieces(r#""index":1,"id":"c1","#, r#""index":1,"#), "", &[PAY]),
        says("pieces without an index", OpenAi, pieces(r#""id":"c1","#, ""), "", &[PAY]),
        says("pieces with nothing at all", OpenAi, pieces("", ""), "", &[PAY]),
        says("Together: an empty id in what follows", OpenAi, pieces(r#""index":0,"id":"c1","#, r#""index":0,"id":"","#), "", &[PAY]),
        says("Mistral: a null id in what follows", OpenAi, pieces(r#""index":0,"id":"c1","#, r#""index":0,"id":null,"#), "", &[PAY]),
        says("vLLM: an id of its own in every piece", OpenAi, pieces(r#""index":0,"id":"c1","#, r#""index":0,"id":"c9","#), "", &[PAY]),
        says("the id repeated, no index", OpenAi, pieces(r#""id":"c1","#, r#""id":"c1","#), "", &[PAY]),
        says("the name repeated", OpenAi, openai(&[
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"pay","arguments":"{\"to\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"pay","arguments":"\"a\"}"}}]}"#,
        ]), "", &[PAY]),
        says("the name repeated, without an index and an id", OpenAi, openai(&[
            r#"{"tool_calls":[{"function":{"name":"pay","arguments":""}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"pay","arguments":"{\"to\":"}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"pay","arguments":"\"a\"}"}}]}"#,
        ]), "", &[PAY]),
        says("the name repeated, and the id only at first", OpenAi, openai(&[
            r#"{"tool_calls":[{"id":"c1","function":{"name":"pay","arguments":""}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"pay","arguments":"{\"to\":"}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"pay","arguments":"\"a\"}"}}]}"#,
        ]), "", &[PAY]),
        says("two with one index, interleaved by their ids", OpenAi, openai(&[
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"pay","arguments":"{\"to\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c2","function":{"name":"ask","arguments":"{\"of\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"arguments":"\"a\"}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c2","function":{"arguments":"\"b\"}"}}]}"#,
        ]), "", &[PAY, ASK]),
        says("the end of a call and the next of its name in one piece", OpenAi, openai(&[
            r#"{"tool_calls":[{"function":{"name":"ask","arguments":""}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"ask","arguments":""}},{"function":{"name":"ask","arguments":"{\"of\":\"b\"}"}}]}"#,
        ]), "", &[("ask", ""), ASK]),
        says("the name repeated behind a bracket that closes less than all", OpenAi, openai(&[
            r#"{"tool_calls":[{"function":{"name":"pay","arguments":"{\"by\":{\"a\":\"}\"}"}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"pay","arguments":",\"to\":1}"}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"pay","arguments":"{\"to\":\"a\"}"}}]}"#,
        ]), "", &[("pay", r#"{"by":{"a":"}"},"to":1}"#), PAY]),
        says("calls without arguments in one piece", OpenAi, openai(&[
            r#"{"tool_calls":[{"function":{"name":"ask","arguments":""}},{"function":{"name":"ask","arguments":""}}]}"#,
        ]), "", &[("ask", ""), ("ask", "")]),
        says("an empty name in what follows", OpenAi, openai(&[
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"pay","arguments":"{\"to\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"\"a\"}"}}]}"#,
        ]), "", &[PAY]),
        says("two, one-based", OpenAi, both("1", "2"), "", &[PAY, ASK]),
        says("two with a gap", OpenAi, both("0", "9"), "", &[PAY, ASK]),
        says("two, the last first", OpenAi, both("1", "0"), "", &[PAY, ASK]),
        says("two without an index", OpenAi, both("", ""), "", &[PAY, ASK]),
        says("Ollama: two, both with index 0", Ollama, both("0", "0"), "", &[PAY, ASK]),
        says("two with one id", OpenAi, openai(&[&whole("0", "c1", PAY), &whole("1", "c1", ASK)]), "", &[PAY, ASK]),
        says("two of one kind with one id", OpenAi, openai(&[&whole("0", "c1", PAY), &whole("1", "c1", PAY)]), "", &[PAY, PAY]),
        says("two without ids or indexes", OpenAi, openai(&[&whole("", "", PAY), &whole("", "", ASK)]), "", &[PAY, ASK]),
        says("two interleaved, with a gap", OpenAi, openai(&[
            r#"{"tool_calls":[{"index":3,"id":"c1","function":{"name":"pay","arguments":""}},{"index":9,"id":"c2","function":{"name":"ask","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":9,"function":{"arguments":"{\"of\":"}},{"index":3,"function":{"arguments":"{\"to\":"}}]}"#,
            r#"{"tool_calls":[{"index":3,"function":{"arguments":"\"a\"}"}},{"index":9,"function":{"arguments":"\"b\"}"}}]}"#,
        ]), "", &[PAY, ASK]),
        says("arguments before the name", OpenAi, openai(&[
            r#"{"tool_calls":[{"index":0,"id":"c1","type":"function"}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"to\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"pay","arguments":"\"a\"}"}}]}"#,
        ]), "", &[PAY]),
        says("LM Studio: arguments as an object", OpenAi, openai(&[
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"pay","arguments":{"to":"a"}}}]}"#,
        ]), "", &[PAY]),
        says("one call that is no list", OpenAi, openai(&[
            r#"{"tool_calls":{"id":"c1","function":{"name":"pay","arguments":"{\"to\":\"a\"}"}}}"#,
        ]), "", &[PAY]),
        says("llama.cpp: text null, then the call", OpenAi, openai(&[
            r#"{"role":"assistant","content":null}"#, r#"{"content":"I pay."}"#, &whole("1", "c1", PAY),
        ]), "I pay.", &[PAY]),
        says("the role in every piece", OpenAi, openai(&[
            r#"{"role":"assistant","content":"I "}"#, r#"{"role":"assistant","content":"pay."}"#, &whole("0", "c1", PAY),
        ]), "I pay.", &[PAY]),
        says("DeepSeek: thoughts and a null usage", OpenAi, format!("data: {{\"usage\":null,\"choices\":[{{\"index\":0,\"delta\":{{\"reasoning_content\":\"hm\",\"content\":null}}}}]}}\n\n{}", under("0")), "", &[PAY]),
        says("Mistral: text in parts", OpenAi, openai(&[
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"I pay."}]}"#, &whole("", "c1", PAY),
        ]), "I pay.", &[PAY]),
        says("the reason to end before the end", OpenAi, chunks(&[
            r#"[{"index":0,"delta":{"content":"I pay."},"finish_reason":"stop"}]"#,
            &format!(r#"[{{"index":0,"delta":{}}}]"#, whole("0", "c1", PAY)),
        ]), "I pay.", &[PAY]),
        says("usage alone at the end", OpenAi, format!("{}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":1}}}}\n\ndata: [DONE]\n\n", under("0").replace("data: [DONE]\n\n", "")), "", &[PAY]),
        says("an error that is null", OpenAi, format!("data: {{\"error\":null,\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"I pay.\"}}}}]}}\n\n{}", under("0")), "I pay.", &[PAY]),
        says("two choices, the second first", OpenAi, chunks(&[&format!(
            r#"[{{"index":1,"delta":{}}},{{"index":0,"delta":{}}}]"#, whole("0", "x", ASK), whole("0", "c1", PAY)
        )]), "", &[PAY]),
        says("two choices, each in its own chunk", OpenAi, chunks(&[
            r#"[{"index":1,"delta":{"content":"other"}}]"#,
            &format!(r#"[{{"index":0,"delta":{}}}]"#, whole("0", "c1", PAY)),
            &format!(r#"[{{"index":1,"delta":{}}}]"#, whole("0", "x", ASK)),
        ]), "", &[PAY]),
        Oddity { name: "arguments of nothing", kind: OpenAi, stream: openai(&[
            &whole("0", "c1", ("pay", "")), r#"{"tool_calls":[{"index":1,"function":{"arguments":"{\"to\":\"a\"}"}}]}"#,
        ]), says: None },
        says("interleaved blocks", Anthropic, anthropic(&[
            ("content_block_start", START_PAY), ("content_block_start", START_ASK),
            ("content_block_delta", PAY_A), ("content_block_delta", ASK_A),
            ("content_block_delta", PAY_B), ("content_block_delta", ASK_B),
            ("content_block_stop", r#""index":0"#), ("content_block_stop", r#""index":1"#),
        ]), "", &[PAY, ASK]),
        says("text among blocks", Anthropic, anthropic(&[
            ("content_block_start", r#""index":5,"content_block":{"type":"text","text":""}"#),
            ("content_block_start", START_PAY), ("content_block_delta", PAY_A),
            ("content_block_delta", r#""index":5,"delta":{"type":"text_delta","text":"I pay."}"#),
            ("content_block_delta", PAY_B), ("content_block_stop", r#""index":0"#),
        ]), "I pay.", &[PAY]),
        says("blocks never stopped", Anthropic, anthropic(&[
            ("content_block_start", START_PAY), ("content_block_delta", PAY_A), ("content_block_delta", PAY_B),
            ("content_block_start", START_ASK), ("content_block_delta", ASK_A), ("content_block_delta", ASK_B),
        ]), "", &[PAY, ASK]),
        says("the whole input at the start", Anthropic, anthropic(&[
            ("content_block_start", r#""index":0,"content_block":{"type":"tool_use","id":"t1","name":"pay","input":{"to":"a"}}"#),
            ("content_block_stop", r#""index":0"#),
        ]), "", &[PAY]),
        says("a call at every frame", Gemini, gemini(&[
            r#"{"functionCall":{"name":"pay","args":{"to":"a"}}}"#, r#"{"functionCall":{"name":"ask","args":{"of":"b"}}}"#,
        ]), "", &[PAY, ASK]),
        says("two calls with one id", Gemini, gemini(&[
            r#"{"functionCall":{"id":"c","name":"pay","args":{"to":"a"}}},{"functionCall":{"id":"c","name":"ask","args":{"of":"b"}}}"#,
        ]), "", &[PAY, ASK]),
        says("two candidates, the second first", Gemini, format!(
            "data: {{\"candidates\":[{{\"index\":1,\"content\":{{\"parts\":[{{\"text\":\"other\"}}]}}}},{{\"index\":0,\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"pay\",\"args\":{{\"to\":\"a\"}}}}}}]}}}}]}}\n\n{}",
            gemini(&[])
        ), "", &[PAY]),
        says("usage alone in between", Gemini, format!("data: {{\"usageMetadata\":{{\"totalTokenCount\":1}}}}\n\n{}", gemini(&[
            r#"{"functionCall":{"name":"pay","args":{"to":"a"}}}"#,
        ])), "", &[PAY]),
    ]);
    all.extend(INDEXES.iter().filter(|index| !index.is_empty()).map(|index| {
        let at = |rest: &str| rest.replace("\"index\":0", &format!("\"index\":{index}"));
        let events = [at(START_PAY), at(PAY_A), at(PAY_B), at(r#""index":0"#)];
        let names = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"];
        let pairs: Vec<(&str, &str)> = names.into_iter().zip(events.iter().map(String::as_str)).collect();
        says(*index, Anthropic, anthropic(&pairs), "", &[PAY])
    }));
    all
}

/// The other providers that speak OpenAI's format.
pub(crate) const LIKE_OPENAI: [ProviderKind; 8] =
    [DeepSeek, Groq, Xai, Mistral, OpenRouter, Together, Fireworks, Moonshot];

/// The adapter and the table agree, and the naive reader has no objection.
#[tokio::test]
async fn l14_a_call_exists_once_however_the_stream_numbers_it() {
    let mut wrong = Vec::new();
    for kind in [OpenAi, Ollama, Anthropic, Gemini].into_iter().chain(LIKE_OPENAI) {
        let format = if LIKE_OPENAI.contains(&kind) { OpenAi } else { kind };
        let cases: Vec<Oddity> = oddities().into_iter().filter(|oddity| oddity.kind == format).collect();
        let streams: Vec<String> = cases.iter().map(|case| case.stream.clone()).collect();
        let player = Player::new(kind, move |number| Reply::Pieces(vec![streams[number].clone().into_bytes()]));
        for (number, case) in cases.iter().enumerate() {
            let expected = case.says.map(|(text, calls)| Reading {
                text: text.to_owned(),
                calls: calls.iter().map(|(name, arguments)| naive::call(name, arguments)).collect(),
            });
            let answer = player.play(number).await.ok();
            let got = answer.as_ref().map(naive::of);
            let doubt = laws::wrong(kind, &case.stream, answer.as_ref());
            if got != expected || doubt.is_some() {
                wrong.push(format!("{kind:?} {:?}:\n  wanted {expected:?}\n  got {got:?}\n  {doubt:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them are read otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

/// 256 calls are accepted; one more is an error without a retry.
#[tokio::test]
async fn l14_an_answer_has_at_most_256_calls() {
    for kind in [OpenAi, Anthropic, Gemini, DeepSeek, Mistral] {
        let stream = |calls: usize| match kind {
            Anthropic => {
                let start = |number: usize| START_PAY.replace("\"index\":0", &format!("\"index\":{number}"));
                let starts: Vec<String> = (0..calls).map(start).collect();
                anthropic(&starts.iter().map(|start| ("content_block_start", start.as_str())).collect::<Vec<_>>())
            }
            Gemini => gemini(&vec![r#"{"functionCall":{"name":"pay","args":{}}}"#; calls]),
            _speaks_openai => {
                let deltas: Vec<String> =
                    (0..calls).map(|number| whole(&number.to_string(), &format!("c{number}"), PAY)).collect();
                openai(&deltas.iter().map(String::as_str).collect::<Vec<_>>())
            }
        };
        let streams = [stream(256), stream(257)];
        let player = Player::new(kind, move |number| Reply::Pieces(vec![streams[number].clone().into_bytes()]));
        assert_eq!(player.play(0).await.map(|answer| answer.calls.len()), Ok(256), "{kind:?}");
        let error = player.play(1).await.expect_err("one too many");
        assert_eq!((error.kind, error.is_retryable()), (LlmErrorKind::TooLarge, false), "{kind:?}: {error}");
        assert!(error.message.contains("256"), "{error}");
    }
}

/// Counts that no sum of 32 bits can hold neither lose an answer nor count for less than they are.
#[tokio::test]
async fn counts_of_tokens_without_measure_lose_no_answer() {
    const MOST: u64 = i32::MAX as u64;
    let usage = format!(r#""usage":{{"input_tokens":{MOST},"cache_creation_input_tokens":{MOST}}}"#);
    let anthropic = anthropic(&[
        ("content_block_start", START_PAY),
        ("content_block_delta", PAY_A),
        ("content_block_delta", PAY_B),
        ("content_block_stop", r#""index":0"#),
    ]);
    let anthropic = anthropic.replace(r#""usage":{"input_tokens":1}"#, &usage);
    let usage = format!(r#"{{"promptTokenCount":{MOST},"toolUsePromptTokenCount":{MOST},"candidatesTokenCount":1}}"#);
    let gemini = gemini(&[r#"{"functionCall":{"name":"pay","args":{"to":"a"}}}"#]);
    let gemini = gemini.replace(r#"{"totalTokenCount":1}"#, &usage);
    for (kind, stream) in [(Anthropic, anthropic), (Gemini, gemini)] {
        assert!(stream.contains(&MOST.to_string()), "{stream}");
        let player = Player::new(kind, move |_| Reply::Pieces(vec![stream.clone().into_bytes()]));
        let answer = player.play(0).await.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let total = answer.usage.map(|usage| usage.total_tokens);
        assert_eq!((answer.calls.len(), total), (1, Some(2 * MOST + 1)), "{kind:?}");
    }
}
