//! The ids of a session's newest records. Those of an owner are its epoch and their versions, so a run of them takes no
//! more room than one.

use bob_messages::ids::RecordId;
use bob_messages::store::Record;
use std::collections::VecDeque;

/// The ids of the newest records, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KnownIds {
    runs: VecDeque<Run>,
    len: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Run {
    /// Those of one epoch, which are [numbered](RecordId::numbered).
    Numbered {
        epoch: u64,
        records: usize,
    },
    Named(RecordId),
}

impl KnownIds {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Knows the id of the next record.
    pub(super) fn push(&mut self, record: &Record) {
        self.len += 1;
        let is_numbered = record.id == RecordId::numbered(record.epoch, record.version);
        if let (true, Some(Run::Numbered { epoch, records })) = (is_numbered, self.runs.back_mut())
            && *epoch == record.epoch
        {
            *records += 1;
            return;
        }
        if self.runs.is_empty() {
            // Mostly the only one; the usual growth would make room for four.
            self.runs.reserve_exact(1);
        }
        self.runs.push_back(match is_numbered {
            true => Run::Numbered { epoch: record.epoch, records: 1 },
            false => Run::Named(record.id.clone()),
        });
    }

    /// Lets go of all but this many of the newest.
    pub(super) fn keep(&mut self, most: usize) {
        let mut old = self.len.saturating_sub(most);
        self.len -= old;
        while old > 0 {
            match self.runs.front_mut() {
                Some(Run::Numbered { records, .. }) if *records > old => {
                    *records -= old;
                    return;
                }
                Some(Run::Numbered { records, .. }) => old -= *records,
                Some(Run::Named(_)) => old -= 1,
                None => return,
            }
            self.runs.pop_front();
        }
    }

    /// Whether the id at this place, from the oldest on, is that of the record.
    pub(super) fn is_at(&self, mut place: usize, record: &Record) -> bool {
        for run in &self.runs {
            let (length, id) = match run {
                Run::Numbered { epoch, records } => (*records, &RecordId::numbered(*epoch, record.version)),
                Run::Named(id) => (1, id),
            };
            if place < length {
                return *id == record.id;
            }
            place -= length;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob_messages::ids::SessionId;
    use bob_messages::store::{FORMAT, Fact};
    use proptest::prelude::*;

    fn record(version: u64, epoch: u64, name: Option<u8>) -> Record {
        Record {
            format: FORMAT,
            id: name.map_or(RecordId::numbered(epoch, version), |name| RecordId::new(format!("named {name}"))),
            session: SessionId::parse("s").unwrap(),
            version,
            epoch,
            turn: None,
            at: 0,
            fact: Fact::Withdrawn,
        }
    }

    proptest! {
        /// The oracle is the list of all ids.
        #[test]
        fn runs_are_the_list_of_ids(
            made in prop::collection::vec((0..3u64, prop::option::weighted(0.2, 0..3u8)), 0..40),
            most in 0..40usize,
        ) {
            let records: Vec<_> = (1..).zip(made).map(|(version, (epoch, name))| record(version, epoch, name)).collect();
            let mut known = KnownIds::default();
            records.iter().for_each(|record| known.push(record));
            known.keep(most);
            let kept = &records[records.len().saturating_sub(most)..];
            prop_assert_eq!(known.len(), kept.len());
            for place in 0..records.len() + 1 {
                let version = kept.get(place).map_or(1, |record| record.version);
                for other in (0..3).flat_map(|epoch| [None, Some(0), Some(1), Some(2)].map(|name| record(version, epoch, name))) {
                    let is_there = kept.get(place).is_some_and(|kept| kept.id == other.id);
                    prop_assert_eq!(known.is_at(place, &other), is_there);
                }
            }
        }
    }

    #[test]
    fn the_records_of_one_owner_take_the_room_of_one() {
        let mut known = KnownIds::default();
        (1..=1_000).for_each(|version| known.push(&record(version, 7, None)));
        assert_eq!((known.runs.len(), known.runs.capacity()), (1, 1));
    }
}
