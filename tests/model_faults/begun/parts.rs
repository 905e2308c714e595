//! Calls in Gemini's format: each comes whole, as a part of a candidate.

use super::{Call, Dice, Made};
use serde_json::json;

pub(super) fn stream(dice: &mut Dice<'_>) -> Made {
    let (mut text, mut calls, mut parts) = (String::new(), Vec::new(), Vec::new());
    for number in 0..1 + dice.below(5) {
        parts.push(match dice.below(5) {
            3 => {
                let words = dice.any(&["I ", "pay. ", ""]);
                text += words;
                json!({ "text": words }).to_string()
            }
            4 => json!({ "text": "hm", "thought": true, "thoughtSignature": "s" }).to_string(),
            _call => {
                let call = Call::any(dice, number);
                let id = dice.any(&["", "\"id\":\"c\",", "\"id\":null,"]);
                let arguments = match call.arguments.as_str() {
                    "" => dice.any(&["", ",\"args\":null"]).to_owned(),
                    object => format!(",\"args\":{object}"),
                };
                let part = format!("{{\"functionCall\":{{{id}\"name\":\"{}\"{arguments}}}}}", call.name);
                calls.push(call);
                part
            }
        });
    }
    // The end is always a candidate without a part: an answer needs something to end.
    if text.trim().is_empty() && calls.is_empty() {
        text += "Yes.";
        parts.push(json!({ "text": "Yes." }).to_string());
    }
    let own = dice.any(&["", "\"index\":0,", "\"index\":\"0\",", "\"index\":0.0,"]);
    let other = dice.any(&["", "", "1", "7", "-1", "2147483648", "1e300"]);
    let mut stream = String::new();
    let mut rest = parts.as_slice();
    while !rest.is_empty() {
        let (some, further) = rest.split_at((1 + dice.below(3)).min(rest.len()));
        let is_end = further.is_empty() && dice.one_in(2);
        let end = if is_end { ",\"finishReason\":\"STOP\"" } else { "" };
        let candidate = format!("{{{own}\"content\":{{\"parts\":[{}]}}{end}}}", some.join(","));
        let stolen = format!(
            "{{\"index\":{other},\"content\":{{\"parts\":[{{\"text\":\"other\"}},{{\"functionCall\":{{\"name\":\"steal\",\"args\":{{}}}}}}]}}}}"
        );
        let frame = |candidates: &[&str]| format!("data: {{\"candidates\":[{}]}}\n\n", candidates.join(","));
        stream += dice.any(&["", "", "data: {\"usageMetadata\":{\"totalTokenCount\":1}}\n\n", ": alive\n\n"]);
        stream += &match dice.below(4) {
            _ if other.is_empty() => frame(&[&candidate]),
            0 => frame(&[&candidate, &stolen]),
            1 => frame(&[&stolen, &candidate]),
            2 => frame(&[&stolen]) + &frame(&[&candidate]),
            _alone => frame(&[&candidate]),
        };
        if further.is_empty() && !is_end {
            stream += &format!("data: {{\"candidates\":[{{{own}\"finishReason\":\"STOP\"}}]}}\n\n");
        }
        rest = further;
    }
    if dice.one_in(4) {
        stream += "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"steal\",\"args\":{}}}]}}]}\n\n";
    }
    Made { stream, text, calls, is_told_apart: true }
}
