//! The last submissions a session has answered, by id, so a repeated one is answered from the journal and runs nothing.
//!
//! A submission is repeated by a sender that did not receive the answer: a supervisor that is behind by several
//! turns, or a caller who repeats the request id that the runtime gave. The session keeps the names only; the
//! outcomes are in its journal.

use super::Session;
use super::runs::withdrawn;
use crate::ids::{RequestId, SessionId, TurnId};
use crate::outcome::TurnOutcome;
use crate::store::{Fact, Record};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many submissions a session remembers by name.
const REMEMBERED: usize = 64;

/// The names of the last submissions that have an outcome, the newest last: at most 64.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Submissions(VecDeque<TurnId>);

impl Submissions {
    /// Whether this submission was answered.
    pub fn contains(&self, submission: &TurnId) -> bool {
        self.0.contains(submission)
    }

    /// Whether a submission was answered whose request had no name of its caller's: it is named after its turn.
    pub fn contains_request(&self, request: &RequestId) -> bool {
        self.0.iter().any(|known| known.as_str() == request.as_str())
    }

    /// For serde: nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A submission has its outcome. One that ends a second time, as a question that is given up does, is one.
    pub(super) fn remember(&mut self, submission: &TurnId) {
        if self.0.back() == Some(submission) {
            return;
        }
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(submission.clone());
    }
}

/// Whether the runtime named this request after its turn, since its caller gave it no name. Such names are remembered
/// as long as the submissions are, and not for as long as the session is.
pub(super) fn is_of_runtime(request: &RequestId, submission: &TurnId) -> bool {
    request.as_str() == submission.as_str()
}

/// What the journal says that a submission of this name came to, the last time.
pub(crate) fn outcome_in(records: &[Arc<Record>], id: &SessionId, submission: &str) -> Option<TurnOutcome> {
    let mut session = Session::new(id.clone());
    let mut found = None;
    for record in records {
        if let (Fact::Withdrawn, Some(turn)) = (&record.fact, &record.turn)
            && turn.as_str() == submission
            && let Some(input) = session.waiting.iter().find(|input| input.turn == *turn)
        {
            found = Some(TurnOutcome { saved: true, ..withdrawn(input, id) });
        }
        session.apply(record);
        let ends = matches!(record.fact, Fact::Outcome(_))
            && session.last_submission.as_ref().is_some_and(|last| last.as_str() == submission);
        if ends {
            found = session.last.as_deref().cloned();
        }
    }
    found
}
