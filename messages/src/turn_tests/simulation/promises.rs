//! What was promised: everybody is told once, and what is said to be kept is kept.

use super::monitor::{Monitor, Told};
use crate::chat::FinishReason;
use crate::error::AgentError;
use crate::ids::TurnId;
use crate::outcome::TurnOutcome;
use crate::submission::TurnNews;

impl Monitor {
    /// The supervisor hears this.
    pub(super) fn news(&mut self, news: &TurnNews) {
        match news {
            TurnNews::Finished { submission, outcome } => {
                if let (Some(token), Some(question)) = (&outcome.token, &outcome.question) {
                    let before = self.questions.insert(token.clone(), question.clone());
                    let same = before.as_ref().is_none_or(|before| before == question);
                    self.must(same, || format!("{token} stands for {before:?} and for {question:?}"));
                }
                self.life.paused.remove(submission);
                self.acknowledged(submission, outcome);
                self.note_outcome(outcome);
                self.has_heard_all(outcome);
                self.usable = outcome.saved && outcome.finish_reason != FinishReason::Error;
                self.told(submission, outcome.saved);
            }
            TurnNews::Refused { submission, error } => {
                self.told(submission, !matches!(error, AgentError::Store(_) | AgentError::Kept(_)));
            }
            TurnNews::Began { submission, .. } => {
                self.life.running.insert(submission.clone());
            }
            TurnNews::GivenUp { reason, .. } => self.saw(format!("given up for {reason}")),
            TurnNews::Paused { submission, .. } | TurnNews::AtLimit { submission, .. } => {
                self.life.paused.insert(submission.clone());
            }
            TurnNews::Unpaused { submission } => {
                self.life.paused.remove(submission);
            }
            TurnNews::Steered { request_id, result } => self.tells_steer(request_id, result),
            TurnNews::NotOpen { .. } => self.saw("not open".to_owned()),
            TurnNews::Flushed => self.saw("flushed".to_owned()),
            TurnNews::BetweenSteps => self.saw("between two steps".to_owned()),
            TurnNews::Orphaned { child } => self.saw(format!("orphaned {child}")),
            TurnNews::ChildGivenUp { child, .. } => self.saw(format!("given up {child}")),
            TurnNews::TasksEnd { children } => self.saw(format!("{} tasks end", children.len())),
            // The harness sees to changes.
            TurnNews::Configured { .. } | TurnNews::Decided { .. } | TurnNews::Closed | TurnNews::Left => {}
        }
    }

    fn told(&mut self, submission: &TurnId, for_good: bool) {
        let owner = self.owners;
        self.life.cancelled.remove(submission);
        let before = self.told.insert(submission.clone(), Told { owner, for_good });
        if let Some(before) = before {
            self.must(!before.for_good, || format!("{submission} was told for good and is told again"));
            self.must(before.owner < owner, || format!("{submission} is told twice by one owner of the journal"));
        }
    }

    /// What is said to be saved is what any later owner reads.
    fn acknowledged(&mut self, submission: &TurnId, outcome: &TurnOutcome) {
        if !outcome.saved {
            return;
        }
        let kept = self.outcomes.iter().any(|kept| {
            let named = TurnOutcome {
                request_id: outcome.request_id.clone(),
                labels: outcome.labels.clone(),
                ..(**kept).clone()
            };
            named == *outcome
        });
        let taken_out = self.grammar.withdrawn.contains(&outcome.turn_id);
        let why = || format!("{submission} is told that {:?} is saved, and it is not stored", outcome.finish_reason);
        self.must(kept || taken_out, why);
    }

    fn note_outcome(&mut self, outcome: &TurnOutcome) {
        self.fits_its_schema(outcome);
        self.saw(format!("{:?}", outcome.finish_reason));
        if let Some(guard) = outcome.guard_reason {
            self.saw(format!("{guard:?}"));
        }
        for entry in outcome.tool_transcript.iter() {
            self.saw(format!("call {:?}", entry.status));
        }
        self.saw(format!("saved {}", outcome.saved));
    }

    /// Something happened of which there must be some.
    pub(super) fn saw(&mut self, what: String) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// What nobody owes any more, since the program that owed it is gone.
    pub(super) fn forgets(&mut self, submission: &TurnId) {
        self.told.remove(submission);
    }
}
