//! Requests that were answered long ago and come again: their outcomes are looked up in the journal.
//!
//! A live session keeps the newest outcomes, the fingerprints of older request ids ([`Session::has_forgotten`]) and the
//! ids of its last submissions ([`Session::submissions`]), so that an input that is sent again by a caller who did not
//! receive its outcome does not run again. The lookup is a claim like the first one,
//! of the whole journal, made while nothing is on its way to the store.

use super::news::{refused, refused_request};
use super::state::State;
use super::{Effect, Turn, TurnMessage};
use crate::error::AgentError;
use crate::ids::TurnId;
use crate::outcome::TurnOutcome;
use crate::session_state::{Session, outcome_in};
use crate::store::Record;
use std::sync::Arc;

enum Known {
    /// The name its caller gave it.
    Request(crate::ids::RequestId),
    /// Its submission, which is also the name the runtime gives a request.
    Submission(TurnId),
}

impl Known {
    /// The name of a request that was answered and whose outcome the session does not have at hand.
    fn of(session: &Session, request: &TurnMessage) -> Option<Self> {
        let submission = request.submission()?;
        if session.outcome_of(submission).is_some() {
            return None;
        }
        if has_ended(session, submission) {
            return Some(Self::Submission(submission.clone()));
        }
        let TurnMessage::Start { input, .. } = request else { return None };
        // Another tenant's outcome is not looked up.
        let request = input.request_id.as_ref().filter(|_| !session.is_closed_to(input.tenant()))?;
        let of_runtime = TurnId::new(request.as_str());
        match session.has_forgotten(request) {
            true => Some(Self::Request(request.clone())),
            false => has_ended(session, &of_runtime).then_some(Self::Submission(of_runtime)),
        }
    }
}

impl Turn {
    /// Reads the journal again for this input, or refuses it when the session is busy.
    pub(super) fn look_up(&mut self, request: &TurnMessage, effects: &mut Vec<Effect>) {
        if !self.is_quiet() {
            // What the store did not take goes again: it would be waited for in vain.
            self.flush(effects);
            let text =
                "a request of this request_id was answered long ago; its outcome is read again when nothing runs";
            return effects.extend(refused_request(request, AgentError::busy(text)));
        }
        self.session = None;
        self.deferred.push(request.clone());
        self.claim(true, effects);
    }

    /// Keeps a request that has ended until its outcome can be looked up: it is never refused as if it had not run.
    pub(super) fn look_up_later(&mut self, request: &TurnMessage, effects: &mut Vec<Effect>) {
        if self.deferred.iter().all(|known| known.submission() != request.submission()) {
            self.deferred.push(request.clone());
        }
        if !self.is_quiet() {
            // What the store did not take goes again: it would be waited for in vain.
            self.flush(effects);
        }
    }

    /// Reads the journal again for the requests that wait for it, once nothing runs.
    pub(super) fn look_up_deferred(&mut self, effects: &mut Vec<Effect>) {
        if self.deferred.is_empty() || self.session.is_none() || !self.is_quiet() {
            return;
        }
        self.session = None;
        self.came_before = true;
        self.claim(true, effects);
    }

    fn is_quiet(&self) -> bool {
        matches!(self.state, State::Idle) && self.outbox.is_settled() && self.acks.is_empty()
    }

    /// The journal was read: requests for an outcome that the session does not keep are answered from it.
    pub(super) fn answer_lookups(&mut self, records: &[Arc<Record>], effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        if !self.deferred.iter().any(|request| is_lookup(session, request)) {
            return;
        }
        let mut whole = None;
        let requests = std::mem::take(&mut self.deferred);
        for request in requests {
            let known = self.session.as_ref().and_then(|session| Known::of(session, &request));
            let (Some(known), Some(submission)) = (known, request.submission()) else {
                self.deferred.push(request);
                continue;
            };
            let unknown = match &known {
                Known::Submission(_) => AgentError::Internal(
                    "the turn has ended, but its outcome cannot be read; see the history of the session".into(),
                ),
                Known::Request(_) => AgentError::Invalid(
                    "this request_id cannot be told from an older one of the session; choose another".into(),
                ),
            };
            match self.outcome_in(records, known, &mut whole) {
                Some(outcome) => self.tell_again(submission, outcome, effects),
                None => effects.push(refused(submission, unknown)),
            }
        }
    }

    fn outcome_in(&self, records: &[Arc<Record>], known: Known, whole: &mut Option<Session>) -> Option<TurnOutcome> {
        match known {
            Known::Submission(submission) => outcome_in(records, &self.id, submission.as_str()),
            Known::Request(request) => {
                let whole = whole.get_or_insert_with(|| Session::fold(self.id.clone(), records));
                whole.answered.get(&request).map(|outcome| (**outcome).clone())
            }
        }
    }
}

/// Whether a request asks for an outcome that only the journal has.
pub(super) fn is_lookup(session: &Session, request: &TurnMessage) -> bool {
    Known::of(session, request).is_some()
}

/// Whether this is the submission of something that has ended and is not at hand.
pub(super) fn has_ended(session: &Session, submission: &TurnId) -> bool {
    let waits = session.waiting.iter().any(|input| input.turn == *submission);
    let is_open = session.open.as_ref().is_some_and(|open| open.submission == *submission);
    session.submissions.contains(submission) && !waits && !is_open
}
