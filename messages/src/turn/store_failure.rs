//! Failures of the store, and sessions that another owner has taken over: what is retried, and how callers are
//! answered.
//!
//! An answer must stay true. An input that is not in the journal may be sent again. One that is in it is run by the
//! next owner of the journal, so sending it again would run it twice. If neither is certain, the answer is that it is in doubt.

use super::acks::Settled;
use super::news::{decision_heard, finished, in_doubt, refused, refused_request, steered};
use super::state::{Slot, State};
use super::{Effect, Outbox, Turn, TurnMessage};
use crate::approvals::Heard;
use crate::error::AgentError;
use crate::ids::TurnId;
use crate::outcome::TurnOutcome;
use crate::store::StoreError;

/// How long is waited before each further attempt, in milliseconds.
const PAUSES_MS: [u64; 4] = [50, 200, 800, 2_000];

impl Turn {
    /// Handles the failure of an append for which something waits that must not be given up at the first attempt: a turn that
    /// begins, and a call that was about to run. The append is repeated a few times with pauses; for a call also later, until the
    /// limits of the turn end it, while the store is away. An input that is certainly not in the journal is refused at once, since
    /// its caller may send it again.
    pub(super) fn retry_append(&mut self, error: &StoreError, effects: &mut Vec<Effect>) -> bool {
        let (is_call, is_away) = (matches!(&self.state, State::CallTool(_)), self.outbox.is_away(error));
        let awaits = match &self.state {
            // It would run later although its caller was answered with an error.
            State::Start(wait) => wait.until.is_some() && self.holds_inputs(),
            // The model would go on with "not run", and take another way.
            State::CallTool(calling) => calling.slots.iter().any(|slot| matches!(slot, Slot::Recording { .. })),
            _ => false,
        };
        let failures = usize::try_from(self.outbox.failures()).unwrap_or(usize::MAX);
        let pause_ms = match PAUSES_MS.get(failures - 1) {
            None if is_call && is_away => PAUSES_MS.last(),
            pause_ms => pause_ms,
        };
        let (true, true, Some(pause_ms)) = (awaits, error.is_retryable(), pause_ms) else {
            return false;
        };
        let ticket = self.ticket();
        self.outbox.flush_again(&self.id, ticket, *pause_ms, effects);
        true
    }

    /// Whether the input of the turn that begins, or one that waits, may be in the journal.
    fn holds_inputs(&self) -> bool {
        let Some(session) = &self.session else { return false };
        let open = session.running().map(|open| &open.submission);
        let mut inputs = open.into_iter().chain(session.waiting.iter().map(|input| &input.turn));
        self.outbox.is_in_doubt() || inputs.any(|input| self.undurable(input).is_none())
    }

    /// The error for an input whose turn has not begun when the session is lost.
    fn left_with(&self, submission: &TurnId, error: &StoreError) -> AgentError {
        match self.undurable(submission) {
            Some(version) if self.outbox.may_hold(version) => in_doubt(error.to_string()),
            Some(_) => AgentError::Store(error.clone()),
            None => AgentError::Kept(error.clone()),
        }
    }

    /// Gives the session up, which has another owner or is not durable: all callers are answered, and the next input
    /// reads the journal again.
    pub(super) fn lose(&mut self, state: &State, error: &StoreError, effects: &mut Vec<Effect>) {
        self.abandon_all(effects);
        let submission = match state {
            State::Done(finishing) => Some(finishing.submission.clone()),
            // It was only looked at.
            _ if self.unrecovered => None,
            _ => self.submission(),
        };
        let told = self.told_and_not_kept();
        for request in std::mem::replace(&mut self.deferred, told) {
            effects.extend(refused_request(&request, in_doubt(error.to_string())));
        }
        let Some(session) = self.session.take() else { return };
        if let Some(submission) = submission {
            let turn = session.open.as_ref().map_or_else(|| submission.clone(), |open| open.input.turn.clone());
            let begins = matches!(state, State::Start(_));
            let error = if begins { self.left_with(&submission, error) } else { AgentError::Store(error.clone()) };
            effects.push(finished(submission, TurnOutcome::failed(self.id.clone(), turn, error)));
        }
        for input in session.waiting.iter().filter(|_| !self.unrecovered) {
            effects.push(refused(&input.turn, self.left_with(&input.turn, error)));
        }
        self.settle_acks(Settled::Lost(error), effects);
        // The next owner claims it anew, here or in another process.
        effects.push(Effect::Release { session: self.id.clone(), epoch: self.outbox.epoch });
        self.outbox = Outbox::default();
        (self.unrecovered, self.frame) = (false, None);
    }

    /// The journal could not be read: nothing that came is taken.
    pub(super) fn refuse_all(&mut self, error: &StoreError, effects: &mut Vec<Effect>) {
        self.recover = None;
        let came_before = std::mem::take(&mut self.came_before);
        let why = AgentError::from(match error {
            // A claim writes nothing of what came.
            StoreError::InDoubt(why) => StoreError::Unavailable(why.clone()),
            error => error.clone(),
        });
        for request in std::mem::take(&mut self.deferred) {
            match &request {
                TurnMessage::Ended { .. } => self.deferred.push(request),
                // Whether the question is open is not known; the answer is that the session is not live.
                TurnMessage::Decided { approval, asker, .. } => {
                    effects.push(decision_heard(approval, *asker, Heard::NotLive));
                }
                // Nothing runs; but an actor before may have taken it.
                TurnMessage::Steered { steer } => {
                    let result = if came_before { Err(in_doubt(error.to_string())) } else { Ok(false) };
                    effects.push(steered(&steer.request_id, result));
                }
                // A request sent to an earlier actor may be in the journal, which cannot be read.
                request if came_before && request.submission().is_some() && why.is_retryable() => {
                    effects.extend(refused_request(request, in_doubt(why.to_string())));
                }
                request => effects.extend(refused_request(request, why.clone())),
            }
        }
    }
}
