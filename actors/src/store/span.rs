//! Which of a session's records are read, for stores that keep the version of the last snapshot.

use bob_messages::store::Part;

/// Which of a session's records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    Whole,
    Part(Part),
}

impl Span {
    /// The first version and the last one, in a journal of `version` records whose last snapshot is at `snapshot`: 0 where
    /// there is none. The first one is behind the last one where there is nothing to read.
    pub(super) fn bounds(self, snapshot: u64, version: u64) -> (u64, u64) {
        match self {
            Self::Whole => (1, version),
            Self::Part(Part::Latest) => (snapshot.max(1), version),
            Self::Part(Part::Page { behind, most }) => {
                let first = behind.min(version) + 1;
                (first, version.min((first - 1).saturating_add(most as u64)))
            }
        }
    }
}
