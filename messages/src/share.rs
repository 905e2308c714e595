//! The share of one process in a limit that all processes of a store have together.

/// Which of so many processes this one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// How many of them come before it.
    pub before: u64,
    /// How many there are, this one among them.
    pub processes: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self { before: 0, processes: 1 }
    }
}

impl Share {
    /// Its part of a limit, at least 1. The parts of all processes are the limit together, unless there are more processes than that.
    pub fn part_of(self, limit: usize) -> usize {
        let processes = usize::try_from(self.processes.max(1)).unwrap_or(usize::MAX);
        let before = usize::try_from(self.before).unwrap_or(usize::MAX);
        (limit / processes + usize::from(before < limit % processes)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_alone_has_all_of_it() {
        for limit in [1, 7, usize::MAX] {
            assert_eq!(Share::default().part_of(limit), limit);
        }
        assert_eq!(Share { before: 9, processes: 0 }.part_of(4), 4, "a number that makes no sense divides nothing");
    }

    proptest! {
        #[test]
        fn parts_come_to_the_limit_and_are_alike(limit in 1_usize..500, processes in 1_u64..50) {
            let parts: Vec<usize> = (0..processes).map(|before| Share { before, processes }.part_of(limit)).collect();
            let (least, most) = (*parts.iter().min().unwrap(), *parts.iter().max().unwrap());
            prop_assert!(least >= 1 && most - least <= 1);
            prop_assert_eq!(parts.iter().sum::<usize>(), limit.max(parts.len()));
        }
    }
}
