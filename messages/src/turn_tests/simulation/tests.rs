//! Many seeds, the same seed twice, an interruption at every message, and the planted defects.

use super::harness::End;
use super::{Defect, Harness, Run, run};
use crate::outcome::EndReason;
use crate::trace::fnv64;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

/// How many seeds run when nobody says otherwise.
const SEEDS: u64 = 2_000;

/// Of the usual seeds, so many reach every corner.
const CORNERS: u64 = 1_000;

/// What the usual seeds came to: up to [`CORNERS`], and the others. Two tests judge them.
static USUAL: LazyLock<[Sum; 2]> = LazyLock::new(|| [sweep_all(0, CORNERS), sweep_all(CORNERS, SEEDS)]);

/// Seeds that show rare defects, which are tried before the others.
const TELLING: [u64; 3] = [1_374, 526, 190];

/// A number from the environment, for whoever repeats a seed or wants more of them.
fn wanted(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "the one way to say which seed a test is to repeat")]
    let said = std::env::var(name).ok()?;
    Some(said.parse().expect("a number"))
}

/// A run that holds, or why it does not.
fn held(run: impl FnOnce() -> Run) -> Result<Run, String> {
    let run = catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        format!("it panicked: {}", text.unwrap_or("without words"))
    })?;
    match run.broken {
        Some(why) => Err(why),
        None => Ok(run),
    }
}

/// What a number of runs came to.
#[derive(Clone, Default)]
struct Sum {
    /// Each with the command that repeats it.
    failures: Vec<String>,
    messages: usize,
    seen: BTreeMap<String, usize>,
}

impl Sum {
    fn add(&mut self, seed: u64, run: Result<Run, String>) {
        match run {
            Ok(run) => {
                self.messages += run.messages;
                run.seen.into_iter().for_each(|(what, times)| *self.seen.entry(what).or_default() += times);
            }
            Err(why) => self.failures.push(format!(
                "seed {seed}: {why}\n  BOB_SEED={seed} cargo test -p bob-messages simulation -- --nocapture"
            )),
        }
    }

    fn join(&mut self, other: Self) {
        self.failures.extend(other.failures);
        self.messages += other.messages;
        other.seen.into_iter().for_each(|(what, times)| *self.seen.entry(what).or_default() += times);
    }
}

/// Every second seed from `first` on; twenty failures are enough.
fn sweep(first: u64, seeds: u64) -> Sum {
    let mut sum = Sum::default();
    for seed in (first..seeds).step_by(2) {
        sum.add(seed, held(|| run(seed, None, false)));
        if sum.failures.len() >= 20 {
            break;
        }
    }
    sum
}

fn sweep_all(first: u64, seeds: u64) -> Sum {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| sweep(first + 1, seeds));
        let mut sum = sweep(first, seeds);
        sum.join(other.join().expect("a sweep catches panics"));
        sum
    })
}

#[test]
fn every_seed_holds() {
    if let Some(seed) = wanted("BOB_SEED") {
        let run = run(seed, None, true);
        println!("{}", run.log.join("\n"));
        return assert_eq!(run.broken, None, "seed {seed}");
    }
    let (seeds, sum) = match wanted("BOB_SEEDS") {
        Some(seeds) => (seeds, sweep_all(0, seeds)),
        None => {
            let [mut sum, others] = USUAL.clone();
            sum.join(others);
            (SEEDS, sum)
        }
    };
    assert!(sum.failures.is_empty(), "{}", sum.failures.join("\n"));
    println!("{seeds} seeds, {} messages; {:#?}", sum.messages, sum.seen);
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

/// Interrupts runs without any other fault at each of their messages.
fn interrupted_everywhere(ends: &[End]) {
    let mut interrupted = 0;
    for seed in 0..6 {
        for message in 0..70 {
            for end in ends {
                let run = held(|| Harness::ending(seed, message, *end).run());
                let run = run.unwrap_or_else(|why| panic!("seed {seed}, {end:?} at message {message}: {why}"));
                interrupted += run.seen.get("ended").copied().unwrap_or_default();
            }
        }
    }
    assert!(interrupted > 250 * ends.len(), "{interrupted} interruptions by {ends:?}");
}

#[test]
fn a1_an_actor_may_die_at_every_message_before_amid_and_behind_its_effects() {
    interrupted_everywhere(&[End::Dies(0), End::Dies(1), End::Dies(2), End::Dies(usize::MAX)]);
}

#[test]
fn c2_a_cancel_at_every_message_leaves_one_outcome() {
    interrupted_everywhere(&[End::Stops(EndReason::Cancelled)]);
}

#[test]
fn c3_a_cancel_at_every_message_may_be_said_twice_and_mean_nobody() {
    interrupted_everywhere(&[End::CancelsTwice]);
}

#[test]
fn c7_a_deadline_at_every_message_leaves_one_outcome() {
    interrupted_everywhere(&[End::Stops(EndReason::TurnTimeout), End::Stops(EndReason::NoProgress)]);
}

#[test]
fn x4_x5_the_program_may_die_at_every_message() {
    interrupted_everywhere(&[End::ProgramDies]);
}

#[test]
fn every_planted_defect_is_found() {
    if wanted("BOB_SEED").is_some() {
        return;
    }
    let mut missed = Vec::new();
    for defect in Defect::ALL.iter().copied() {
        match TELLING
            .into_iter()
            .chain(0..SEEDS)
            .find_map(|seed| Some((seed + 1, held(|| run(seed, Some(defect), false)).err()?)))
        {
            Some((seeds, why)) => println!("{defect:?}: found by seed {seeds}: {why}"),
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "not found in {SEEDS} seeds: {missed:?}");
}

/// The checks would hold of a world in which nothing happens.
#[test]
fn the_seeds_reach_every_corner() {
    let seen = &USUAL[0].seen;
    let wanted = "Final GuardExceeded Cancelled Suspended Error MaxSteps MaxToolCalls MaxConsecutiveErrors \
                  MaxIdenticalCalls MaxTotalTokens TurnTimeout options input started answered malformed intent \
                  result steered resumed withdrawn outcome summarised truncated";
    let wanted = wanted.split_whitespace().map(str::to_owned).chain(
        [
            "flushed",
            "told of an end",
            "not open",
            "lost unread",
            "refused and kept",
            "failed and store",
            "steered true",
            "steered false",
            "steered in doubt",
            "approval asked",
            "approval decided",
            "saved true",
            "saved false",
            "ran write",
            "ran ask",
            "ran idem",
            "skills selected",
            "skills shown",
            "skills reselected",
            "reselected for Steered",
            "reselected for Condensed",
            "reselected for ToolErrors",
            "reselected for UseSkill",
            "tools limited",
            "structured",
            "waits outside",
            "snapshot",
            "asked again",
            "stands true",
            "stands false",
            "remembered",
            "ran as it was shown",
            "ran as such calls may",
            "refused at the door",
            "change told",
            "prompt behind a notice",
            "change in doubt",
            "prompt under changed options",
        ]
        .map(str::to_owned),
    );
    let statuses = ["Ok", "Error", "Denied", "Unknown", "Cancelled"].map(|status| format!("call {status}"));
    let states = ["Idle", "Start", "BuildPrompt", "LlmInfer", "CallTool", "Done"];
    let ends = states.iter().flat_map(|state| {
        let stops = ["Cancelled", "TurnTimeout", "Passivated"].map(|reason| format!("{reason} in {state}"));
        let after = ["Some(Continue)", "Some(GiveUp)", "Some(Close(Cancelled))", "None"];
        after.map(|after| format!("{after} after {state}")).into_iter().chain(stops)
    });
    let wanted = wanted.chain(statuses).chain(ends);
    let missing: Vec<_> = wanted.filter(|wanted| !seen.contains_key(wanted)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
    // A summary is wanted now and then only, and so is an answer that must fit a schema.
    for state in ["Condense", "ParseAction", "ReselectSkills"] {
        let interrupted = seen.keys().filter(|what| what.ends_with(state)).count();
        assert!(interrupted > 0, "never interrupted in {state}");
    }
}

/// What any of the machines of a run wrote, one machine writes again from the journal alone. A history of many deaths
/// may be read in more ways than are tried: of the simulated ones, which are worse than any real one, a few in a thousand
/// are told to differ although they do not.
#[test]
fn every_simulated_journal_is_replayed() {
    let (first, last) = match wanted("BOB_SEED") {
        Some(seed) => (seed, seed + 1),
        None => (0, wanted("BOB_SEEDS").unwrap_or(SEEDS) / 40),
    };
    let mut failures = Vec::new();
    for seed in first..last {
        let journal = run(seed, None, false).journal;
        if let Err(difference) = crate::replay::replay(&journal) {
            failures.push(format!(
                "seed {seed} of {} records: {difference}\n  {}\n  {}",
                journal.len(),
                difference.expected,
                difference.got
            ));
        }
    }
    let count = failures.len();
    failures.truncate(8);
    println!("figure: {count} of {} simulated journals are told to differ", last - first);
    assert!(count as u64 * 100 <= last - first, "{count} of {}:\n{}", last - first, failures.join("\n"));
}

/// A replay that finds nothing in anything would also find every journal the same.
#[test]
fn a_journal_that_the_machine_would_not_write_is_told_at_its_record() {
    use crate::store::{Fact, Record};
    use std::sync::Arc;
    let mut told = 0;
    for seed in 0..20 {
        let journal = run(seed, None, false).journal;
        for (at, record) in journal.iter().enumerate() {
            let Fact::Outcome(ended) = &record.fact else { continue };
            if ended.finish_reason != crate::chat::FinishReason::Final {
                continue;
            }
            let mut ended = ended.clone();
            ended.content.push_str(" and more");
            let mut changed = journal[..=at].to_vec();
            changed[at] = Arc::new(Record { fact: Fact::Outcome(ended), ..(**record).clone() });
            let difference = crate::replay::replay(&changed).expect_err("it says something else");
            assert_eq!(difference.record, record.version, "seed {seed}: {difference}");
            told += 1;
        }
    }
    assert!(told > 20, "{told} changes were made");
}
