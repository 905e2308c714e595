//! `--finish`: finds turns that the store has already.
//!
//! The n-th line with a session and a prompt corresponds to the n-th such turn in the session's journal, and is
//! skipped if that has an outcome. A session's journal is read when its first line begins and dropped when none of
//! its lines waits; only counts of pairs are kept to the end, in a few dozen bytes each.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bob::sessions::{TurnId, TurnOutcome};
use bob::store::{Fact, Record, Session};
use bob::{AgentError, AgentRuntime, Runtime, SessionId};

use super::line::BatchLine;

/// Counts of each pair of session and prompt, by two independent hashes.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    hashers: (RandomState, RandomState),
    times: HashMap<(u64, u64), u32>,
}

impl Seen {
    /// How many such lines there were before this one.
    pub(crate) fn before(&mut self, line: &BatchLine) -> usize {
        let pair = (&line.session, &line.prompt);
        let key = (self.hashers.0.hash_one(pair), self.hashers.1.hash_one(pair));
        let times = self.times.entry(key).or_default();
        *times += 1;
        *times as usize - 1
    }
}

/// The earlier turns of a session by prompt, each with its outcome.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    by_prompt: HashMap<String, Vec<EarlierTurn>>,
}

#[derive(Debug)]
struct EarlierTurn {
    /// The turn whose outcome is printed: that of the input, or of the reply that resumed one.
    submission: TurnId,
    outcome: Option<Arc<TurnOutcome>>,
    is_new: bool,
}

impl Earlier {
    /// Finishes interrupted turns and reads the session's journal.
    pub(crate) async fn read(runtime: &Runtime, session: &SessionId) -> Result<Self, AgentError> {
        let mut records = runtime.records(session.clone()).await?;
        let mut finished = Vec::new();
        let folded = Session::fold(session.clone(), &records);
        if folded.running().is_some() || !folded.waiting.is_empty() {
            let results = runtime.finish(session.clone()).await?;
            finished = results.iter().map(|result| result.response().turn_id.clone()).collect();
            records = runtime.records(session.clone()).await?;
        }
        Ok(Self::of(session, &records, &finished))
    }

    fn of(session: &SessionId, records: &[Arc<Record>], finished: &[TurnId]) -> Self {
        let mut folded = Session::new(session.clone());
        let mut earlier = Self::default();
        let mut prompts: HashMap<TurnId, String> = HashMap::new();
        for record in records {
            folded.apply(record);
            match &record.fact {
                Fact::Input(input) => earlier.said(&mut prompts, &input.turn, input.text()),
                Fact::Resumed { submission, reply, .. } => earlier.said(&mut prompts, submission, reply.clone()),
                // It never ran, so its line may.
                Fact::Withdrawn => {
                    let turn = record.turn.as_ref();
                    if let Some(turns) = turn.and_then(|turn| earlier.turns(&prompts, turn)) {
                        turns.retain(|earlier| Some(&earlier.submission) != turn);
                    }
                }
                Fact::Outcome(_) => {
                    let (Some(owner), Some(outcome)) = (&folded.last_submission, &folded.last) else { continue };
                    let ended = earlier.turns(&prompts, owner).into_iter().flatten();
                    for turn in ended.filter(|turn| turn.submission == *owner) {
                        turn.is_new = finished.contains(&outcome.turn_id);
                        turn.outcome = Some(Arc::clone(outcome));
                    }
                }
                _nothing_about_inputs => {}
            }
        }
        earlier
    }

    fn said(&mut self, prompts: &mut HashMap<TurnId, String>, submission: &TurnId, text: String) {
        // An input that was queued behind a question has two records: its arrival, and its use as the reply.
        if prompts.insert(submission.clone(), text.clone()).is_none() {
            let turn = EarlierTurn { submission: submission.clone(), outcome: None, is_new: false };
            self.by_prompt.entry(text).or_default().push(turn);
        }
    }

    fn turns(&mut self, prompts: &HashMap<TurnId, String>, submission: &TurnId) -> Option<&mut Vec<EarlierTurn>> {
        self.by_prompt.get_mut(prompts.get(submission)?)
    }

    /// The outcome of the session's `nth` turn of this prompt, counted from 0, and whether it was finished just now.
    pub(crate) fn outcome(&self, prompt: &str, nth: usize) -> Option<(Arc<TurnOutcome>, bool)> {
        let turn = self.by_prompt.get(prompt)?.get(nth)?;
        Some((Arc::clone(turn.outcome.as_ref()?), turn.is_new))
    }
}
