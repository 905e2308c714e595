//! Steer messages: taken once, at the next safe boundary of the running turn.
//!
//! It is journaled at once. In the history it follows the results of open calls, and the answer of a model that was
//! asked before it: such a final answer does not end the turn, unless no step is left. It never answers a question and
//! never decides about a call.

use super::acks::Ack;
use super::news::steered;
use super::state::State;
use super::{Effect, Turn};
use crate::chat::Message;
use crate::error::AgentError;
use crate::event;
use crate::ids::RequestId;
use crate::input::Steer;
use crate::store::Fact;
use std::sync::Arc;

/// The most steer messages that wait for the next prompt; further ones are refused.
const MOST_WAITING: usize = 8;

impl Turn {
    /// Takes a steer message; `behind` an answer that the model is about to give.
    pub(super) fn steer(&mut self, steer: Steer, behind: bool, effects: &mut Vec<Effect>) {
        let Steer { request_id, submission, parts } = steer;
        let running = self.submission().filter(|running| submission.is_none_or(|meant| meant == *running));
        if running.is_none() {
            return effects.push(steered(&request_id, Ok(false)));
        }
        if let Some(error) = self.refuses(&parts) {
            return effects.push(steered(&request_id, Err(error)));
        }
        self.tell_said(&request_id, &parts, effects);
        self.record_in_turn(Fact::Steered { parts, request_id: Some(request_id.clone()), behind });
        self.tell_when_kept(&request_id, effects);
    }

    pub(super) fn knows_steer(&self, request_id: &RequestId) -> bool {
        self.session.as_ref().is_some_and(|session| session.steers.contains(request_id))
    }

    /// Emits the event of a steer message; if the turn's beginning was not announced yet, after that.
    fn tell_said(&mut self, request: &RequestId, parts: &[crate::chat::ContentPart], effects: &mut Vec<Effect>) {
        let is_early = matches!(self.state, State::Start(_));
        // The state does not depend on who watches.
        let Some(session) = self.session.as_ref().filter(|_| is_early || !self.unwatched) else { return };
        let Some(open) = session.running() else { return };
        let told = event::steered(&open.input.turn, Some(request), session.version + 1, parts);
        match &mut self.state {
            State::Start(wait) => wait.said.push(told),
            _told_at_once => self.emit(effects, || told),
        }
    }

    fn refuses(&self, parts: &[crate::chat::ContentPart]) -> Option<AgentError> {
        let open = self.open_turn()?;
        // What a model was asked with does not wait any longer.
        let is_asked = matches!(self.state, State::LlmInfer { .. } | State::ParseAction(_));
        let waiting = if is_asked { open.steered.len() } else { open.unread };
        if waiting >= MOST_WAITING {
            let text = format!("{MOST_WAITING} messages already wait for the next step of the turn; try again then");
            return Some(AgentError::busy(text));
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
                return Some(AgentError::busy(text));
            }
        };
        let text = |kind| format!("the model {} does not take {kind} parts", open.model);
        refused.map(|part| AgentError::Invalid(text(part.kind())))
    }

    /// Acknowledges a known steer message when it is durable.
    pub(super) fn tell_when_kept(&mut self, request_id: &RequestId, effects: &mut Vec<Effect>) {
        if !self.outbox.holds_steer(request_id) {
            return effects.push(steered(request_id, Ok(true)));
        }
        if self.acks.iter().all(|(_, ack)| !matches!(ack, Ack::Steered(known) if known == request_id)) {
            self.acknowledge(Ack::Steered(request_id.clone()));
            self.flush(effects);
        }
    }

    /// Whether there is a steer message that the answer just journaled did not see.
    pub(super) fn is_steered_on(&self) -> bool {
        let last = self.session.as_ref().and_then(|session| session.history.last());
        matches!(last.map(Arc::as_ref), Some(Message::User { .. }))
    }
}
