//! Many seeds, the same seed twice, and the planted defects.

use super::{Defect, Run, run};
use crate::trace::fnv64;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many seeds run when nobody says otherwise.
const SEEDS: u64 = 10_000;

/// A number from the environment, for whoever repeats a seed or wants more of them.
fn wanted(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "the one way to say which seed a test is to repeat")]
    let said = std::env::var(name).ok()?;
    Some(said.parse().expect("a seed is a number"))
}

/// Why this seed fails, if it does.
fn failure(seed: u64, defect: Option<Defect>) -> Result<Run, String> {
    let run = catch_unwind(AssertUnwindSafe(|| run(seed, defect, false)));
    let run = run.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        format!("it panicked: {}", text.unwrap_or("without words"))
    })?;
    match run.broken {
        Some(why) => Err(why),
        None => Ok(run),
    }
}

/// Runs every `of`-th seed from `first` on; the failures, each with how to repeat it, and
/// how many messages there were.
fn sweep(first: u64, of: u64, seeds: u64) -> (Vec<String>, usize) {
    let (mut failures, mut messages) = (Vec::new(), 0);
    for seed in (first..seeds).step_by(usize::try_from(of).unwrap_or(1)) {
        match failure(seed, None) {
            Ok(run) => messages += run.messages,
            Err(why) => failures.push(format!(
                "seed {seed}: {why}\n  BOB_SEED={seed} cargo test -p bob-messages simulation -- --nocapture"
            )),
        }
        if failures.len() > 20 {
            break;
        }
    }
    (failures, messages)
}

#[test]
fn every_seed_holds() {
    if let Some(seed) = wanted("BOB_SEED") {
        let run = run(seed, None, true);
        println!("{}", run.log.join("\n"));
        return assert_eq!(run.broken, None, "seed {seed}");
    }
    let seeds = wanted("BOB_SEEDS").unwrap_or(SEEDS);
    let (mut failures, messages) = std::thread::scope(|scope| {
        let other = scope.spawn(|| sweep(1, 2, seeds));
        let (mut failures, messages) = sweep(0, 2, seeds);
        let (more, others) = other.join().expect("a sweep catches panics");
        failures.extend(more);
        (failures, messages + others)
    });
    failures.truncate(20);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{seeds} seeds, {messages} messages");
}

#[test]
fn a_seed_gives_the_same_log_each_time() {
    let mut logs = BTreeSet::new();
    for seed in 0..300 {
        let [one, two] = [(); 2].map(|()| run(seed, None, true).log.join("\n"));
        assert_eq!(fnv64(one.as_bytes()), fnv64(two.as_bytes()), "seed {seed} gives two logs");
        logs.insert(fnv64(one.as_bytes()));
    }
    assert_eq!(logs.len(), 300, "each seed is another run");
}

#[test]
fn every_planted_defect_is_found() {
    if wanted("BOB_SEED").is_some() {
        return;
    }
    let mut missed = Vec::new();
    for defect in Defect::ALL {
        match (0..SEEDS).find_map(|seed| Some((seed + 1, failure(seed, Some(defect)).err()?))) {
            Some((seeds, why)) => println!("{defect:?}: found by seed {seeds}: {why}"),
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "not found in {SEEDS} seeds: {missed:?}");
}

/// The checks would hold of a world in which nothing happens.
#[test]
fn the_seeds_reach_every_corner() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        seen.extend(run(seed, None, false).seen);
    }
    let wanted = "Final GuardExceeded Cancelled Suspended Error MaxSteps MaxToolCalls MaxConsecutiveErrors \
                  MaxIdenticalCalls MaxTotalTokens TurnTimeout Options Input Started Answered Malformed Intent \
                  ApprovalAsked ApprovalDecided Result Steered Resumed Withdrawn Outcome";
    let spaced = [
        "call Ok",
        "call Error",
        "call Denied",
        "call Unknown",
        "call Cancelled",
        "saved true",
        "saved false",
        "ran write",
        "ran ask",
        "ran idem",
    ];
    let wanted = wanted.split_whitespace().chain(spaced);
    let missing: Vec<_> = wanted.filter(|wanted| !seen.contains(*wanted)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}
