//! As many seeds as are wanted, the same seed twice, and the planted defects.

use super::{Defect, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds of the usual run.
const SEEDS: u64 = 400;

/// How many seeds a planted defect has to be found.
const TO_BE_FOUND: u64 = 400;

/// How many things happen while something goes wrong.
const STEPS: usize = 400;

/// What the seeds reach together.
const CORNERS: [&str; 35] = [
    "a child is cancelled",
    "a child is cancelled with its caller",
    "a child is found at work",
    "a child is given up",
    "a child works",
    "a child works three levels below the root",
    "a call is refused for now",
    "a claim is lost",
    "a decision is handed down",
    "a foreign token is tried",
    "a grandchild asks",
    "a grandchild works",
    "a journal of a child is read",
    "a person allows",
    "a person denies",
    "a question is given up",
    "a side effect begins",
    "a turn ends at a limit",
    "a turn is cancelled",
    "a turn is suspended",
    "a turn runs out of time",
    "an actor dies in the middle",
    "an actor dies while it stops",
    "an answer of the store is lost",
    "an idle actor is stopped",
    "an input waits",
    "an orphan is closed",
    "children work beside each other",
    "tasks end with their turn",
    "the actor of a child dies",
    "the actor of the root dies",
    "the program ends",
    "the result of a task begins a turn",
    "the result of a task is read",
    "what was open is finished",
];

impl Tree {
    /// A run of this seed.
    fn run(seed: u64, defect: Option<Defect>, traced: bool) -> Self {
        let mut tree = Self::new(seed, defect, traced);
        tree.person_acts();
        for _ in 0..STEPS {
            if tree.broken.is_some() || tree.is_quiet() && !tree.has_something_to_say() {
                break;
            }
            if tree.is_quiet() || tree.dice.rarely(25) {
                tree.disturb();
            } else {
                tree.deliver();
            }
        }
        tree.is_calm = true;
        tree.dice.calm();
        let open = tree.comes_to_its_end();
        tree.must(open.is_empty(), || open.join("; "));
        if tree.broken.is_none() {
            tree.adds_up();
        }
        tree
    }

    /// A run, or how it panicked.
    fn held(seed: u64, defect: Option<Defect>) -> Result<Self, String> {
        let run = catch_unwind(AssertUnwindSafe(|| Self::run(seed, defect, false)));
        let run = run.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        })?;
        match run.broken {
            Some(why) => Err(why),
            None => Ok(run),
        }
    }
}

/// A number from the environment.
fn wanted(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "the one way to say which seeds a test is to run")]
    let said = std::env::var(name).ok()?;
    Some(said.parse().expect("a number"))
}

/// Every second seed; a few failures are enough.
fn sweep(first: u64, seeds: u64) -> (Vec<String>, BTreeMap<&'static str, usize>) {
    let (mut failures, mut seen) = (Vec::new(), BTreeMap::new());
    for seed in (first..seeds).step_by(2) {
        match Tree::held(seed, None) {
            Ok(tree) => tree.seen.iter().for_each(|(what, times)| *seen.entry(*what).or_default() += times),
            Err(why) => failures.push(format!(
                "seed {seed}: {why}\n  BOB_SEED={seed} cargo test -p bob-messages tree:: -- --nocapture"
            )),
        }
        if failures.len() >= 10 {
            break;
        }
    }
    (failures, seen)
}

#[test]
fn every_seed_holds_and_together_they_reach_what_there_is() {
    if let Some(seed) = wanted("BOB_SEED") {
        let tree = Tree::run(seed, None, true);
        println!("{}", tree.log.unwrap_or_default().join("\n"));
        return assert_eq!(tree.broken, None, "seed {seed}");
    }
    let seeds = wanted("BOB_SEEDS").unwrap_or(SEEDS);
    let (mut failures, mut seen) = std::thread::scope(|scope| {
        let other = scope.spawn(|| sweep(1, seeds));
        let (mut failures, mut seen) = sweep(0, seeds);
        let (more, others) = other.join().expect("a sweep catches panics");
        failures.extend(more);
        others.into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times);
        (failures, seen)
    });
    failures.sort();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("figure: {seeds} seeds; {seen:#?}");
    let missing: Vec<_> = CORNERS.into_iter().filter(|corner| seen.remove(corner).is_none()).collect();
    assert!(missing.is_empty(), "no seed reaches {missing:?}");
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let mut logs = BTreeSet::new();
    for seed in 0..20 {
        let [one, two] = [(); 2].map(|()| Tree::run(seed, None, true).log.unwrap_or_default());
        assert_eq!(one, two, "seed {seed} gives two runs");
        logs.insert(one);
    }
    assert_eq!(logs.len(), 20, "each seed is another run");
}

#[test]
fn every_planted_defect_is_found() {
    let defects = [
        (Defect::BeginsAnother, "are begun by one call"),
        (Defect::RepeatsEffects, "begins twice"),
        (Defect::ForgetsLine, "above itself"),
        (Defect::HandsDownAll, "promises more"),
        (Defect::ForgetsBill, "on the bill"),
        (Defect::CountsTwice, "on the bill"),
        (Defect::CancelsNotBelow, "below a turn that has ended"),
        (Defect::TellsTheDead, "has no answer"),
        (Defect::ConfusesChildren, "was decided so"),
        (Defect::ForgetsToken, "is open for ever"),
        (Defect::LosesResult, "is open for ever"),
        (Defect::BringsTwice, "was brought 2 times"),
        (Defect::LeavesSuspended, "is open for ever"),
    ];
    let mut not_found = Vec::new();
    for (defect, found) in defects {
        let mut others = BTreeSet::new();
        let at = (0..TO_BE_FOUND).find(|seed| {
            let Err(why) = Tree::held(*seed, Some(defect)) else { return false };
            let is_found = why.contains(found);
            if !is_found {
                others.insert(why.chars().take(160).collect::<String>());
            }
            is_found
        });
        match at {
            Some(seed) => println!("figure: {defect:?} is found by seed {seed}"),
            None => not_found.push(format!("{defect:?}: {others:#?}")),
        }
    }
    assert!(not_found.is_empty(), "{}", not_found.join("\n"));
}
