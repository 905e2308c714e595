//! The end of a conversation that is continued, as it was on the screen.

use std::io::stdout;
use std::sync::Arc;

use bob::model::Message;
use bob::store::Session;

use super::PROMPT;
use crate::terminal::print;
use crate::terminal::screen::{self, look::Look};

/// How many lines are shown where the height of the terminal is not known, and at most.
const USUAL_LINES: usize = 20;
const MOST_LINES: usize = 60;

/// How many lines a message of a person has at most.
const MOST_OF_A_PERSON: usize = 6;

/// How many characters of a call's arguments are shown.
const MOST_ARGUMENTS: usize = 60;

/// Prints the last messages of a session that fit into about two thirds of the terminal.
pub(super) fn print(session: &Session) {
    let look = Look::now();
    let rows = rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_row));
    let room = if rows == 0 { USUAL_LINES } else { (rows * 2 / 3).clamp(4, MOST_LINES) };
    let history: Vec<&Arc<Message>> = session.history.iter().collect();
    let (text, left_out) = last(&history, room, look);
    if left_out > 0 {
        let earlier = print::counted(left_out, "earlier message");
        print::report(&look.note(&format!("[{earlier}; cli-agent sessions show {}]", session.id)));
    }
    print::report(&text);
}

/// The last messages that fit into this many lines, of the very last one the end, and how many are left out.
fn last(history: &[&Arc<Message>], room: usize, look: Look) -> (String, usize) {
    let mut blocks: Vec<String> = Vec::new();
    let mut left = room;
    let mut shown = 0;
    for message in history.iter().rev() {
        let block = block(message, look);
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

/// A message as lines; nothing of a result, whose call is shown.
fn block(message: &Message, look: Look) -> String {
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
        Message::Assistant { text, calls } => {
            let mut shown = match text.trim().is_empty() {
                true => String::new(),
                false => screen::rendered(text.trim_end(), look),
            };
            for call in calls {
                let arguments = print::first_line(&call.arguments.to_string(), MOST_ARGUMENTS);
                shown.push_str(&look.note(&format!("> {} {arguments}", call.name)));
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
    fn of_one_that_does_not_fit_the_end_is_shown() {
        let long: String = (0..50).map(|n| format!("- line {n}\n")).collect();
        let history = history(&[("one", &long)]);
        let history: Vec<_> = history.iter().collect();
        let (text, left_out) = last(&history, 5, PLAIN);
        assert!(text.starts_with("…\n") && text.contains("line 49") && !text.contains("line 10"), "{text}");
        assert_eq!((text.lines().count(), left_out), (6, 1));
    }
}
