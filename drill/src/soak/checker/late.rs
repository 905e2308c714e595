//! Whether other workers went on in time with the sessions of one that was struck. Pure.
//!
//! A session is judged where nothing else held it up: no other fault, no worker that had no processor for a moment, and no
//! turns that queue for the processors. Otherwise its time says more of the machine than of the workers.

use super::gone_on::{AFTER_KILL_MS, AFTER_PAUSE_MS, GoneOn, resumptions};
use super::{Evidence, SharedEvidence, Times};
use crate::soak::chaos::Kind;
use crate::soak::verdict::Check;

/// How long a pause, or a stop of the database, may be felt, in milliseconds.
const FELT_MS: u64 = 10_000;

/// Turns of which one in ten takes longer than this wait for each other, in milliseconds.
const QUEUED_MS: f64 = 1_000.0;

/// One check for each kind of fault from which sessions have to go on. `turn`: how long turns took.
pub(super) fn checks(evidence: &Evidence, turn: &Times) -> Vec<Check> {
    let gone_on = resumptions(evidence);
    let kinds = [
        (Kind::ReplicaKill, "sessions late after a kill", AFTER_KILL_MS),
        (Kind::ReplicaPause, "sessions late after a pause", AFTER_PAUSE_MS),
    ];
    let of_kind = |(kind, name, bound): (Kind, &'static str, u64)| {
        let of: Vec<_> = gone_on.iter().filter(|gone_on| gone_on.kind == kind).collect();
        (!of.is_empty()).then(|| check(name, bound, &of, &evidence.shared, turn))
    };
    kinds.into_iter().filter_map(of_kind).collect()
}

fn check(name: &'static str, bound: u64, of: &[&GoneOn], shared: &SharedEvidence, turn: &Times) -> Check {
    let limit = format!("none above {bound} ms");
    if turn.p90 > QUEUED_MS {
        let found = format!("not judged: turns queued for the processors, {:.0} ms (p90)", turn.p90);
        return Check { name, found, limit, holds: true, examples: Vec::new() };
    }
    let (judged, held_up): (Vec<&GoneOn>, Vec<&GoneOn>) =
        of.iter().copied().partition(|gone_on| !is_held_up(gone_on, shared));
    let late = judged.iter().filter(|gone_on| gone_on.after_ms > bound);
    let late: Vec<_> = late.map(|late| format!("{}: after {} ms", late.session, late.after_ms)).collect();
    let found =
        format!("{} of {}; {} not judged, which something else held up", late.len(), judged.len(), held_up.len());
    Check { name, found, limit, holds: late.is_empty(), examples: late }
}

/// Whether something else happened between the fault and the claim that may have delayed it.
fn is_held_up(gone_on: &GoneOn, shared: &SharedEvidence) -> bool {
    let (struck, claimed) = (gone_on.struck, gone_on.struck + gone_on.after_ms);
    let stalled = |(until, who, ms): &(u64, String, u64)| {
        *who != gone_on.target && until.saturating_sub(*ms) <= claimed && *until >= struck
    };
    let hit = |(at, kind, target): &(u64, Kind, String)| {
        let felt = if *kind == Kind::ReplicaKill { 0 } else { FELT_MS };
        let is_itself = (*at, kind, target) == (struck, &gone_on.kind, &gone_on.target);
        !is_itself && *at <= claimed && at + felt >= struck
    };
    shared.stalls.iter().any(stalled) || shared.strikes.iter().any(hit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Times = Times { count: 9, p50: 80.0, p90: 200.0, p99: 300.0, max: 400.0 };

    fn gone_on(after_ms: u64) -> GoneOn {
        let (target, session) = ("r0.0".to_owned(), "s0".to_owned());
        GoneOn { kind: Kind::ReplicaKill, struck: 100_000, target, session, after_ms }
    }

    fn holds(after_ms: u64, stalls: &[(u64, &str, u64)], strikes: &[(u64, Kind, &str)]) -> bool {
        let mut shared = SharedEvidence::default();
        shared.strikes.push((100_000, Kind::ReplicaKill, "r0.0".to_owned()));
        shared.strikes.extend(strikes.iter().map(|(at, kind, target)| (*at, *kind, (*target).to_owned())));
        shared.stalls.extend(stalls.iter().map(|(until, who, ms)| (*until, (*who).to_owned(), *ms)));
        check("late", AFTER_KILL_MS, &[&gone_on(after_ms)], &shared, &QUICK).holds
    }

    #[test]
    fn a_session_is_late_where_nothing_else_held_it_up() {
        assert!(holds(900, &[], &[]));
        assert!(!holds(1_100, &[], &[]));
        // The dead one, and one that had its processor back before, or lost it later.
        assert!(!holds(1_100, &[(100_500, "r0.0", 400), (99_000, "r1.0", 400), (102_000, "r1.0", 400)], &[]));
        assert!(holds(1_100, &[(100_500, "r1.0", 300)], &[]));
        assert!(!holds(
            1_100,
            &[],
            &[(99_000, Kind::ReplicaKill, "r1.0"), (80_000, Kind::DatabaseRestart, "database")]
        ));
        assert!(holds(1_100, &[], &[(100_400, Kind::ReplicaKill, "r1.0")]));
        assert!(holds(1_100, &[], &[(95_000, Kind::DatabaseRestart, "database")]));
    }

    #[test]
    fn nothing_is_judged_where_turns_queue() {
        let shared = SharedEvidence::default();
        let slow = Times { p90: 5_000.0, ..QUICK };
        let busy = check("late", AFTER_KILL_MS, &[&gone_on(7_800)], &shared, &slow);
        assert!(busy.holds && busy.found.starts_with("not judged: turns queued"), "{}", busy.found);
    }
}
