//! The median latency of each provider's calls, kept across restarts.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

/// Of how many of the newest calls the median is taken.
const NEWEST: usize = 51;

/// How many providers are remembered.
const MOST_PROVIDERS: usize = 64;

/// The newest latencies of each provider, in milliseconds, the oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Latencies {
    by_provider: BTreeMap<String, VecDeque<u64>>,
    /// Whether there are some that were not written.
    pub(super) is_dirty: bool,
}

impl Latencies {
    /// Reads those that were kept; none, when they cannot be read.
    pub(super) fn of_file(file: &Path) -> Self {
        let read = std::fs::read_to_string(file).ok();
        let kept: BTreeMap<String, VecDeque<u64>> =
            read.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let mut latencies = Self::default();
        for (provider, all) in kept {
            all.into_iter().for_each(|ms| latencies.took(&provider, ms));
        }
        latencies.is_dirty = false;
        latencies
    }

    pub(super) fn took(&mut self, provider: &str, ms: u64) {
        if !self.by_provider.contains_key(provider) {
            if self.by_provider.len() >= MOST_PROVIDERS {
                return;
            }
            self.by_provider.insert(provider.to_owned(), VecDeque::new());
        }
        let Some(newest) = self.by_provider.get_mut(provider) else { return };
        if newest.len() == NEWEST {
            newest.pop_front();
        }
        newest.push_back(ms);
        self.is_dirty = true;
    }

    pub(super) fn p50_ms(&self) -> BTreeMap<String, u64> {
        let median = |newest: &VecDeque<u64>| {
            let mut sorted: Vec<u64> = newest.iter().copied().collect();
            sorted.sort_unstable();
            sorted.get((sorted.len().max(1) - 1) / 2).copied()
        };
        self.by_provider.iter().filter_map(|(provider, newest)| Some((provider.clone(), median(newest)?))).collect()
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(&self.by_provider).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_newest_is_kept_across_restarts() {
        let mut latencies = Latencies::default();
        for ms in [9_000, 100, 300, 200] {
            latencies.took("a", ms);
        }
        assert_eq!(latencies.p50_ms(), BTreeMap::from([("a".to_owned(), 200)]), "the lower of the two in the middle");
        for _ in 0..NEWEST {
            latencies.took("a", 5);
        }
        latencies.took("b", 7);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/latency.json");
        super::super::cache::write(&file, &latencies.text()).unwrap();
        let read = Latencies::of_file(&file);
        assert_eq!(read.p50_ms(), BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 7)]));
        assert!(!read.is_dirty);
        std::fs::write(&file, "{\"a\": \"no numbers\"}").unwrap();
        assert_eq!(Latencies::of_file(&file), Latencies::default());
    }
}
