//! Checks of several workers that share a database. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Evidence, SharedEvidence};
use crate::soak::chaos::Kind;
use crate::soak::verdict::Check;

/// A worker that did nothing for this long may be taken for dead, in milliseconds: it has 300 ms to take a broken lock again,
/// and less than that is not reported.
const STALLED_MS: u64 = 600;

/// Reports of a worker that are made within this time of a kill may be lost with it, in milliseconds.
const UNREPORTED_MS: u64 = 1_000;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let (seen, shared) = (&evidence.seen, &evidence.shared);
    let mut checks = vec![
        Check::none("messages refused", shared.refused.clone()),
        Check::none("gaps in the versions", shared.gaps.clone()),
        Check::none("epochs given twice", given_twice(shared)),
        Check::none("records of owners without a claim", unclaimed(evidence)),
        Check::none("living owners taken for dead", taken_for_dead(shared)),
        Check::none("soak ended too early", seen.died.clone().into_iter().collect()),
        Check::none("replicas ended by themselves", seen.ended.clone()),
        Check::none("zombies older than 1 s", seen.zombies.clone()),
        Check::none("orphans", seen.orphans.clone()),
    ];
    // Workers of a run that was cut were killed.
    if !seen.is_interrupted && seen.died.is_none() {
        checks.push(Check::none("messages left in the inbox", shared.waiting.clone()));
        checks.push(Check::none("sessions left with an owner", owned(shared)));
    }
    checks
}

/// A worker that hands over gives its sessions back. A killed one's are free for a claim.
fn owned(shared: &SharedEvidence) -> Vec<String> {
    let is_killed =
        |who: &str| shared.strikes.iter().any(|(_, kind, killed)| *kind == Kind::ReplicaKill && killed == who);
    let owned = shared.owned.iter().filter(|(_, who)| !is_killed(who));
    owned.map(|(session, who)| format!("{session}: {who}")).collect()
}

/// Each claim raises the epoch of its session, so that no two owners have one.
fn given_twice(shared: &SharedEvidence) -> Vec<String> {
    let mut given: HashMap<(&str, u64), &str> = HashMap::new();
    let mut twice = Vec::new();
    for (_, who, session, epoch) in &shared.claims {
        let Some(epoch) = epoch else { continue };
        if let Some(before) = given.insert((session, *epoch), who) {
            twice.push(format!("{session}: epoch {epoch} was given to {before} and to {who}"));
        }
    }
    twice
}

/// A record has the epoch of a claim. The last reports of a worker are lost with it when it is killed, so records of that
/// time are not looked at.
fn unclaimed(evidence: &Evidence) -> Vec<String> {
    let claims = &evidence.shared.claims;
    let given: HashSet<(&str, u64)> =
        claims.iter().filter_map(|(_, _, session, epoch)| Some((session.as_str(), (*epoch)?))).collect();
    let strikes = &evidence.shared.strikes;
    let kills: Vec<u64> =
        strikes.iter().filter(|(_, kind, _)| *kind == Kind::ReplicaKill).map(|(at, ..)| *at).collect();
    let is_near = |at: i64| kills.iter().any(|kill| kill.abs_diff(u64::try_from(at).unwrap_or(0)) <= UNREPORTED_MS);
    let mut missing: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for record in evidence.journals.values().flatten() {
        let key = (record.session.as_str(), record.epoch);
        if !given.contains(&key) && !is_near(record.at) {
            *missing.entry(key).or_default() += 1;
        }
    }
    missing
        .into_iter()
        .map(|((session, epoch), count)| format!("{session}: {count} records of epoch {epoch}"))
        .collect()
}

/// A worker that lives, and did nothing else than work, has one row of an owner.
fn taken_for_dead(shared: &SharedEvidence) -> Vec<String> {
    let is_excused = |who: &str| shared.stalls.iter().any(|(_, stalled, ms)| stalled == who && *ms >= STALLED_MS);
    let again = shared.superseded.iter().filter(|(who, _)| !is_excused(who));
    again.map(|(who, count)| format!("{who} had to enter {count} times more")).collect()
}

#[cfg(test)]
#[path = "replicas_tests.rs"]
mod tests;
