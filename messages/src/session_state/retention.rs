//! What a live session keeps of its journal in memory: what a prompt can still use, and the newest outcomes.
//!
//! The journal has everything. An actor that holds a session for days holds a bounded part of it: the newest messages,
//! results as the model sees them, and the outcomes of the newest requests. Of older requests it knows the names, so
//! that a repeated one is found in the journal and nothing runs twice. What is kept follows from the records alone, so
//! a session that was rebuilt and one that lived are still the same value.

use super::Session;
use super::names::Names;
use super::snapshot::Taken;
use crate::chat::{Message, ToolResult};
use crate::condense::Condensed;
use crate::ids::{RequestId, SessionId};
use crate::outcome::TurnOutcome;
use crate::store::Record;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// At most so many outcomes of named requests are at hand.
const OUTCOMES_KEPT: usize = 16;

/// About how many messages a turn has: as many outcomes are at hand as turns are remembered.
const MESSAGES_A_TURN: usize = 4;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Retention {
    /// How many messages before the open turn; `None` keeps everything.
    messages: Option<usize>,
    #[serde(default)]
    pub(super) has_media: bool,
    /// Whether it ever had text in the artifact store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_artifacts: bool,
    /// The requests whose outcomes are at hand, oldest first.
    recent: VecDeque<RequestId>,
    /// The requests whose outcomes are only in the journal.
    #[serde(default)]
    forgotten: Names,
    #[serde(default)]
    taken: Taken,
}

impl Retention {
    /// Whether it is kept for running turns rather than for a reader of the whole session.
    pub(super) fn is_live(&self) -> bool {
        self.messages.is_some()
    }
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

    /// Whether it ever had images, sounds or files: old ones are dropped, and a message has fewer bytes then than it had.
    pub(crate) fn has_media(&self) -> bool {
        self.keep.has_media
    }

    /// Whether it ever had text in the artifact store, of which a model that sees a part can read the rest.
    pub fn has_artifacts(&self) -> bool {
        self.keep.has_artifacts
    }

    /// Whether this request was answered so long ago that only the journal has its outcome. Of those the session has
    /// fingerprints only: rarely it is another one, of which the journal knows nothing.
    pub fn has_forgotten(&self, request: &RequestId) -> bool {
        self.keep.forgotten.has(request)
    }

    /// Whether the session is kept so that it can go on with this many messages. It does from here on.
    pub(super) fn keeps_for(&mut self, keeping: Option<usize>) -> bool {
        let Some(wanted) = keeping else { return true };
        let is_enough = self.keep.messages.is_none_or(|kept| kept >= wanted);
        self.keep.messages = Some(wanted);
        is_enough
    }

    pub(super) fn taken(&self) -> &Taken {
        &self.keep.taken
    }

    pub(super) fn taken_mut(&mut self) -> &mut Taken {
        &mut self.keep.taken
    }

    pub(super) fn remember(&mut self, request: RequestId, outcome: Arc<TurnOutcome>) {
        self.answered.insert(request.clone(), outcome);
        let Some(messages) = self.keep.messages else { return };
        self.keep.recent.push_back(request);
        if self.keep.recent.len() > (messages / MESSAGES_A_TURN).clamp(1, OUTCOMES_KEPT)
            && let Some(oldest) = self.keep.recent.pop_front()
            && !self.keep.recent.contains(&oldest)
        {
            self.answered.remove(&oldest);
            self.keep.forgotten.insert(&oldest);
        }
    }

    /// A turn is over: messages that no prompt can use any more are dropped. A call stays with its results, and what
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

    /// The history was condensed: the messages it replaces are dropped, except the open turn's own.
    pub(super) fn condense(&mut self, condensed: &Condensed) {
        self.outdates_snapshot();
        if condensed.summary.is_some() {
            self.summary.clone_from(&condensed.summary);
        }
        if let (Some(turn), Some(usage)) = (&mut self.open, &condensed.usage) {
            turn.usage.add(usage);
            turn.spent.tokens = turn.usage.total_tokens;
            turn.spent.cost = turn.spent.cost.plus(condensed.cost.unwrap_or_default());
        }
        let is_result = |at: &usize| matches!(self.history.get(*at).map(Arc::as_ref), Some(Message::Tool { .. }));
        let cut = self.history.len().saturating_sub(condensed.keeps);
        // A foreign journal may contain anything; a call still stays with its results.
        let cut = (0..=cut).rev().find(|at| !is_result(at)).unwrap_or(0);
        if self.keep.messages.is_none() || cut == 0 {
            return;
        }
        let own = self.open.as_ref().map(|turn| turn.message_at);
        let own_message = own.filter(|at| *at < cut).and_then(|at| self.history.get(at).cloned());
        self.history.drain(..cut);
        if let Some(turn) = &mut self.open {
            turn.message_at = turn.message_at.saturating_sub(cut);
        }
        if let Some(own) = own_message {
            self.history.insert(0, own);
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
