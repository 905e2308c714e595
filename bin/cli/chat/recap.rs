//! The end of a conversation that is continued, as it was on the screen.

use std::collections::HashMap;
use std::io::stdout;
use std::sync::Arc;

use bob::model::{Message, ToolResult};
use bob::store::Session;
use bob::tools::{CallId, CallStatus};

use super::PROMPT;
use crate::terminal::screen::{self, look::Look};
use crate::terminal::show::NOTHING_YET;
use crate::terminal::{brief, print};

/// How many lines are shown where the height of the terminal is not known, and at most.
const USUAL_LINES: usize = 20;
const MOST_LINES: usize = 60;

/// How many lines a message of a person has at most.
const MOST_OF_A_PERSON: usize = 6;

/// How many characters of a call's arguments are shown.
const MOST_ARGUMENTS: usize = 60;

/// Prints the last messages of a session that fit into about two thirds of the terminal. One that is not whole has earlier
/// messages than its history.
pub(super) fn print(session: &Session, is_whole: bool) {
    let look = Look::now();
    let rows = rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_row));
    let room = if rows == 0 { USUAL_LINES } else { (rows * 2 / 3).clamp(4, MOST_LINES) };
    let history: Vec<&Arc<Message>> = session.history.iter().collect();
    let (text, left_out) = last(&history, room, look);
    if left_out > 0 || !is_whole {
        let earlier =
            if is_whole { print::counted(left_out, "earlier message") } else { "earlier messages".to_owned() };
        print::report(&look.note(&format!("[{earlier}; cli-agent sessions show {}]", session.id)));
    }
    print::report(&text);
}

/// The last messages that fit into this many lines, of the very last one the end, and how many are left out.
fn last(history: &[&Arc<Message>], room: usize, look: Look) -> (String, usize) {
    let returned = |message: &&Arc<Message>| match &***message {
        Message::Tool { result } => Some((result.call.clone(), Arc::clone(result))),
        Message::User { .. } | Message::Assistant { .. } => None,
    };
    let results: HashMap<CallId, Arc<ToolResult>> = history.iter().filter_map(returned).collect();
    let mut blocks: Vec<String> = Vec::new();
    let mut left = room;
    let mut shown = 0;
    for message in history.iter().rev() {
        let block = block(message, &results, look);
        let lines = block.lines().count();
        if lines > left {
            if blocks.is_empty() {
                let end: Vec<&str> = block.lines().skip(lines - left).collect();
                blocks.push(format!("…\n{}\n", end.join("\n")));
                shown += 1;
            }
            break;
        }
        left -= lines;
        shown += 1;
        blocks.push(block);
    }
    blocks.reverse();
    (blocks.concat(), history.len() - shown)
}

/// A message as lines; of a result only how it ended, behind its call.
fn block(message: &Message, results: &HashMap<CallId, Arc<ToolResult>>, look: Look) -> String {
    match message {
        Message::User { parts } => {
            let text: Vec<String> = parts.iter().map(|part| part.as_text()).collect();
            let text = text.join("\n");
            let mut lines: Vec<&str> = text.lines().take(MOST_OF_A_PERSON).collect();
            if text.lines().count() > lines.len() {
                lines.push("…");
            }
            look.note(&format!("{PROMPT}{}", lines.join("\n")))
        }
        Message::Assistant { text, .. } if text == NOTHING_YET => look.note("[cancelled]"),
        Message::Assistant { text, calls } => {
            let mut shown = match text.trim().is_empty() {
                true => String::new(),
                false => screen::rendered(text.trim_end(), look),
            };
            for call in calls {
                let arguments = print::first_line(&call.arguments.to_string(), MOST_ARGUMENTS);
                let line = format!("{} {arguments}", call.name);
                let result = results.get(&call.id);
                let (status, ended) = result.map_or((CallStatus::Unknown, "not finished".to_owned()), |result| {
                    (result.status, brief::ended(result))
                });
                shown.push_str(&look.call(Some(&line), status, &ended));
            }
            shown
        }
        Message::Tool { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::model::ContentPart;
    use bob::tools::{ToolCall, ToolName, ToolOutput};
    use serde_json::json;

    const PLAIN: Look = Look { columns: 40, colour: false };

    fn history(messages: &[(&str, &str)]) -> Vec<Arc<Message>> {
        let both = |(said, answered): &(&str, &str)| {
            let user = Message::User { parts: vec![ContentPart::text(*said)] };
            let model = Message::Assistant { text: (*answered).to_owned(), calls: Vec::new() };
            [Arc::new(user), Arc::new(model)]
        };
        messages.iter().flat_map(both).collect()
    }

    #[test]
    fn a_turn_that_was_cancelled_before_an_answer_is_shown_as_it_was() {
        let history = history(&[("one", NOTHING_YET), ("two", "second")]);
        let (text, _) = last(&history.iter().collect::<Vec<_>>(), 20, PLAIN);
        assert!(text.contains("you> one") && text.contains("[cancelled]\n") && !text.contains(NOTHING_YET), "{text}");
    }

    #[test]
    fn the_last_messages_that_fit_are_shown_and_the_others_counted() {
        let history = history(&[("one", "first"), ("two", "second"), ("three", "third")]);
        let history: Vec<_> = history.iter().collect();
        let (text, left_out) = last(&history, 100, PLAIN);
        assert!(text.contains("you> one\n") && text.trim_end().ends_with("third"), "{text}");
        assert_eq!(left_out, 0);
        let (text, left_out) = last(&history, 4, PLAIN);
        assert!(!text.contains("one") && text.contains("you> three\n") && left_out >= 2, "{text}");
    }

    #[test]
    fn calls_that_did_not_run_are_told_from_those_that_did() {
        let called = [
            ("c1", CallStatus::Ok, "ok"),
            ("c2", CallStatus::Denied, "denied"),
            ("c3", CallStatus::Cancelled, "cancelled"),
            ("c4", CallStatus::Error, "error"),
            ("c5", CallStatus::Unknown, "interrupted"),
        ];
        let name = ToolName::new("local/a");
        let call = |id: &str| ToolCall {
            id: CallId::new(id),
            name: name.clone(),
            arguments: json!({}).into(),
            argument_bytes: 2,
            signatures: Vec::new(),
        };
        let calls = called.iter().map(|(id, ..)| Arc::new(call(id))).collect();
        let mut history = vec![Arc::new(Message::Assistant { text: String::new(), calls })];
        history.extend(called.iter().map(|(id, status, _)| {
            let (call, name, output) = (CallId::new(*id), name.clone(), ToolOutput::text("said"));
            let result = ToolResult { call, name, status: *status, output, duration_ms: 1 };
            Arc::new(Message::Tool { result: Arc::new(result) })
        }));
        let history: Vec<_> = history.iter().collect();
        let (text, _) = last(&history, 100, PLAIN);
        let shown: Vec<&str> = text.lines().collect();
        let expected: Vec<String> = called.iter().map(|(_, _, word)| format!("> local/a {{}}  {word}")).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn of_one_that_does_not_fit_the_end_is_shown() {
        let long: String = (0..50).map(|n| format!("- line {n}\n")).collect();
        let history = history(&[("one", &long)]);
        let history: Vec<_> = history.iter().collect();
        let (text, left_out) = last(&history, 5, PLAIN);
        assert!(text.starts_with("…\n") && text.contains("line 49") && !text.contains("line 10"), "{text}");
        assert_eq!((text.lines().count(), left_out), (6, 1));
    }
}
