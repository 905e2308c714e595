//! A strict provider's rule, read message by message.

use crate::chat::Message;
use crate::ids::CallId;
use std::collections::{BTreeSet, VecDeque};

/// Which calls of a history wait for their results.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    /// How many messages were read.
    pub(crate) messages: usize,
    owed: VecDeque<CallId>,
    seen: BTreeSet<CallId>,
}

impl Pairing {
    /// Each call is answered once, right behind its message, in order.
    pub(crate) fn read(&mut self, message: &Message) -> Result<(), String> {
        self.messages += 1;
        match message {
            Message::Tool { result } if self.owed.front() == Some(&result.call) => drop(self.owed.pop_front()),
            Message::Tool { result } => return Err(format!("the result of {} is out of order", result.call)),
            Message::User { .. } | Message::Assistant { .. } if !self.owed.is_empty() => {
                return Err(format!("a message between {:?} and its result", self.owed.front()));
            }
            Message::User { .. } => {}
            Message::Assistant { calls, .. } => {
                for call in calls {
                    if !self.seen.insert(call.id.clone()) {
                        return Err(format!("{} is the name of two calls", call.id));
                    }
                    self.owed.push_back(call.id.clone());
                }
            }
        }
        Ok(())
    }

    /// A call without a result.
    pub(crate) fn owed(&self) -> Option<CallId> {
        self.owed.front().cloned()
    }
}
