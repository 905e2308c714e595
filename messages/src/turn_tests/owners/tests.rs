//! Every place at which a process can stand still, and as many seeds as are wanted.

use super::{Defect, LEASE, Owners};

/// Seeds of the usual run; `BOB_SEEDS` runs others.
const SEEDS: u64 = 1_000;

/// The seeds that are asked for.
fn more_seeds() -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "the one way to say how long a test is to search")]
    let said = std::env::var("BOB_SEEDS").ok()?;
    Some(said.parse().expect("a number"))
}

impl Owners {
    /// The process does so many things, and stands still until its lease is over. Returns whether there were so many.
    fn stands_still(&mut self, at: usize, behind: usize) -> bool {
        for _ in 0..behind {
            if self.has_finished(at) {
                return false;
            }
            self.go_on(at);
            self.tick(1);
        }
        // What it has sent may arrive before and behind the claim of another one.
        self.tick(LEASE + 1);
        true
    }

    /// Whether nothing is open any more, and this process has nothing to do.
    fn has_finished(&self, at: usize) -> bool {
        self.broken.is_some() || (self.database.is_done(&self.requests) && !self.processes[at].is_busy())
    }

    /// The process finishes what is open, alone.
    fn finishes(&mut self, at: usize) {
        for _ in 0..1_000 {
            if self.has_finished(at) {
                return;
            }
            self.go_on(at);
            self.tick(1);
        }
    }
}

#[test]
fn of_two_processes_one_stands_still_at_every_message() {
    let (mut places, mut refused) = (0, 0);
    for behind in 0.. {
        let mut owners = Owners::new(2, 2, None);
        if !owners.stands_still(0, behind) {
            break;
        }
        places += 1;
        owners.finishes(1);
        owners.calm();
        refused += owners.processes[0].refused;
        assert_eq!(owners.broken, None, "it stands still behind {behind}");
    }
    println!("figure: {places} places");
    assert!(places > 60, "{places} places");
    assert!(refused > 2, "only {refused} side effects were not begun because the lease was over");
}

#[test]
fn of_three_processes_two_stand_still_at_every_message() {
    let mut places = 0;
    for first in 0.. {
        let mut owners = Owners::new(3, 1, None);
        if !owners.stands_still(0, first) {
            break;
        }
        // Every eleventh place behind each first one, another one each time; at night all of them.
        let step = if more_seeds().is_some() { 1 } else { 11 };
        for second in (first % step..).step_by(step) {
            let mut owners = owners.clone();
            if !owners.stands_still(1, second) {
                break;
            }
            owners.finishes(2);
            // The last one that stood still wakes first, or the first one.
            let order = if second % 2 == 0 { [0, 1] } else { [1, 0] };
            order.into_iter().for_each(|at| owners.finishes(at));
            owners.calm();
            places += 1;
            assert_eq!(owners.broken, None, "they stand still behind {first} and {second}");
        }
    }
    println!("figure: {places} pairs of places");
    assert!(places > 500, "{places} places");
}

#[test]
fn every_seed_holds_whoever_stands_still_wherever_the_database_is_and_whatever_the_clocks_do() {
    let (mut taken, mut refused, mut missed) = (0, 0, 0);
    for seed in 0..more_seeds().unwrap_or(SEEDS) {
        let owners = Owners::by_chance(seed, None);
        assert_eq!(owners.broken, None, "seed {seed}");
        taken += owners.database.epoch - 1;
        refused += owners.processes.iter().map(|process| process.refused).sum::<usize>();
        missed += owners.database.missed;
    }
    println!(
        "figure: {taken} sessions were taken from owners, {refused} side effects were not begun past a lease, \
         {missed} appends did not reach the database"
    );
    assert!(taken > 100 && refused > 10 && missed > 1_000, "{taken} taken, {refused} refused, {missed} missed");
}

#[test]
fn every_planted_defect_is_found() {
    let defects = [
        (Defect::EpochIgnored, "under an epoch that is over"),
        (Defect::EpochNotRaised, "is given twice"),
        (Defect::LeaseNotAsked, "past the lease"),
        (Defect::LeaseFromAnswer, "in a process without the session"),
        (Defect::DoubtIsDone, "begins without an intent"),
        (Defect::AwayIsDone, "begins without an intent"),
    ];
    for (defect, found) in defects {
        let mut broken = (0..SEEDS).filter_map(|seed| Owners::by_chance(seed, Some(defect)).broken);
        assert!(broken.any(|why| why.contains(found)), "{defect:?} is not found");
    }
}
