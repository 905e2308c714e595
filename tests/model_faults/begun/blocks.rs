//! Calls in Anthropic's format: blocks that start, grow and stop. Its documentation numbers the blocks of a message from 0.

use super::{Call, Dice, Made};
use serde_json::json;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Numbers {
    Ascending,
    OneBased,
    Gaps,
    Negative,
    Huge,
    Words,
    Same,
    None,
}

const NUMBERS: [Numbers; 8] = [
    Numbers::Ascending,
    Numbers::OneBased,
    Numbers::Gaps,
    Numbers::Negative,
    Numbers::Huge,
    Numbers::Words,
    Numbers::Same,
    Numbers::None,
];

impl Numbers {
    /// Whether each block has a number of its own.
    fn are_own(self) -> bool {
        !matches!(self, Self::Same | Self::None)
    }

    fn index(self, dice: &mut Dice<'_>, block: usize) -> String {
        let number = match self {
            Self::Ascending => block as i64,
            Self::OneBased => block as i64 + 1,
            Self::Gaps => [3, 9, 400, 40_000][block],
            Self::Negative => -1 - block as i64,
            Self::Same => 0,
            Self::Huge => {
                return format!(
                    "\"index\":{},",
                    ["2147483648", "9223372036854775808", "1e300", "-9223372036854775808"][block]
                );
            }
            Self::Words => return format!("\"index\":\"{}\",", ["first", "second", "0x", "#"][block]),
            Self::None => return dice.any(&["", "\"index\":null,"]).to_owned(),
        };
        match dice.below(5) {
            3 => format!("\"index\":\"{number}\","),
            4 => format!("\"index\":{number}.0,"),
            _plain => format!("\"index\":{number},"),
        }
    }
}

pub(super) fn stream(dice: &mut Dice<'_>) -> Made {
    let numbers = dice.any(&NUMBERS);
    let has_own_ids = !dice.one_in(4);
    let is_mixed = numbers.are_own() && dice.one_in(2);
    let (mut text, mut calls, mut left) = (String::new(), Vec::new(), Vec::new());
    for number in 0..1 + dice.below(4) {
        // Each event of the block, the first one last, and its text.
        let mut events = match dice.below(4) {
            3 => words(dice, numbers, number),
            2 => thoughts(dice, numbers, number),
            _call => {
                let call = Call::any(dice, number);
                let id = if has_own_ids { format!("t{number}") } else { "t".to_owned() };
                let must_stop = call.arguments.is_empty() || !has_own_ids && !numbers.are_own();
                let (events, call) = one_call(dice, numbers, number, &id, call, must_stop);
                calls.push(call);
                events
            }
        };
        events.reverse();
        left.push(events);
    }
    let mut stream =
        event("message_start", "\"message\":{\"id\":\"m\",\"model\":\"m\",\"usage\":{\"input_tokens\":1}}");
    let mut begun = 0;
    loop {
        let open: Vec<usize> = (0..begun).filter(|block| !left[*block].is_empty()).collect();
        let may_begin = begun < left.len() && (open.is_empty() || is_mixed);
        let of = match open.is_empty() {
            _ if may_begin && (open.is_empty() || dice.one_in(2)) => {
                begun += 1;
                begun - 1
            }
            false => dice.any(&open),
            true => break,
        };
        if let Some((event, words)) = left[of].pop() {
            stream += dice.any(&["", "", "", "event: ping\ndata: {\"type\":\"ping\"}\n\n", ": alive\n\n"]);
            stream += &event;
            text += words;
        }
    }
    if text.trim().is_empty() && calls.is_empty() {
        text += "Yes.";
        let words = event("content_block_delta", "\"index\":77,\"delta\":{\"type\":\"text_delta\",\"text\":\"Yes.\"}");
        stream += &(event("content_block_start", "\"index\":77,\"content_block\":{\"type\":\"text\",\"text\":\"\"}")
            + &words);
    }
    stream += &event("message_delta", "\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":1}");
    stream += "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    if dice.one_in(4) {
        stream += &event(
            "content_block_start",
            "\"index\":9,\"content_block\":{\"type\":\"tool_use\",\"id\":\"z\",\"name\":\"steal\",\"input\":{}}",
        );
    }
    Made { stream, text, calls, is_told_apart: true }
}

type Events = Vec<(String, &'static str)>;

fn event(name: &str, rest: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\",{rest}}}\n\n")
}

fn words(dice: &mut Dice<'_>, numbers: Numbers, number: usize) -> Events {
    let mut events =
        vec![("content_block_start", "\"content_block\":{\"type\":\"text\",\"text\":\"\"}".to_owned(), "")];
    for _ in 0..dice.below(3) {
        let words = dice.any(&["I ", "pay. ", ""]);
        events.push((
            "content_block_delta",
            format!("\"delta\":{{\"type\":\"text_delta\",\"text\":\"{words}\"}}"),
            words,
        ));
    }
    if !dice.one_in(4) {
        events.push(("content_block_stop", "\"x\":1".to_owned(), ""));
    }
    numbered(dice, numbers, number, events)
}

fn thoughts(dice: &mut Dice<'_>, numbers: Numbers, number: usize) -> Events {
    let start = "\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}".to_owned();
    let events = vec![
        ("content_block_start", start, ""),
        ("content_block_delta", "\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}".to_owned(), ""),
        ("content_block_delta", "\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s\"}".to_owned(), ""),
        ("content_block_stop", "\"x\":1".to_owned(), ""),
    ];
    numbered(dice, numbers, number, events)
}

/// A call that never gets arguments has none, which are `{}`.
fn one_call(
    dice: &mut Dice<'_>,
    numbers: Numbers,
    number: usize,
    id: &str,
    call: Call,
    must_stop: bool,
) -> (Events, Call) {
    let is_whole_at_once = !call.arguments.is_empty() && dice.one_in(5);
    let input = if is_whole_at_once { call.arguments.as_str() } else { "{}" };
    let block = json!({"type": "tool_use", "id": id, "name": call.name}).to_string();
    let start = format!("\"content_block\":{},\"input\":{input}}}", &block[..block.len() - 1]);
    let mut events = vec![("content_block_start", start.clone(), "")];
    let is_named_by_its_id = id.len() > 1;
    if is_named_by_its_id && dice.one_in(6) {
        events.push(("content_block_start", start, ""));
    }
    if !is_whole_at_once {
        for piece in dice.pieces(&call.arguments, 4) {
            let piece = json!({"type": "input_json_delta", "partial_json": piece});
            events.push(("content_block_delta", format!("\"delta\":{piece}"), ""));
        }
    }
    if must_stop || !dice.one_in(4) {
        events.push(("content_block_stop", "\"x\":1".to_owned(), ""));
    }
    let arguments = if call.arguments.is_empty() { "{}".to_owned() } else { call.arguments };
    (numbered(dice, numbers, number, events), Call { arguments, ..call })
}

fn numbered(dice: &mut Dice<'_>, numbers: Numbers, number: usize, events: Vec<(&str, String, &'static str)>) -> Events {
    events.into_iter().map(|(name, rest, words)| (event(name, &(numbers.index(dice, number) + &rest)), words)).collect()
}
