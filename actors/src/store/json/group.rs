//! A batch, taken apart by session.

use super::journals::Journals;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, StoreError};
use std::collections::HashMap;
use std::time::Duration;

/// What became of appends, each with its place in the batch.
pub(super) type Answers = Vec<(usize, Result<u64, StoreError>)>;

/// The appends of a batch that are of one session, with their places in it.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) session: SessionId,
    pub(super) places: Vec<usize>,
    appends: Vec<Append>,
}

impl Group {
    pub(super) fn of(batch: Vec<Append>) -> Vec<Self> {
        let mut groups: HashMap<SessionId, Self> = HashMap::new();
        for (place, append) in batch.into_iter().enumerate() {
            let session = append.session.clone();
            let new = || Self { session: session.clone(), places: Vec::new(), appends: Vec::new() };
            let group = groups.entry(session.clone()).or_insert_with(new);
            group.places.push(place);
            group.appends.push(append);
        }
        groups.into_values().collect()
    }

    /// Stores it, or gives it back when the journal stays locked for longer than this.
    pub(super) fn store(self, journals: &Journals, patience: Duration) -> Result<Answers, Self> {
        match journals.append_within(&self.session, &self.appends, patience) {
            Some(answers) => Ok(self.places.into_iter().zip(answers).collect()),
            None => Err(self),
        }
    }
}
