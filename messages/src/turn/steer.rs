//! What is said into a running turn: taken once, at the next safe boundary.
//!
//! It is journaled at once. While calls are open it stands behind their results, and while the model is asked behind
//! its answer, which cannot know it: a final answer is then not the end of the turn, unless no step is left. It is
//! never an answer to a question or a decision about a call.

use super::state::State;
use super::{Effect, Steer, Turn};
use crate::chat::Message;
use crate::error::AgentError;
use crate::ids::RequestId;
use crate::sessions::TurnNews;
use crate::store::{Fact, StoreError};
use std::sync::Arc;

/// How many things said into a turn wait for its next prompt; one more is refused.
const MOST_WAITING: usize = 8;

impl Turn {
    /// The user said something into the running turn.
    pub(super) fn steered(&mut self, state: State, steer: Steer, effects: &mut Vec<Effect>) {
        let is_reading = self.session.is_none() && matches!(state, State::Start(_));
        self.state = state;
        if !is_reading {
            self.steer(steer, effects);
        } else if self.early.iter().all(|known| known.request_id != steer.request_id) {
            self.early.push(steer);
        }
    }

    /// The journal was read: what was said meanwhile has its turn now, or has none.
    pub(super) fn take_early(&mut self, effects: &mut Vec<Effect>) {
        for steer in std::mem::take(&mut self.early) {
            self.steer(steer, effects);
        }
    }

    /// The journal could not be read.
    pub(super) fn refuse_early(&mut self, effects: &mut Vec<Effect>) {
        effects.extend(std::mem::take(&mut self.early).into_iter().map(|steer| told(steer.request_id, Ok(false))));
    }

    fn steer(&mut self, steer: Steer, effects: &mut Vec<Effect>) {
        let Steer { request_id, submission, parts } = steer;
        if self.session.as_ref().is_some_and(|session| session.steers.contains(&request_id)) {
            return self.tell_when_kept(request_id, effects);
        }
        let runs = !matches!(self.state, State::Idle | State::Done(_));
        let running = self.submission().filter(|running| runs && submission.is_none_or(|meant| meant == *running));
        let refused = match running {
            Some(_) => self.refuses(&parts),
            None => return effects.push(told(request_id, Ok(false))),
        };
        if let Some(error) = refused {
            return effects.push(told(request_id, Err(error)));
        }
        let behind = matches!(self.state, State::LlmInfer { .. } | State::ParseAction(_));
        self.record_in_turn(Fact::Steered { parts, request_id: Some(request_id.clone()), behind });
        self.tell_when_kept(request_id, effects);
    }

    fn refuses(&self, parts: &[crate::chat::ContentPart]) -> Option<AgentError> {
        let open = self.session.as_ref().and_then(|session| session.running())?;
        if open.steered.len() >= MOST_WAITING {
            let text = format!("{MOST_WAITING} things said into the turn wait for its next step; try again then");
            return Some(AgentError::Busy(text));
        }
        // While the turn is being prepared it is not known yet what its model takes.
        let preparing = match &self.state {
            State::Start(wait) => wait.profile.as_ref().and_then(|profile| profile.as_ref().ok()),
            _ => None,
        };
        let profile = self.frame.as_ref().map(|frame| &frame.profile).or(preparing);
        let plain = |part: &&crate::chat::ContentPart| part.kind() == "text";
        let refused = match profile {
            Some(profile) => parts.iter().find(|part| !profile.capabilities.takes(part)),
            None => {
                let other = parts.iter().find(|part| !plain(part))?;
                let text = format!("the turn is being prepared and takes no {} part yet; try again", other.kind());
                return Some(AgentError::Busy(text));
            }
        };
        let text = |kind| format!("the model {} does not take {kind} parts", open.model);
        refused.map(|part| AgentError::Invalid(text(part.kind())))
    }

    /// What is known under this name is told when it is durable.
    fn tell_when_kept(&mut self, request_id: RequestId, effects: &mut Vec<Effect>) {
        if !self.journal.holds_steer(&request_id) {
            return effects.push(told(request_id, Ok(true)));
        }
        if self.steering.iter().all(|(_, known)| *known != request_id) {
            let version = self.awaited();
            self.steering.push((version, request_id));
            self.flush(effects);
        }
    }

    /// Tells what is durable by now.
    pub(super) fn tell_steered(&mut self, effects: &mut Vec<Effect>) {
        let durable = self.journal.durable;
        self.steering.retain(|(version, request)| {
            let kept = *version <= durable;
            if kept {
                effects.push(told(request.clone(), Ok(true)));
            }
            !kept
        });
    }

    /// The turn has taken it, and whether the journal has is not known.
    pub(super) fn tell_steered_unsaved(&mut self, error: &StoreError, effects: &mut Vec<Effect>) {
        let unsaved = self.steering.drain(..);
        effects.extend(unsaved.map(|(_, request)| told(request, Err(AgentError::Store(error.clone())))));
    }

    /// Nothing comes after this: whoever performs it knows whether the last append was confirmed.
    pub(super) fn tell_steered_last(&mut self, effects: &mut Vec<Effect>) {
        effects.extend(self.steering.drain(..).map(|(_, request)| told(request, Ok(true))));
    }

    /// Whether something was said into the turn that the answer just journaled does not know.
    pub(super) fn is_steered_on(&self) -> bool {
        let last = self.session.as_ref().and_then(|session| session.history.last());
        matches!(last.map(Arc::as_ref), Some(Message::User { .. }))
    }
}

fn told(request_id: RequestId, result: Result<bool, AgentError>) -> Effect {
    Effect::Report(TurnNews::Steered { request_id, result })
}
