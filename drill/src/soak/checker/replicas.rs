//! Checks of several workers that share a database, and how soon sessions go on when one of them is struck. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::{Evidence, SharedEvidence, Times};
use crate::soak::chaos::Kind;
use crate::soak::verdict::Check;

/// A worker that did nothing for this long may be taken for dead, in milliseconds: it has 300 ms to take a broken lock again,
/// and less than that is not reported.
const STALLED_MS: u64 = 600;

/// Reports of a worker that are made within this time of a kill may be lost with it, in milliseconds.
const UNREPORTED_MS: u64 = 1_000;

/// Bounds that are reported and not judged, in milliseconds: of a killed worker, and of a stopped one, whose lease is 3 s.
const AFTER_KILL_MS: u64 = 1_000;
const AFTER_PAUSE_MS: u64 = 4_000;

/// What is checked beside the sessions.
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

/// A session of a worker that was struck, and when another one had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoneOn {
    pub(crate) kind: Kind,
    /// From the beginning of the kill or pause, in milliseconds.
    pub(crate) after_ms: u64,
}

/// Of each kill and pause: the sessions that the worker owned, and whose request had no outcome, with the time until another
/// worker claimed them.
pub(crate) fn resumptions(evidence: &Evidence) -> Vec<GoneOn> {
    let mut by_session: BTreeMap<&str, Vec<(u64, &str, Option<u64>)>> = BTreeMap::new();
    for (at, who, session, epoch) in &evidence.shared.claims {
        by_session.entry(session).or_default().push((*at, who, *epoch));
    }
    by_session.values_mut().for_each(|claims| claims.sort_by_key(|(at, ..)| *at));
    let mut gone_on = Vec::new();
    for (struck, kind, target) in &evidence.shared.strikes {
        if !matches!(kind, Kind::ReplicaKill | Kind::ReplicaPause) {
            continue;
        }
        for (session, claims) in &by_session {
            let last = claims.iter().rev().find(|(at, ..)| at <= struck);
            let is_owned = last.is_some_and(|(_, who, epoch)| who == target && epoch.is_some());
            if !is_owned || !has_open_request(evidence, session, *struck) {
                continue;
            }
            let next = claims.iter().find(|(at, who, epoch)| at > struck && who != target && epoch.is_some());
            if let Some((at, ..)) = next {
                gone_on.push(GoneOn { kind: *kind, after_ms: at - struck });
            }
        }
    }
    gone_on
}

/// Whether a request of the session waited for its outcome at this time.
fn has_open_request(evidence: &Evidence, session: &str, at: u64) -> bool {
    let Some(heard) = evidence.heard.get(session) else { return false };
    let asked = heard.asked.iter().filter(|(asked, _)| *asked <= at).count();
    let answered = heard.answers.iter().filter(|(answered, _)| *answered <= at).count();
    let refused = heard.refused.iter().filter(|(refused, _)| *refused <= at).count();
    asked > answered + refused
}

/// Figures of several workers.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ReplicaNumbers {
    pub(crate) kills: usize,
    pub(crate) pauses: usize,
    pub(crate) restarts: usize,
    /// Commits whose answer was lost.
    pub(crate) cuts: u64,
    /// How many claims there were.
    pub(crate) claims: usize,
    /// From a kill, or the beginning of a pause, to the claim of another worker.
    pub(crate) after_kill: Times,
    pub(crate) after_pause: Times,
    /// Those of them above the bounds of 1 s and 4 s.
    pub(crate) late_after_kill: usize,
    pub(crate) late_after_pause: usize,
    /// From the stop of the database to the next outcome.
    pub(crate) after_restart: Times,
    /// Times in which a worker did nothing for more than 0.6 s: pauses, and a busy machine.
    pub(crate) stalls: usize,
    /// How often workers entered the table of owners again.
    pub(crate) entered_again: u64,
}

impl ReplicaNumbers {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let shared = &evidence.shared;
        let count = |kind| shared.strikes.iter().filter(|(_, other, _)| *other == kind).count();
        let gone_on = resumptions(evidence);
        let of = |kind| gone_on.iter().filter(move |gone_on| gone_on.kind == kind).map(|gone_on| gone_on.after_ms);
        let times = |kind| Times::of(of(kind).map(|ms| ms * 1_000));
        Self {
            kills: count(Kind::ReplicaKill),
            pauses: count(Kind::ReplicaPause),
            restarts: count(Kind::DatabaseRestart),
            cuts: evidence.seen.cuts,
            claims: shared.claims.iter().filter(|(_, _, _, epoch)| epoch.is_some()).count(),
            after_kill: times(Kind::ReplicaKill),
            after_pause: times(Kind::ReplicaPause),
            late_after_kill: of(Kind::ReplicaKill).filter(|ms| *ms > AFTER_KILL_MS).count(),
            late_after_pause: of(Kind::ReplicaPause).filter(|ms| *ms > AFTER_PAUSE_MS).count(),
            after_restart: Times::of(after_restarts(evidence).into_iter().map(|ms| ms * 1_000)),
            stalls: shared.stalls.len(),
            entered_again: shared.superseded.values().sum(),
        }
    }

    /// Names and figures of the table.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let bound = |times: &Times, late, bound| format!("{}; {late} above {bound} s", times.text());
        let strikes = [
            format!("{} kills", self.kills),
            format!("{} pauses", self.pauses),
            format!("{} restarts of the database", self.restarts),
            format!("{} commits cut", self.cuts),
        ];
        vec![
            ("replicas", strikes.join(", ")),
            ("claims", format!("{}, {} stalls, {} entered again", self.claims, self.stalls, self.entered_again)),
            ("on after a kill", bound(&self.after_kill, self.late_after_kill, AFTER_KILL_MS / 1_000)),
            ("on after a pause", bound(&self.after_pause, self.late_after_pause, AFTER_PAUSE_MS / 1_000)),
            ("on after a restart", self.after_restart.text()),
        ]
    }
}

/// From each stop of the database to the next outcome that a submitter had. Those that had it already read it within a
/// moment, which is left out.
fn after_restarts(evidence: &Evidence) -> Vec<u64> {
    let answers = evidence.heard.values().flat_map(|heard| &heard.answers);
    let mut answered: Vec<u64> = answers.map(|(at, _)| *at).collect();
    answered.sort_unstable();
    let restarts = evidence.shared.strikes.iter().filter(|(_, kind, _)| *kind == Kind::DatabaseRestart);
    let next = |(stopped, ..): &(u64, Kind, String)| {
        answered.iter().find(|at| **at > stopped + MOMENT_MS).map(|at| at - stopped)
    };
    restarts.filter_map(next).collect()
}

/// How long an answer may be on its way when the database stops, in milliseconds.
const MOMENT_MS: u64 = 50;

#[cfg(test)]
#[path = "replicas_tests.rs"]
mod tests;
