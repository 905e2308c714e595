//! Pools of machines: which sessions a process may have.

use super::StoreError;
use crate::ids::PoolName;
use std::collections::BTreeSet;

/// The pools in which a process is. A session that is bound to a pool is given to processes of that pool alone, and one that is not
/// bound to any process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pools {
    /// Those of these names; of none by default.
    Of(BTreeSet<PoolName>),
    /// All of them: for a process that runs no turns, and changes or deletes sessions.
    All,
}

impl Default for Pools {
    fn default() -> Self {
        Self::Of(BTreeSet::new())
    }
}

impl FromIterator<PoolName> for Pools {
    fn from_iter<T: IntoIterator<Item = PoolName>>(names: T) -> Self {
        Self::Of(names.into_iter().collect())
    }
}

impl Pools {
    /// Whether a session that is bound to this pool, or to none, may be given to the process.
    pub fn reach(&self, pool: Option<&PoolName>) -> bool {
        match (self, pool) {
            (Self::All, _) | (_, None) => true,
            (Self::Of(names), Some(pool)) => names.contains(pool),
        }
    }

    /// Refuses a session that is bound to another pool.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn refuse(&self, pool: Option<&PoolName>) -> Result<(), StoreError> {
        match pool.filter(|pool| !self.reach(Some(pool))) {
            Some(pool) => Err(StoreError::Unreachable { pool: pool.clone(), processes: Vec::new() }),
            None => Ok(()),
        }
    }

    /// Their names; of all of them none.
    pub fn names(&self) -> impl Iterator<Item = &PoolName> {
        match self {
            Self::Of(names) => Some(names),
            Self::All => None,
        }
        .into_iter()
        .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> PoolName {
        PoolName::parse(name).unwrap()
    }

    #[test]
    fn a_process_has_the_sessions_of_its_pools_and_those_without_one() {
        let ours: Pools = [name("gpu"), name("big")].into_iter().collect();
        for (pools, pool, expected) in [
            (&ours, Some("gpu"), true),
            (&ours, Some("small"), false),
            (&ours, None, true),
            (&Pools::default(), Some("gpu"), false),
            (&Pools::default(), None, true),
            (&Pools::All, Some("gpu"), true),
        ] {
            let pool = pool.map(name);
            assert_eq!(pools.reach(pool.as_ref()), expected, "{pools:?} {pool:?}");
            assert_eq!(pools.refuse(pool.as_ref()).is_ok(), expected, "{pools:?} {pool:?}");
        }
    }

    #[test]
    fn a_pool_has_a_name_that_fits_everywhere() {
        for good in ["a", "gpu-1", "9.big_one", &"a".repeat(64)] {
            assert_eq!(name(good).as_str(), good);
        }
        for bad in ["", "-a", "a b", "a,b", "\u{e4}", &"a".repeat(65)] {
            assert!(PoolName::parse(bad).is_err(), "{bad}");
        }
    }
}
