//! Turns that were stopped, and inputs that were withdrawn, whose end the store did not confirm.
//!
//! Their callers have an answer, and the journal may have them open. Each actor that is started for the session is told
//! first, and closes what it finds open, until that is durable. Another process is not told.

use super::SessionsState;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::outcome::{EndReason, TurnOutcome};
use bob_messages::turn::TurnMessage;
use std::collections::VecDeque;

/// The most that are kept; the oldest is forgotten for a further one.
const MOST_KEPT: usize = 4_096;

/// Submissions with the reason of their end, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unsaved(VecDeque<(SessionId, TurnId, EndReason)>);

impl Unsaved {
    /// Keeps how a submission ended, or forgets it when the store has it.
    pub(super) fn note(&mut self, session: &SessionId, submission: &TurnId, outcome: &TurnOutcome) {
        match EndReason::of(outcome.finish_reason, outcome.guard_reason) {
            _ if outcome.saved => self.forget(session, submission),
            Some(reason) if !self.0.iter().any(|(_, known, _)| known == submission) => {
                if self.0.len() >= MOST_KEPT {
                    self.0.pop_front();
                }
                self.0.push_back((session.clone(), submission.clone(), reason));
            }
            _known_or_ended_by_itself => {}
        }
    }

    pub(super) fn forget(&mut self, session: &SessionId, submission: &TurnId) {
        self.0.retain(|(of, known, _)| of != session || known != submission);
    }
}

impl SessionsState {
    /// Tells an actor that was just started what ended before it.
    pub(super) fn tell_ended(&mut self, session: &SessionId) {
        let ended = self.unsaved.0.iter().filter(|(of, _, _)| of == session);
        let ended: Vec<_> = ended.map(|(_, submission, reason)| (submission.clone(), *reason)).collect();
        for (submission, reason) in ended {
            self.send(session, TurnMessage::Ended { submission, reason });
        }
    }
}
