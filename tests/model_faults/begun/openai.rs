//! Calls in OpenAI's format. Its documentation numbers the calls of a message from 0, gives id and name with the first
//! piece, and the number with all of them. Servers leave out, repeat or change each of these.

use super::{Call, Dice, Made};
use serde_json::json;

/// How the calls of a message are numbered.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Numbers {
    Ascending,
    OneBased,
    Descending,
    Gaps,
    Negative,
    Huge,
    Words,
    /// All of them 0.
    Same,
    /// Absent, or a value that is no number and no word.
    None(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ids {
    Own,
    Shared,
    None,
}

/// What a piece that continues a call has where its first one has an id or a name.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Further {
    Absent,
    Empty,
    Null,
    Repeated,
    /// An id that no other piece has.
    Fresh,
}

const NUMBERS: [Numbers; 12] = [
    Numbers::Ascending,
    Numbers::OneBased,
    Numbers::Descending,
    Numbers::Gaps,
    Numbers::Negative,
    Numbers::Huge,
    Numbers::Words,
    Numbers::Same,
    Numbers::None(""),
    Numbers::None(""),
    Numbers::None("null"),
    Numbers::None("[]"),
];
const FURTHER: [Further; 5] = [Further::Absent, Further::Empty, Further::Null, Further::Repeated, Further::Fresh];

/// How a message is written down.
struct Manner {
    numbers: Numbers,
    ids: Ids,
    further_id: Further,
    further_name: Further,
    /// The name comes with the second piece.
    is_name_late: bool,
    /// Pieces of one call may stand among those of another.
    is_mixed: bool,
}

impl Manner {
    fn any(dice: &mut Dice<'_>) -> Self {
        let (numbers, ids) = (dice.any(&NUMBERS), dice.any(&[Ids::Own, Ids::Shared, Ids::None]));
        let further_id = if ids == Ids::None { Further::Absent } else { dice.any(&FURTHER) };
        let is_name_late =
            Self::are_numbers(numbers) && ids == Ids::Own && further_id != Further::Fresh && dice.one_in(6);
        // A piece with an id and a name of its own is a call of its own wherever it stands.
        let most = if further_id == Further::Fresh { 3 } else { 4 };
        let further_name = if is_name_late { Further::Absent } else { dice.any(&FURTHER[..most]) };
        Self { numbers, ids, further_id, further_name, is_name_late, is_mixed: dice.one_in(2) }
    }

    /// Whether each call has a number of its own.
    fn are_numbers(numbers: Numbers) -> bool {
        !matches!(numbers, Numbers::Same | Numbers::None(_))
    }

    /// Whether each piece says by itself to which call it belongs.
    fn is_each_piece_named(&self) -> bool {
        Self::are_numbers(self.numbers) || self.ids == Ids::Own && self.further_id == Further::Repeated
    }

    /// Whether a call can be told from the one before it, which is over: by its number, its id, its name, or since they
    /// stand in one frame. With nothing but the name again, only the end of the arguments before tells.
    fn is_beginning_told(&self, before: &Call, call: &Call, are_in_one_frame: bool) -> bool {
        let has_nothing = matches!(self.numbers, Numbers::None(_)) && self.ids == Ids::None;
        Self::are_numbers(self.numbers)
            || self.ids == Ids::Own
            || before.name != call.name
            || has_nothing && (are_in_one_frame || !before.arguments.is_empty())
    }

    /// The field `index` of a piece of this call, of so many.
    fn index(&self, dice: &mut Dice<'_>, call: usize, all: usize) -> String {
        let number = match self.numbers {
            Numbers::Ascending => call as i64,
            Numbers::OneBased => call as i64 + 1,
            Numbers::Descending => (all - call) as i64 - 1,
            Numbers::Gaps => [3, 9, 400, 40_000][call],
            Numbers::Negative => -1 - call as i64,
            Numbers::Same => 0,
            Numbers::Huge => {
                return format!(
                    "\"index\":{},",
                    ["2147483648", "9223372036854775808", "1e300", "-9223372036854775808"][call]
                );
            }
            Numbers::Words => return format!("\"index\":\"{}\",", ["first", "second", "0x", "#"][call]),
            Numbers::None("") => return String::new(),
            Numbers::None(value) => return format!("\"index\":{value},"),
        };
        // However a number is spelled, it is the same.
        match dice.below(6) {
            3 => format!("\"index\":\"{number}\","),
            4 => format!("\"index\":{number}.0,"),
            5 => format!("\"index\":\" {number}.0 \","),
            _plain => format!("\"index\":{number},"),
        }
    }
}

/// One piece: whose it is, and its JSON.
struct Piece {
    call: usize,
    json: String,
}

pub(super) fn stream(dice: &mut Dice<'_>) -> Made {
    let manner = Manner::any(dice);
    let calls: Vec<Call> = (0..1 + dice.below(4)).map(|number| Call::any(dice, number)).collect();
    let pieces = pieces(dice, &manner, &calls);
    let (mut text, mut frames, mut rest) = (String::new(), Vec::new(), pieces.as_slice());
    let mut is_told_apart = true;
    let choice = Choice::any(dice);
    while let Some(first) = rest.first() {
        // Some pieces in one frame, each of another call.
        let most = 1 + dice.below(3);
        let mut many = 1;
        while many < most.min(rest.len()) && rest[..many].iter().all(|piece| piece.call != rest[many].call) {
            many += 1;
        }
        let (frame, further) = rest.split_at(many);
        for (at, piece) in frame.iter().enumerate() {
            let is_first = !pieces[..pieces.len() - rest.len() + at].iter().any(|before| before.call == piece.call);
            if piece.call > 0 && is_first {
                let are_in_one_frame = at > 0;
                is_told_apart &= manner.is_beginning_told(&calls[piece.call - 1], &calls[piece.call], are_in_one_frame);
            }
        }
        let list: Vec<&str> = frame.iter().map(|piece| piece.json.as_str()).collect();
        let list = if many == 1 && dice.one_in(6) { first.json.clone() } else { format!("[{}]", list.join(",")) };
        let words = dice.any(&["", "", "I ", "pay. "]);
        text += words;
        let content = if words.is_empty() {
            dice.any(&["", "\"content\":null,", "\"content\":\"\","]).to_owned()
        } else {
            format!("\"content\":\"{words}\",")
        };
        noise(dice, &mut frames);
        choice.frame(dice, &mut frames, &format!("{{{content}\"tool_calls\":{list}}}"));
        rest = further;
    }
    let mut stream = frames.concat();
    stream += "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
    if dice.one_in(4) {
        stream += "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":9,\"id\":\"z\",\"function\":{\"name\":\"steal\",\"arguments\":\"{}\"}}]}}]}\n\n";
    }
    Made { stream, text, calls, is_told_apart }
}

/// All pieces in the order they are sent: call after call, or mixed. Calls begin in their order.
fn pieces(dice: &mut Dice<'_>, manner: &Manner, calls: &[Call]) -> Vec<Piece> {
    let is_mixed = manner.is_mixed && manner.is_each_piece_named();
    let is_quoted = Manner::are_numbers(manner.numbers) && dice.one_in(8);
    let mut left: Vec<Vec<Piece>> = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        let text = if is_quoted { json!(call.arguments).to_string() } else { call.arguments.clone() };
        let mut cut = dice.pieces(&text, 4);
        // The name again behind the end of the arguments would be another call.
        while !call.arguments.is_empty() && cut.last().is_some_and(String::is_empty) {
            cut.pop();
        }
        if manner.is_name_late && cut.len() == 1 {
            cut.insert(0, String::new());
        }
        let is_whole = cut.len() == 1 && !is_quoted && !text.is_empty();
        let mut own: Vec<Piece> = cut
            .iter()
            .enumerate()
            .map(|(at, arguments)| {
                let arguments = match arguments.as_str() {
                    object if is_whole && dice.one_in(4) => object.to_owned(),
                    "" if dice.one_in(3) => "null".to_owned(),
                    text => json!(text).to_string(),
                };
                Piece { call: number, json: piece(dice, manner, (number, calls), at, &arguments) }
            })
            .collect();
        own.reverse();
        left.push(own);
    }
    let (mut sent, mut begun) = (Vec::new(), 0);
    loop {
        let open: Vec<usize> = (0..begun).filter(|call| !left[*call].is_empty()).collect();
        let may_begin = begun < left.len() && (open.is_empty() || is_mixed);
        if may_begin && (open.is_empty() || dice.one_in(2)) {
            begun += 1;
            sent.extend(left[begun - 1].pop());
        } else if let Some(call) = (!open.is_empty()).then(|| dice.any(&open)) {
            sent.extend(left[call].pop());
        } else {
            return sent;
        }
    }
}

/// The `at`th piece of a call.
fn piece(
    dice: &mut Dice<'_>,
    manner: &Manner,
    (number, calls): (usize, &[Call]),
    at: usize,
    arguments: &str,
) -> String {
    let id = match manner.ids {
        Ids::Own => format!("c{number}"),
        Ids::Shared => "c".to_owned(),
        Ids::None => String::new(),
    };
    let said = |field: &str, value: &str, further: Further| match further {
        Further::Absent => String::new(),
        Further::Empty => format!("\"{field}\":\"\","),
        Further::Null => format!("\"{field}\":null,"),
        Further::Repeated if value.is_empty() => String::new(),
        Further::Repeated => format!("\"{field}\":\"{value}\","),
        Further::Fresh => format!("\"{field}\":\"x{number}-{at}\","),
    };
    let named_at = usize::from(manner.is_name_late);
    let further_id = if at == 0 { Further::Repeated } else { manner.further_id };
    let further_name = if at == named_at { Further::Repeated } else { manner.further_name };
    let index = manner.index(dice, number, calls.len());
    let (id, name) = (said("id", &id, further_id), said("name", calls[number].name, further_name));
    format!("{{{index}{id}\"type\":\"function\",\"function\":{{{name}\"arguments\":{arguments}}}}}")
}

/// Frames that say nothing.
fn noise(dice: &mut Dice<'_>, frames: &mut Vec<String>) {
    let noise = dice.any(&[
        "",
        "",
        "",
        ": PROCESSING\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: {\"error\":null,\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    ]);
    frames.push(noise.to_owned());
}

/// Which choice is the answer, and another one beside it, if there is one.
struct Choice {
    own: &'static str,
    other: Option<&'static str>,
}

impl Choice {
    fn any(dice: &mut Dice<'_>) -> Self {
        let own = dice.any(&["\"index\":0,", "", "\"index\":\"0\",", "\"index\":null,"]);
        let other = dice.any(&["", "", "", "1", "7", "\"2\"", "-1", "2147483648", "1e300"]);
        Self { own, other: (!other.is_empty()).then_some(other) }
    }

    /// A frame with this delta, or two: the other choice stands before it or behind it.
    fn frame(&self, dice: &mut Dice<'_>, frames: &mut Vec<String>, delta: &str) {
        let event = |choices: &[&str]| format!("data: {{\"choices\":[{}]}}\n\n", choices.join(","));
        let own = format!("{{{}\"delta\":{delta}}}", self.own);
        let Some(index) = self.other else { return frames.push(event(&[&own])) };
        let stolen = "{\"content\":\"other\",\"tool_calls\":[{\"index\":0,\"id\":\"c0\",\"function\":{\"name\":\"steal\",\"arguments\":\"{}\"}}]}";
        let other = format!("{{\"index\":{index},\"delta\":{stolen}}}");
        match dice.below(5) {
            0 => frames.push(event(&[&own])),
            1 => frames.push(event(&[&own, &other])),
            2 => frames.push(event(&[&other, &own])),
            3 => frames.extend([event(&[&other]), event(&[&own])]),
            _behind => frames.extend([event(&[&own]), event(&[&other])]),
        }
    }
}
