//! Turns that were stopped, and inputs that were withdrawn, whose end the store did not confirm.
//!
//! Their callers have an answer, and the journal may have them open. Each actor that is started for the session is told
//! first, and closes what it finds open, until that is durable.
//!
//! The newest 4,096 ends are remembered, until this supervisor ends: another process, and a supervisor that is started
//! again, are not told.

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
            Some(reason) => self.keep(session, submission, reason),
            _ended_by_itself => {}
        }
    }

    /// Keeps that a submission was ended for this reason; the first reason stays.
    fn keep(&mut self, session: &SessionId, submission: &TurnId, reason: EndReason) {
        if self.0.iter().any(|(of, known, _)| of == session && known == submission) {
            return;
        }
        if self.0.len() >= MOST_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((session.clone(), submission.clone(), reason));
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

    /// A submission ends for this reason and may be in the journal: the session's actor closes it there, or the next one.
    pub(super) fn end_unsaved(&mut self, session: &SessionId, submission: TurnId, reason: EndReason) {
        self.unsaved.keep(session, &submission, reason);
        self.send(session, TurnMessage::Ended { submission, reason });
    }

    /// The running turn gets an answer although it was to be closed and was not: it is closed when the journal can be read.
    pub(super) fn close_later(&mut self, session: &SessionId, submission: &TurnId) {
        let entry = self.table.get_mut(session).filter(|entry| entry.running() == Some(submission));
        if let Some(reason) = entry.and_then(|entry| entry.closing) {
            self.end_unsaved(session, submission.clone(), reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob_messages::chat::FinishReason;

    #[test]
    fn submissions_of_two_sessions_may_have_one_name() {
        let [one, two] = ["one", "two"].map(|id| SessionId::parse(id).unwrap());
        let turn = TurnId::new("t1");
        let cancelled = |session: &SessionId| {
            TurnOutcome::bare(session.clone(), TurnId::new("t1"), FinishReason::Cancelled, String::new())
        };
        let mut unsaved = Unsaved::default();
        unsaved.note(&one, &turn, &cancelled(&one));
        unsaved.note(&two, &turn, &cancelled(&two));
        unsaved.note(&two, &turn, &cancelled(&two));
        assert_eq!(unsaved.0.len(), 2, "{unsaved:?}");
        unsaved.note(&one, &turn, &TurnOutcome { saved: true, ..cancelled(&one) });
        assert_eq!(unsaved.0, [(two, turn, EndReason::Cancelled)]);
    }
}
