//! What is read from frames: bounds, the cost of pieces, and that nothing a provider sends breaks the reader.

use super::*;
use serde_json::json;

fn openai(deltas: impl IntoIterator<Item = Value>) -> Wire {
    let mut wire = Wire::new(ProviderKind::OpenAi);
    for delta in deltas {
        wire.frame(None, &json!({"choices": [{"index": 0, "delta": delta}]}).to_string());
    }
    wire
}

fn arguments(piece: &str) -> Value {
    json!({"tool_calls": [{"index": 7, "id": "c", "function": {"name": "f", "arguments": piece}}]})
}

#[test]
fn l8_text_reasoning_and_arguments_are_bounded_together() {
    let third = "x".repeat(MOST_ANSWER_BYTES / 3);
    let thirds = || [json!({"content": third}), json!({"reasoning": third}), arguments(&third)];
    let wire = openai(thirds());
    assert_eq!(wire.fault, None);
    assert!(wire.weight() <= MOST_ANSWER_BYTES);
    for more in [
        json!({"content": "more."}),
        json!({"reasoning_content": "more."}),
        arguments("more."),
        json!({"refusal": "more."}),
    ] {
        assert_eq!(openai(thirds().into_iter().chain([more.clone()])).fault, Some(Fault::AnswerTooLarge), "{more}");
    }
}

#[test]
fn l8_what_comes_over_the_wire_is_bounded_by_itself() {
    let mut wire = Wire::new(ProviderKind::OpenAi);
    // 400 KB of text in 300 bytes a piece are more than 8 MiB of wire, and an answer.
    let frame =
        json!({"choices": [{"index": 0, "delta": {"content": "12345678"}}], "padding": "x".repeat(200)}).to_string();
    for _ in 0..50_000 {
        wire.frame(None, &frame);
    }
    assert_eq!((wire.said.text.len(), &wire.fault), (400_000, &None));
    let padding = json!({"padding": "x".repeat(1 << 20)}).to_string();
    let most = (0..).find(|_| {
        wire.frame(None, &padding);
        wire.fault.is_some()
    });
    assert_eq!(wire.fault, Some(Fault::WireTooLarge));
    assert!(most.is_some_and(|frames| frames < 64));
    let mut empty = Wire::new(ProviderKind::OpenAi);
    (0..100).for_each(|_| empty.frame(None, ""));
    assert_eq!(empty.load.wire, 100 * FRAME_BYTES, "frames without data are counted, too");
}

/// genai copies the arguments of an Anthropic call at every piece: an answer may cost so much of that and no more.
#[test]
fn l15_arguments_in_small_pieces_are_refused_before_they_cost_a_second() {
    for (piece, at_least) in [(1 << 10, 2 << 20), (30, 480 << 10)] {
        let mut wire = Wire::new(ProviderKind::Anthropic);
        let start = json!({"index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}});
        wire.frame(Some("content_block_start"), &start.to_string());
        let delta = json!({"index": 0, "delta": {"partial_json": "x".repeat(piece)}}).to_string();
        let mut copied = 0_u64;
        while wire.fault.is_none() {
            wire.frame(Some("content_block_delta"), &delta);
            copied += wire.load.open;
        }
        assert_eq!(wire.fault, Some(Fault::AnswerTooLarge));
        let taken = wire.load.said;
        assert!(taken > at_least && copied <= MOST_COPIED_BYTES + taken as u64, "{taken} bytes, {copied} copied");
    }
}

/// genai makes a tree of each frame of the formats that are not read without it.
#[test]
fn l15_an_answer_that_genai_reads_has_so_many_frames_and_no_more() {
    let of = |kind: ProviderKind| {
        let mut wire = Wire::new(kind);
        let delta = json!({"index": 0, "delta": {"text": "four"}});
        let part = json!({"candidates": [{"content": {"parts": [{"text": "four"}]}}]});
        let choice = json!({"choices": [{"index": 0, "delta": {"content": "four"}}]});
        let (event, data) = match kind {
            ProviderKind::Anthropic => (Some("content_block_delta"), delta),
            ProviderKind::Gemini => (None, part),
            _speaks_openai => (None, choice),
        };
        let data = data.to_string();
        for _ in 0..=MOST_FRAMES_OF_GENAI {
            wire.frame(event, &data);
        }
        (wire.said.text.len(), wire.fault)
    };
    let most = 4 * MOST_FRAMES_OF_GENAI;
    for kind in [ProviderKind::Anthropic, ProviderKind::Gemini] {
        assert_eq!(of(kind), (most, Some(Fault::AnswerTooLarge)), "{kind:?}");
    }
    assert_eq!(of(ProviderKind::Mistral), (most + 4, None));
}

#[test]
fn l14_an_index_of_any_kind_costs_nothing() {
    for index in [json!(u64::MAX), json!(i64::MIN), json!(1e300), json!("9".repeat(1_000_000)), json!([0]), json!({})] {
        let mut wire =
            openai((0..50).map(|_| json!({"tool_calls": [{"index": index, "id": "c", "function": {"name": "f"}}]})));
        wire.frame(None, "[DONE]");
        assert_eq!((&wire.fault, wire.said.calls.into_inner().len()), (&None, 1));
    }
}

#[test]
fn signatures_stand_with_their_thoughts_and_their_calls() {
    let mut wire = Wire::new(ProviderKind::Anthropic);
    let mut event = |name: &str, data: Value| wire.frame(Some(name), &data.to_string());
    event(
        "content_block_start",
        json!({"index": 0, "content_block": {"type": "thinking", "thinking": "a", "signature": "s"}}),
    );
    event(
        "content_block_start",
        json!({"index": 1, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
    );
    event("content_block_delta", json!({"index": 0, "delta": {"type": "signature_delta", "signature": "1"}}));
    event("content_block_delta", json!({"index": 1, "delta": {"type": "thinking_delta", "thinking": "unsigned"}}));
    event("content_block_delta", json!({"index": 0, "delta": {"type": "thinking_delta", "thinking": "b"}}));
    event("content_block_stop", json!({"index": 0}));
    event("content_block_stop", json!({"index": 1}));
    event("message_stop", json!({}));
    assert_eq!((wire.said.signatures, wire.said.reasoning.as_str()), (vec!["s1\nab".to_owned()], "aunsignedb"));
}

/// The usage after these frames.
fn usage(kind: ProviderKind, frames: &[(Option<&str>, Value)]) -> Option<(u64, u64, u64, [Option<u64>; 3])> {
    let mut wire = Wire::new(kind);
    frames.iter().for_each(|(event, data)| wire.frame(*event, &data.to_string()));
    assert_eq!(wire.fault, None);
    wire.usage.map(|usage| {
        let beside = [usage.cached_input_tokens, usage.cache_write_tokens, usage.reasoning_tokens];
        (usage.input_tokens, usage.output_tokens, usage.total_tokens, beside)
    })
}

#[test]
fn the_usage_of_every_format_is_read_from_the_wire() {
    const MOST: u64 = i32::MAX as u64;
    let anthropic = |first: Value, last: Value| {
        let frames = [
            (Some("message_start"), json!({"message": {"usage": first}})),
            (Some("message_delta"), json!({"delta": {}, "usage": last})),
        ];
        usage(ProviderKind::Anthropic, &frames)
    };
    let first =
        json!({"input_tokens": 3, "output_tokens": 1, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 7});
    // What the end does not say again stays as it was at the beginning.
    for last in [json!({"output_tokens": 20}), json!({"input_tokens": 3, "output_tokens": 20})] {
        assert_eq!(anthropic(first.clone(), last), Some((15, 20, 35, [Some(7), Some(5), None])));
    }
    let most = json!({"input_tokens": MOST, "cache_creation_input_tokens": MOST, "cache_read_input_tokens": MOST});
    let sum = 3 * MOST;
    assert_eq!(
        anthropic(most, json!({"output_tokens": MOST})),
        Some((sum, MOST, sum + MOST, [Some(MOST), Some(MOST), None]))
    );
    for nothing in [
        json!(null),
        json!({}),
        json!({"input_tokens": -1}),
        json!({"input_tokens": MOST + 1}),
        json!([1]),
        json!({"input_tokens": "9"}),
    ] {
        assert_eq!(anthropic(nothing.clone(), nothing.clone()), None, "{nothing}");
    }
    let gemini = |said: Value| usage(ProviderKind::Gemini, &[(None, json!({"usageMetadata": said}))]);
    let said = json!({"promptTokenCount": 10, "toolUsePromptTokenCount": 2, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 6, "totalTokenCount": 23});
    assert_eq!(gemini(said), Some((12, 11, 23, [Some(4), None, Some(6)])));
    let most = json!({"promptTokenCount": MOST, "toolUsePromptTokenCount": MOST, "candidatesTokenCount": MOST, "thoughtsTokenCount": MOST});
    assert_eq!(gemini(most), Some((2 * MOST, 2 * MOST, 4 * MOST, [None, None, Some(MOST)])));
    assert_eq!(gemini(json!({"promptTokenCount": {}})), None);
    let openai =
        json!({"prompt_tokens": 1, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 4}});
    let reported = [(None, json!({"usage": null, "x_groq": {"usage": openai}})), (None, json!({"usage": null}))];
    assert_eq!(usage(ProviderKind::Groq, &reported), Some((1, 2, 3, [None, None, Some(4)])));
    assert_eq!(usage(ProviderKind::Xai, &[(None, json!({"usage": openai}))]), Some((1, 6, 7, [None, None, Some(4)])));
}

/// The frames of a kept stream, which stands behind the name of its format and a line end.
fn kept(input: &str) -> Option<(Wire, usize)> {
    let (name, stream) = input.split_once('\n')?;
    let kind = match name {
        "openai" => ProviderKind::OpenAi,
        "anthropic" => ProviderKind::Anthropic,
        "gemini" => ProviderKind::Gemini,
        "ollama" => ProviderKind::Ollama,
        _no_format => return None,
    };
    let (mut wire, mut begun) = (Wire::new(kind), 0);
    for frame in stream.split("\n\n").filter(|frame| !frame.is_empty()) {
        let line = |field: &str| frame.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
        wire.frame(line("event:"), line("data:").unwrap_or_default());
        begun += frame.matches("name").count();
    }
    Some((wire, begun))
}

/// Frames of every format out of any bytes: some as they are, the others of the words such frames are made of.
fn frames(input: &[u8]) -> (Wire, usize) {
    const KINDS: [ProviderKind; 4] =
        [ProviderKind::OpenAi, ProviderKind::Anthropic, ProviderKind::Gemini, ProviderKind::Ollama];
    const EVENTS: [&str; 6] =
        ["content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "error"];
    let (kind, input) = input.split_first().map_or((0, input), |(kind, rest)| (*kind, rest));
    let mut wire = Wire::new(KINDS[usize::from(kind) % KINDS.len()]);
    let mut count = 0;
    for piece in input.chunks(8) {
        let at = |number: usize| usize::from(piece.get(number).copied().unwrap_or(0));
        let value = |number: usize| {
            let values = [
                Value::Null,
                json!(0),
                json!(1),
                json!(-1),
                json!(1 << 31),
                json!(0.5),
                json!("0"),
                json!(""),
                json!("c1"),
                json!("{\"a\":1}"),
                json!({"a": 1}),
                json!([]),
                json!({}),
                json!(true),
                json!("tool_use"),
                json!("thinking"),
            ];
            values[at(number) % values.len()].clone()
        };
        let function = json!({"name": value(3), "arguments": value(4), "args": value(4)});
        let call = json!({"index": value(1), "id": value(2), "function": function});
        let part =
            json!({"text": value(5), "thought": value(6), "thoughtSignature": value(2), "functionCall": function});
        let delta = json!({
            "content": value(5), "reasoning": value(6), "tool_calls": [call, value(7)], "text": value(5),
            "thinking": value(6), "signature": value(2), "partial_json": value(4), "stop_reason": value(7),
        });
        let block =
            json!({"type": value(7), "id": value(2), "name": value(3), "input": value(4), "signature": value(5)});
        let frame = match at(0) % 4 {
            0 => String::from_utf8_lossy(piece).into_owned(),
            1 => "[DONE]".to_owned(),
            _built => json!({
                "index": value(1), "choices": [{"index": value(6), "delta": delta}], "delta": delta, "content_block": block,
                "candidates": [{"index": value(6), "content": {"parts": [part, value(7)]}, "finishReason": value(5)}],
            }).to_string(),
        };
        let event = EVENTS.get(at(0) / 4 % (EVENTS.len() + 1)).copied();
        wire.frame(event, &frame);
        count += 2;
    }
    (wire, count)
}

#[test]
fn fuzz_frames_of_a_provider() {
    bolero::check!(name = "frames").with_iterations(500).with_max_len(200).for_each(|input: &[u8]| {
        let (wire, begun) = kept(&String::from_utf8_lossy(input)).unwrap_or_else(|| frames(input));
        let held = wire.said.text.len() + wire.said.reasoning.len() + wire.said.refusal.len();
        assert!(wire.weight() <= MOST_ANSWER_BYTES && held <= wire.weight());
        assert!(wire.said.calls.into_inner().len() <= begun, "more calls than could begin");
    });
}
