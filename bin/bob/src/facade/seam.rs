//! Joins a session's rebuilt and live events: each event is delivered once, in order, with the reader's own number.
//!
//! Pure. Events that the journal contains have a key, and each key is delivered once. A live-only event is dropped if
//! it precedes a rebuilt event that was delivered.
//!
//! A turn may move to another owner of its session, with a higher epoch. What the owner before told and did not write is
//! void then: it may be told anew, with other contents, and text that was shown of it is taken back.

use bob_messages::event::{AgentEvent, CallState, Delta, Envelope, StepEvent};
use bob_messages::ids::{ApprovalId, CallId, ResumeToken, TenantId, TurnId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many turns are remembered: more than can end while a journal is read.
const MOST_TURNS: usize = 64;

/// The events delivered for the newest turns.
#[derive(Debug, Clone, Default)]
pub(super) struct Seam {
    turns: VecDeque<Given>,
    /// Turns may move to another owner.
    follows: bool,
}

#[derive(Debug, Clone)]
struct Given {
    turn: TurnId,
    keys: HashMap<Key, Known>,
    /// Count of runs: each resumption of a suspended turn is another.
    run: u32,
    /// The run that is being rebuilt.
    rebuilt: u32,
    /// The newest run began live, so events it repeats are delivered.
    began_live: bool,
    /// The last step whose answer was given.
    step: Option<u32>,
    is_over: bool,
    /// The number of the last event of the run.
    seq: u64,
    traceparent: Option<String>,
    tenant: Option<TenantId>,
    /// The epoch of the owner who told the last event.
    epoch: u64,
    /// The message of which something was shown, and its step, until the journal has it.
    shown: Option<(u32, String)>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// The newest run in which it was given.
    run: u32,
    /// The journal has it.
    is_kept: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Started(TurnId),
    Completed(Option<u32>),
    Failed(Option<u32>),
    Understood(Option<u32>),
    Message(String),
    Proposed(CallId),
    Done(CallId),
    Asked(ApprovalId),
    Decided(ApprovalId),
    Tripped,
    /// A suspended run has a token; the final end of a turn has none.
    Finished(Option<ResumeToken>),
}

impl Seam {
    /// One of a reader that follows a turn to another owner, or does not.
    pub(super) fn new(follows: bool) -> Self {
        Self { turns: VecDeque::new(), follows }
    }

    pub(super) fn begin(&mut self) {
        for given in &mut self.turns {
            (given.rebuilt, given.began_live) = (0, false);
        }
    }

    /// Whether a reader that was let go reads the journal again from this turn on: not given whole, or the newest.
    pub(super) fn goes_on_with(&self, turn: &TurnId) -> bool {
        let newest = self.turns.back().is_some_and(|given| given.turn == *turn);
        newest || self.turns.iter().any(|given| given.turn == *turn && !given.is_over)
    }

    /// An event of the journal; `None` when it was given before.
    pub(super) fn rebuilt(&mut self, envelope: Envelope) -> Option<Envelope> {
        let given = self.given(envelope.turn_id.as_ref()?);
        if matches!(envelope.event, AgentEvent::TurnStarted { .. }) {
            given.rebuilt += 1;
        }
        given.epoch = given.epoch.max(envelope.epoch.unwrap_or(0));
        let (key, run) = (key(envelope.step, &envelope.event)?, given.rebuilt);
        if let Some(known) = given.keys.get_mut(&key).filter(|known| known.run >= run) {
            known.is_kept = true;
            given.keeps(&key);
            return None;
        }
        given.run = given.run.max(run);
        given.keeps(&key);
        given.give(Some(key), Known { run, is_kept: true }, envelope)
    }

    /// An event that has just happened; `None` when it was given before or has lost its place.
    pub(super) fn live(&mut self, envelope: Arc<Envelope>) -> Option<Envelope> {
        let follows = self.follows;
        let given = self.given(envelope.turn_id.as_ref()?);
        let key = key(envelope.step, &envelope.event);
        let is_known = |key| given.keys.get(key).is_some_and(|known| !given.tells_again(key) || known.run >= given.run);
        // An owner who has not noticed yet that it is none any more.
        if follows && envelope.epoch.is_some_and(|epoch| epoch < given.epoch) {
            return None;
        }
        if key.as_ref().map_or_else(|| given.is_late(&envelope), is_known) {
            return None;
        }
        if matches!(envelope.event, AgentEvent::TurnStarted { .. }) {
            (given.run, given.began_live) = (given.run + 1, true);
        }
        if follows {
            given.shows(&envelope);
        }
        let known = Known { run: given.run, is_kept: false };
        given.give(key, known, Arc::unwrap_or_clone(envelope))
    }

    /// What is given before an event of another owner of its turn: that the text shown so far is void, if it is. All that
    /// was written before the event was rebuilt.
    pub(super) fn moved(&mut self, next: &Envelope) -> Option<Envelope> {
        if !self.follows {
            return None;
        }
        let (turn, epoch) = (next.turn_id.as_ref()?, next.epoch?);
        let given = self.turns.iter_mut().rfind(|given| given.turn == *turn)?;
        let is_moved = given.epoch > 0 && given.epoch < epoch;
        given.epoch = given.epoch.max(epoch);
        if !is_moved {
            return None;
        }
        let (message_id, step) = given.forget()?;
        let event = AgentEvent::LlmStreamChunk { message_id, delta: Delta::Reset };
        let known = Known { run: given.run, is_kept: false };
        given.give(None, known, Envelope { step: Some(step), event, ..next.clone() })
    }

    /// Whether the beginning of this turn was given.
    pub(super) fn has_begun(&self, turn: &TurnId) -> bool {
        let given = self.turns.iter().rfind(|given| given.turn == *turn);
        given.is_some_and(|given| given.keys.keys().any(|key| matches!(key, Key::Started(_))))
    }

    fn given(&mut self, turn: &TurnId) -> &mut Given {
        let known = self.turns.iter().rposition(|given| given.turn == *turn);
        let at = known.unwrap_or_else(|| {
            if self.turns.len() == MOST_TURNS {
                self.turns.pop_front();
            }
            self.turns.push_back(Given::new(turn.clone()));
            self.turns.len() - 1
        });
        &mut self.turns[at]
    }
}

impl Given {
    fn new(turn: TurnId) -> Self {
        let (keys, traceparent, tenant) = (HashMap::new(), None, None);
        let (run, rebuilt, began_live, step, is_over, seq, epoch, shown) = (0, 0, false, None, false, 0, 0, None);
        Self { turn, keys, run, rebuilt, began_live, step, is_over, seq, traceparent, tenant, epoch, shown }
    }

    /// Whether a resumed turn with open calls repeats this event in a run that began live.
    fn tells_again(&self, key: &Key) -> bool {
        self.began_live && matches!(key, Key::Proposed(_) | Key::Asked(_) | Key::Decided(_))
    }

    /// Whether an event that is only live belongs before something that was given.
    fn is_late(&self, envelope: &Envelope) -> bool {
        let is_passed = match (&envelope.event, envelope.step) {
            (AgentEvent::ToolCalled { call, .. }, _) => self.keys.contains_key(&Key::Done(call.id.clone())),
            (AgentEvent::SkillsSelected { .. }, _) => self.step.is_some(),
            (_, step) => step.is_some() && step <= self.step,
        };
        self.is_over || is_passed
    }

    /// Notes the owner, and what is shown and not in the journal yet.
    fn shows(&mut self, envelope: &Envelope) {
        self.epoch = envelope.epoch.unwrap_or(self.epoch);
        let (message_id, step) = match (&envelope.event, envelope.step) {
            (AgentEvent::LlmStreamChunk { delta: Delta::Reset, .. }, _) => return self.shown = None,
            (AgentEvent::LlmStreamChunk { message_id, .. }, Some(step))
            | (AgentEvent::MessageAssistant { message_id, .. }, Some(step)) => (message_id, step),
            _shows_nothing => return,
        };
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != step) {
            self.shown = Some((step, message_id.clone()));
        }
    }

    /// The journal has this.
    fn keeps(&mut self, key: &Key) {
        if let Key::Completed(Some(step)) = key {
            self.shown.take_if(|(shown, _)| *shown <= *step);
        }
    }

    /// Forgets what the journal does not have. The message of which something was shown, and its step.
    fn forget(&mut self) -> Option<(String, u32)> {
        let is_end = |key: &Key| matches!(key, Key::Finished(_));
        if self.keys.iter().any(|(key, known)| is_end(key) && !known.is_kept) {
            self.is_over = false;
        }
        self.keys.retain(|_, known| known.is_kept);
        let step = |key: &Key| if let Key::Completed(step) = key { *step } else { None };
        self.step = self.keys.keys().filter_map(step).max();
        self.shown.take().map(|(step, message_id)| (message_id, step))
    }

    fn give(&mut self, key: Option<Key>, known: Known, envelope: Envelope) -> Option<Envelope> {
        match &envelope.event {
            AgentEvent::TurnStarted { traceparent, context, .. } => {
                (self.seq, self.is_over) = (0, false);
                self.traceparent.clone_from(traceparent);
                self.tenant = context.as_ref().and_then(|context| context.tenant.clone());
            }
            AgentEvent::LlmCompleted { .. } => self.step = self.step.max(envelope.step),
            AgentEvent::TurnFinished { .. } => self.is_over = true,
            _other_events_change_nothing => {}
        }
        if let Some(key) = key {
            self.keys.insert(key, known);
        }
        self.seq += 1;
        let (session, traceparent) = (envelope.session_id?, self.traceparent.as_deref());
        let told = StepEvent { step: envelope.step, event: envelope.event };
        let given = Envelope::of_turn(&session, &self.turn, envelope.time, self.seq, traceparent, told);
        Some(Envelope { tenant: self.tenant.clone().or(envelope.tenant), epoch: envelope.epoch, ..given })
    }
}

/// The key of an event of this step; `None` for one that is only live.
fn key(step: Option<u32>, event: &AgentEvent) -> Option<Key> {
    Some(match event {
        AgentEvent::TurnStarted { submission, .. } => Key::Started(submission.clone()),
        AgentEvent::LlmCompleted { .. } => Key::Completed(step),
        AgentEvent::LlmFailed { .. } => Key::Failed(step),
        AgentEvent::ActionParsed { .. } | AgentEvent::ActionMalformed { .. } => Key::Understood(step),
        AgentEvent::MessageUser { message_id, .. } | AgentEvent::MessageAssistant { message_id, .. } => {
            Key::Message(message_id.clone())
        }
        AgentEvent::ToolCalled { call, state: CallState::Proposed, .. } => Key::Proposed(call.id.clone()),
        AgentEvent::ToolCompleted { result, .. } => Key::Done(result.call.clone()),
        AgentEvent::ApprovalRequested { approval_id, .. } => Key::Asked(approval_id.clone()),
        AgentEvent::ApprovalDecided { approval_id, .. } => Key::Decided(approval_id.clone()),
        AgentEvent::GuardTripped { .. } => Key::Tripped,
        AgentEvent::TurnFinished { outcome } => Key::Finished(outcome.token.clone()),
        _only_live => return None,
    })
}

#[cfg(test)]
#[path = "seam_tests.rs"]
mod tests;
