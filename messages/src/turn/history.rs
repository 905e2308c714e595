//! Which messages of the history still fit into a prompt.
//!
//! The oldest go first; a call is never separated from its result; the message
//! the turn is about stays. Nothing is ever rewritten here.

use crate::chat::Message;
use std::sync::Arc;

/// The part of a history that fits: the pinned message if it lies before `start`, then everything from `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) start: usize,
    pub(super) pinned: Option<usize>,
}

impl Fit {
    pub(super) fn messages<'a>(&self, history: &'a [Arc<Message>]) -> impl Iterator<Item = &'a Arc<Message>> {
        let pinned = self.pinned.and_then(|at| history.get(at));
        pinned.into_iter().chain(&history[self.start..])
    }

    pub(super) fn is_everything(&self) -> bool {
        self.start == 0
    }

    pub(super) fn dropped(&self) -> usize {
        self.start - usize::from(self.pinned.is_some())
    }
}

/// Chooses what fits into `max_messages` and `max_bytes` of a history that has `whole` bytes. The newest exchange and
/// the message at `pinned` are always there, even if they alone are too much.
pub(super) fn fit(history: &[Arc<Message>], pinned: usize, max_messages: usize, max_bytes: usize, whole: usize) -> Fit {
    if history.len() <= max_messages && whole <= max_bytes && pinned < history.len() {
        return Fit { start: first_user(history, 0, pinned), pinned: None };
    }
    let pinned_bytes = history.get(pinned).map_or(0, |message| message.bytes());
    let (mut start, mut messages, mut bytes) = (history.len(), 0, 0);
    let (mut unit_messages, mut unit_bytes) = (0, 0);
    for (at, message) in history.iter().enumerate().rev() {
        unit_messages += 1;
        unit_bytes += message.bytes();
        if matches!(**message, Message::Tool { .. }) {
            continue;
        }
        let (room, reserved) = if at > pinned { (1, pinned_bytes) } else { (0, 0) };
        let fits = messages + unit_messages + room <= max_messages && bytes + unit_bytes + reserved <= max_bytes;
        if !fits && start < history.len() {
            break;
        }
        (start, messages, bytes) = (at, messages + unit_messages, bytes + unit_bytes);
        (unit_messages, unit_bytes) = (0, 0);
    }
    if start > pinned {
        return Fit { start, pinned: (pinned < history.len()).then_some(pinned) };
    }
    Fit { start: first_user(history, start, pinned), pinned: None }
}

/// Providers want a conversation to begin with its user.
fn first_user(history: &[Arc<Message>], mut start: usize, pinned: usize) -> usize {
    while start < pinned && !matches!(*history[start], Message::User { .. }) {
        start += 1;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{CallStatus, ToolCall, ToolResult};
    use crate::ids::{CallId, ToolName};
    use proptest::prelude::*;

    fn call(n: usize) -> Arc<ToolCall> {
        let id = CallId::new(format!("c{n}"));
        let name = ToolName::new("local/x");
        Arc::new(ToolCall { id, name, arguments: serde_json::json!({}).into(), argument_bytes: 2, signatures: vec![] })
    }

    fn fit(history: &[Arc<Message>], pinned: usize, max_messages: usize, max_bytes: usize) -> Fit {
        let whole = history.iter().map(|message| message.bytes()).sum();
        super::fit(history, pinned, max_messages, max_bytes, whole)
    }

    /// `u` a user message, `a` an answer, a digit that many calls with results.
    fn history(shape: &str) -> Vec<Arc<Message>> {
        let mut list = Vec::new();
        for (at, c) in shape.chars().enumerate() {
            match c {
                'u' => list.push(Arc::new(Message::user("12345678"))),
                'a' => list.push(Arc::new(Message::assistant("12345678"))),
                digit => {
                    let calls: Vec<_> = (0..digit.to_digit(10).unwrap() as usize).map(|n| call(at * 10 + n)).collect();
                    list.push(Arc::new(Message::Assistant { text: String::new(), calls: calls.clone() }));
                    list.extend(calls.iter().map(|call| {
                        Arc::new(Message::Tool { result: Arc::new(ToolResult::note(call, CallStatus::Ok, "r")) })
                    }));
                }
            }
        }
        list
    }

    #[test]
    fn everything_fits() {
        assert_eq!(fit(&history("uau"), 2, 50, 1_000), Fit { start: 0, pinned: None });
    }

    #[test]
    fn a_call_is_dropped_with_its_results_and_the_conversation_begins_with_its_user() {
        // u, assistant with two calls, two results, answer, u: six messages.
        assert_eq!(fit(&history("u2au"), 5, 3, 1_000), Fit { start: 5, pinned: None });
        assert_eq!(fit(&history("u2au"), 5, 6, 1_000), Fit { start: 0, pinned: None });
    }

    #[test]
    fn a_long_turn_keeps_the_message_it_is_about() {
        let got = fit(&history("u1111"), 0, 5, 1_000);
        assert_eq!(got, Fit { start: 5, pinned: Some(0) });
        assert_eq!(got.dropped(), 4);
    }

    proptest! {
        #[test]
        fn what_fits_is_whole_and_bounded(shape in "u[ua1-3]{0,30}", most in 1_usize..20, bytes in 1_usize..400) {
            let list = history(&shape);
            let pinned = list.iter().rposition(|m| matches!(**m, Message::User { .. })).unwrap();
            let got = fit(&list, pinned, most, bytes);
            prop_assert_eq!(got, super::fit(&list, pinned, most, bytes, usize::MAX), "however it is found");
            let kept: Vec<_> = got.messages(&list).cloned().collect();
            prop_assert!(kept.iter().any(|m| Arc::ptr_eq(m, &list[pinned])));
            prop_assert!(Arc::ptr_eq(kept.last().unwrap(), list.last().unwrap()));
            let begins_with_user = matches!(*kept[0], Message::User { .. });
            prop_assert!(begins_with_user);
            prop_assert_eq!(kept.len() + got.dropped(), list.len());
            let asked: usize = kept.iter().map(|m| match &**m { Message::Assistant { calls, .. } => calls.len(), _ => 0 }).sum();
            let answered = kept.iter().filter(|m| matches!(***m, Message::Tool { .. })).count();
            prop_assert_eq!(asked, answered);
            // Only the newest exchange and the pinned message may exceed the bound.
            let newest = list.len() - list.iter().rposition(|m| !matches!(**m, Message::Tool { .. })).unwrap();
            prop_assert!(kept.len() <= most.max(newest + 1));
        }
    }
}
