//! How soon sessions go on when one of several workers, or their database, is struck. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Evidence, Times};
use crate::soak::chaos::Kind;

/// Bounds, in milliseconds: of a killed worker, and of a stopped one, whose lease is 3 s.
pub(super) const AFTER_KILL_MS: u64 = 1_000;
pub(super) const AFTER_PAUSE_MS: u64 = 4_000;

/// Less than this is not counted as a stall of a worker, in milliseconds: it does not matter for its lock.
const STALL_MS: u64 = 600;

/// A session of a worker that was struck, and when another one had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoneOn {
    pub(crate) kind: Kind,
    /// When the worker was struck, which one, and whose session it was.
    pub(crate) struck: u64,
    pub(crate) target: String,
    pub(crate) session: String,
    /// From the beginning of the kill or pause, in milliseconds.
    pub(crate) after_ms: u64,
}

/// When a session was claimed, by which worker, and the epoch; `None` when it was given back.
type Claimed<'a> = (u64, &'a str, Option<u64>);

/// Of each kill and pause: the sessions that the worker owned, and whose request had no outcome, with the time until another
/// worker claimed them.
pub(crate) fn resumptions(evidence: &Evidence) -> Vec<GoneOn> {
    let mut by_session: BTreeMap<&str, Vec<Claimed<'_>>> = BTreeMap::new();
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
            // One whose outcome was there already had nothing to go on with.
            let is_answered = |until| first_answer(evidence, session, *struck).is_some_and(|at| at <= until);
            if let Some((at, ..)) = next.filter(|(at, ..)| !is_answered(*at)) {
                let (target, session) = (target.clone(), (*session).to_owned());
                gone_on.push(GoneOn { kind: *kind, struck: *struck, target, session, after_ms: at - struck });
            }
        }
    }
    gone_on
}

/// When the session had its next outcome behind this time.
fn first_answer(evidence: &Evidence, session: &str, behind: u64) -> Option<u64> {
    let answers = evidence.heard.get(session).into_iter().flat_map(|heard| &heard.answers);
    answers.map(|(at, _)| *at).filter(|at| *at > behind).min()
}

/// Whether a request of the session waited for its outcome at this time.
fn has_open_request(evidence: &Evidence, session: &str, at: u64) -> bool {
    let Some(heard) = evidence.heard.get(session) else { return false };
    let asked = heard.asked.iter().filter(|(asked, _)| *asked <= at).count();
    let answered = heard.answers.iter().filter(|(answered, _)| *answered <= at).count();
    let refused = heard.refused.iter().filter(|(refused, _)| *refused <= at).count();
    asked > answered + refused
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ReplicaNumbers {
    pub(crate) kills: usize,
    pub(crate) pauses: usize,
    pub(crate) restarts: usize,
    /// Commits whose answer was lost.
    pub(crate) cuts: u64,
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
            stalls: shared.stalls.iter().filter(|(_, _, ms)| *ms >= STALL_MS).count(),
            entered_again: shared.superseded.values().sum(),
        }
    }

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
#[path = "gone_on_tests.rs"]
mod tests;
