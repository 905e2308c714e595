//! The simulation: the machine in a seeded world in which everything goes wrong.
//!
//! A seed decides everything: which faults there are ([`plan`]), what happens next
//! ([`harness`], [`guests`], [`book`]), who answers and how ([`answers`]), what models, tools and strangers say ([`says`]). There is no
//! clock and no thread in it, so that the same seed gives the same run, line by line.
//!
//! **Checks.** After each message, at each record that is stored and at whatever is told, [`monitor`],
//! [`kept`], [`promises`], [`decisions`], [`gifts`] and [`reselects`] ask that
//! everybody is told exactly once; that what was told to have ended does not go on; that each input runs once, and none of which its caller was told that it does not; that what is told to be saved is what any later owner
//! reads; that a call with side effects runs once over all crashes, alone, behind its durable
//! intent, as it was journaled, as the tool that was shown, and only if nobody denied it; that a strict provider accepts
//! the history at every point of the journal; that the fold of the journal, the live session
//! and a machine that was written down and read again are the same; that nothing follows from
//! what is out of place. [`grammar`] and [`tally`] say what a journal may hold and count the
//! guards a second time. When the faults are over, everything must come to its end.
//!
//! **A failing seed** is printed with the command that repeats it and prints its log:
//! `BOB_SEED=1234 cargo test -p bob-messages simulation -- --nocapture`. More seeds than the
//! usual ones run with `BOB_SEEDS=1000000`.
//!
//! **Planted defects** ([`defect`]) show that the checks find what they are for.

mod answers;
mod book;
mod changes;
mod decisions;
mod defect;
mod dice;
mod gifts;
mod grammar;
mod guests;
mod harness;
mod kept;
mod monitor;
mod plan;
mod promises;
mod reselects;
mod sabotage;
mod says;
mod steering;
mod tally;
mod tests;

use defect::Defect;
pub(super) use dice::Dice;
use harness::Harness;
pub(super) use says::{Moods, reply};
use std::collections::BTreeMap;

/// How a run went.
#[derive(Debug)]
struct Run {
    /// The first thing that did not hold.
    broken: Option<String>,
    /// What happened, if it was to be written down.
    log: Vec<String>,
    /// How many messages the machines were told.
    messages: usize,
    /// What was stored in the end.
    journal: Vec<std::sync::Arc<crate::store::Record>>,
    /// How often there was what: outcomes, calls, records, crashes in each state.
    seen: BTreeMap<String, usize>,
}

/// One run of this seed, perhaps with a defect, perhaps with its log.
fn run(seed: u64, defect: Option<Defect>, traced: bool) -> Run {
    Harness::new(seed, defect, traced).run()
}
