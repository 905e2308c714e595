//! What a live session keeps of its journal in memory: what a prompt can still use, and the newest outcomes.
//!
//! The journal has everything. An actor that holds a session for days holds a bounded part of it: the newest messages,
//! results as the model sees them, and the outcomes of the newest requests. Of older requests it knows the names, so
//! that a repeated one is found in the journal and nothing runs twice. What is kept follows from the records alone, so
//! a session that was rebuilt and one that lived are still the same value.

use super::Session;
use crate::chat::{Message, ToolResult};
use crate::ids::{RequestId, SessionId};
use crate::sessions::TurnOutcome;
use crate::store::Record;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// At most so many outcomes of named requests are at hand.
const OUTCOMES_KEPT: usize = 16;

/// About how many messages a turn has: as many outcomes are at hand as turns are remembered.
const MESSAGES_A_TURN: usize = 4;

/// What a session keeps, and what it has let go of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Keep {
    /// How many messages before the open turn; `None` keeps everything.
    messages: Option<usize>,
    /// The requests whose outcomes are at hand, oldest first.
    recent: VecDeque<RequestId>,
    /// The requests whose outcomes are only in the journal.
    older: BTreeSet<RequestId>,
}

impl Session {
    /// The session its records tell of, as a live one keeps it: with at most about `messages` messages before its open
    /// turn. More never enter a prompt, which is bounded by the same number.
    pub fn fold_keeping<'a>(
        id: SessionId,
        messages: usize,
        records: impl IntoIterator<Item = &'a Arc<Record>>,
    ) -> Self {
        let mut session = Self::new(id);
        session.keep.messages = Some(messages);
        for record in records {
            session.apply(record);
        }
        session
    }

    /// Whether this request was answered so long ago that only the journal has its outcome.
    pub fn has_forgotten(&self, request: &RequestId) -> bool {
        self.keep.older.contains(request)
    }

    /// A request has its outcome.
    pub(super) fn remember(&mut self, request: RequestId, outcome: Arc<TurnOutcome>) {
        self.answered.insert(request.clone(), outcome);
        let Some(messages) = self.keep.messages else { return };
        self.keep.recent.push_back(request);
        if self.keep.recent.len() > (messages / MESSAGES_A_TURN).clamp(1, OUTCOMES_KEPT)
            && let Some(oldest) = self.keep.recent.pop_front()
            && !self.keep.recent.contains(&oldest)
        {
            self.answered.remove(&oldest);
            self.keep.older.insert(oldest);
        }
    }

    /// A turn is over: messages that no prompt can use any more are let go of. A call stays with its results, and what
    /// is left begins with its user, as the prompts that are made of it do.
    pub(super) fn forget(&mut self) {
        let Some(most) = self.keep.messages.filter(|most| self.history.len() > *most) else { return };
        let first = self.history.len() - most;
        let is_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        let start = self.history.iter().skip(first).position(is_user);
        // Without a user among the newest, nothing is cut: a later turn brings one.
        if let Some(start) = start {
            self.history.drain(..first + start);
            if self.history.capacity() > 2 * self.history.len() {
                self.history.shrink_to_fit();
            }
        }
    }

    /// A result as it is kept: whole, or what the model sees of one that is large.
    pub(super) fn kept(&self, result: &Arc<ToolResult>) -> Arc<ToolResult> {
        match self.keep.messages.and_then(|_| result.output.as_seen()) {
            Some(output) => Arc::new(ToolResult { output, ..(**result).clone() }),
            None => Arc::clone(result),
        }
    }
}
