//! Where a session's rebuilt events meet the live ones: each event is given once, in order, under its reader's number.
//!
//! Pure. What the journal can tell has a key; what was given under its key is not given again. What is only live is left
//! out where it came before something that was rebuilt already.

use bob_messages::event::{AgentEvent, CallState, Envelope};
use bob_messages::ids::{ApprovalId, CallId, ResumeToken, TurnId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many turns are remembered: more than can end while a journal is read.
const MOST_TURNS: usize = 64;

/// What a reader was given of the newest turns.
#[derive(Debug, Default)]
pub(super) struct Seam {
    turns: VecDeque<Given>,
}

/// What was given of one turn.
#[derive(Debug)]
struct Given {
    turn: TurnId,
    /// What was given, and in which of its runs last.
    keys: HashMap<Key, u32>,
    /// The runs that have begun: a suspended turn that goes on has another one.
    run: u32,
    /// The run that is being rebuilt.
    rebuilt: u32,
    /// The newest run began live: what it shows again is no repetition.
    began_live: bool,
    /// The last step whose answer was given.
    step: u32,
    is_over: bool,
    /// The number of the last event of the run.
    seq: u64,
    traceparent: Option<String>,
}

/// What an event is called that the journal can tell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Started(TurnId),
    Completed(u32),
    Failed(u32),
    Understood(u32),
    Message(String),
    Proposed(CallId),
    Done(CallId),
    Asked(ApprovalId),
    Decided(ApprovalId),
    Tripped,
    /// Of a run that was suspended with its token; a turn ends for good only once.
    Finished(Option<ResumeToken>),
}

impl Key {
    /// Whether a turn that goes on with open calls tells it again.
    fn may_come_again(&self) -> bool {
        match self {
            Self::Proposed(_) | Self::Asked(_) | Self::Decided(_) => true,
            Self::Started(_)
            | Self::Completed(_)
            | Self::Failed(_)
            | Self::Understood(_)
            | Self::Message(_)
            | Self::Done(_)
            | Self::Tripped
            | Self::Finished(_) => false,
        }
    }
}

impl Seam {
    /// A journal is read from its beginning.
    pub(super) fn begin(&mut self) {
        for given in &mut self.turns {
            (given.rebuilt, given.began_live) = (0, false);
        }
    }

    /// Whether a reader that was let go reads the journal again from this turn on: it was not given whole, or it is the
    /// newest.
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
        let (key, run) = (key(&envelope.event)?, given.rebuilt);
        if given.keys.get(&key).is_some_and(|before| *before >= run) {
            return None;
        }
        given.run = given.run.max(run);
        given.give(Some(key), run, envelope)
    }

    /// An event that has just happened; `None` when it was given before or has lost its place.
    pub(super) fn live(&mut self, envelope: Arc<Envelope>) -> Option<Envelope> {
        let given = self.given(envelope.turn_id.as_ref()?);
        let key = key(&envelope.event);
        let is_known = key.as_ref().is_some_and(|key| match given.keys.get(key) {
            Some(before) => !(given.began_live && key.may_come_again()) || *before >= given.run,
            None => false,
        });
        if is_known || given.is_late(&envelope.event) {
            return None;
        }
        if matches!(envelope.event, AgentEvent::TurnStarted { .. }) {
            (given.run, given.began_live) = (given.run + 1, true);
        }
        let run = given.run;
        given.give(key, run, Arc::unwrap_or_clone(envelope))
    }

    fn given(&mut self, turn: &TurnId) -> &mut Given {
        let known = self.turns.iter().position(|given| given.turn == *turn);
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
        let (keys, traceparent) = (HashMap::new(), None);
        Self { turn, keys, run: 0, rebuilt: 0, began_live: false, step: 0, is_over: false, seq: 0, traceparent }
    }

    /// Whether an event that is only live belongs before something that was given.
    fn is_late(&self, event: &AgentEvent) -> bool {
        match event {
            AgentEvent::PromptBuilt { step, .. }
            | AgentEvent::HistoryCondensed { step, .. }
            | AgentEvent::LlmRequested { step, .. }
            | AgentEvent::LlmStreamChunk { step, .. }
            | AgentEvent::LlmRetried { step, .. } => self.is_over || *step <= self.step,
            AgentEvent::ToolCalled { call, state, .. } if *state != CallState::Proposed => {
                self.is_over || self.keys.contains_key(&Key::Done(call.id.clone()))
            }
            AgentEvent::ActorRestarted { .. } => self.is_over,
            AgentEvent::SkillsSelected { .. } => self.is_over || self.step > 0,
            _what_the_journal_can_tell_has_a_key => false,
        }
    }

    fn give(&mut self, key: Option<Key>, run: u32, envelope: Envelope) -> Option<Envelope> {
        match &envelope.event {
            AgentEvent::TurnStarted { traceparent, .. } => {
                (self.seq, self.is_over) = (0, false);
                self.traceparent.clone_from(traceparent);
            }
            AgentEvent::LlmCompleted { step, .. } => self.step = self.step.max(*step),
            AgentEvent::TurnFinished { .. } => self.is_over = true,
            _other_events_change_nothing => {}
        }
        if let Some(key) = key {
            self.keys.insert(key, run);
        }
        self.seq += 1;
        let (session, traceparent) = (envelope.session_id?, self.traceparent.as_deref());
        Some(Envelope::of_turn(&session, &self.turn, envelope.time, self.seq, traceparent, envelope.event))
    }
}

fn key(event: &AgentEvent) -> Option<Key> {
    Some(match event {
        AgentEvent::TurnStarted { submission, .. } => Key::Started(submission.clone()),
        AgentEvent::LlmCompleted { step, .. } => Key::Completed(*step),
        AgentEvent::LlmFailed { step, .. } => Key::Failed(*step),
        AgentEvent::ActionParsed { step, .. } | AgentEvent::ActionMalformed { step, .. } => Key::Understood(*step),
        AgentEvent::MessageUser { message_id, .. } | AgentEvent::MessageAssistant { message_id, .. } => {
            Key::Message(message_id.clone())
        }
        AgentEvent::ToolCalled { call, state: CallState::Proposed, .. } => Key::Proposed(call.id.clone()),
        AgentEvent::ToolCompleted { result, .. } => Key::Done(result.call.clone()),
        AgentEvent::ApprovalRequested { approval_id, .. } => Key::Asked(approval_id.clone()),
        AgentEvent::ApprovalDecided { approval_id, .. } => Key::Decided(approval_id.clone()),
        AgentEvent::GuardTripped { .. } => Key::Tripped,
        AgentEvent::TurnFinished { outcome } => Key::Finished(outcome.token.clone()),
        AgentEvent::ToolCalled { .. }
        | AgentEvent::PromptBuilt { .. }
        | AgentEvent::HistoryCondensed { .. }
        | AgentEvent::SkillsSelected { .. }
        | AgentEvent::LlmRequested { .. }
        | AgentEvent::LlmStreamChunk { .. }
        | AgentEvent::LlmRetried { .. }
        | AgentEvent::McpProcessStarted { .. }
        | AgentEvent::McpProcessStopped { .. }
        | AgentEvent::ActorRestarted { .. } => return None,
    })
}

#[cfg(test)]
#[path = "seam_tests.rs"]
mod tests;
