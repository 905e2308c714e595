//! A batch, taken apart by session.

use super::journals::Journals;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, StoreError};
use std::collections::HashMap;

/// The appends of a batch that are of one session, with their places in it.
#[derive(Debug)]
pub(super) struct Group {
    session: SessionId,
    places: Vec<usize>,
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

    /// Stores it. Answers each append with its place in the batch.
    pub(super) fn store(self, journals: &Journals) -> impl Iterator<Item = (usize, Result<u64, StoreError>)> + use<> {
        let answers = journals.append(&self.session, &self.appends);
        self.places.into_iter().zip(answers)
    }
}
