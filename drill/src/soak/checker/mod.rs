//! The checker judges a run by the data that the run left. It shares no code with the runtime but the vocabulary of
//! records, and it is a pure function of [`Evidence`], which makes it testable.
//!
//! | file | owns |
//! |---|---|
//! | `evidence` | the input and its collection |
//! | `session` | reports about a session against its journal and its side effects |
//! | `replicas` | several workers: whose sessions were when, and what their database has |
//! | `gone_on` | how soon sessions go on when a worker is struck |
//! | `late` | whether that was in time |
//! | `figures` | percentiles and slopes |

mod evidence;
mod figures;
mod gone_on;
mod late;
mod replicas;
mod session;

use std::collections::{BTreeMap, HashSet};

use bob_messages::chat::FinishReason;

pub(crate) use evidence::{Evidence, Fault, SharedEvidence};
pub(crate) use figures::{Memory, Times};
pub(crate) use gone_on::{ReplicaNumbers, resumptions};
use session::{Flaw, SessionEvidence};

use super::parent::FEW;
use super::plan::Plan;
use super::turns::{Doing, Place};
use super::verdict::{Check, Numbers, Verdict};

/// A cancel's outcome comes within this time for 99 of 100, in milliseconds. A build without optimisation is given more.
const CANCEL_MS: f64 = if cfg!(debug_assertions) { 2_000.0 } else { 50.0 };

/// The share of turns that no fault hit and that must have their answer.
const SUCCESS: f64 = 0.995;

/// How long before a turn a tool server that was struck may still be away, in milliseconds.
const AWAY_MS: u64 = 10_000;

/// How long a fault may be felt in its session, in milliseconds. A trap waits until its actor passes.
const FELT_MS: u64 = 2_000;
const TRAP_FELT_MS: u64 = 30_000;

/// The check of events, which a run of several workers does not have.
const ENDS_TOLD: &str = "ends told wrongly by events";

pub(crate) fn judge(plan: &Plan, evidence: &Evidence) -> Verdict {
    let mut flaws: BTreeMap<Flaw, Vec<String>> = BTreeMap::new();
    let seen = &evidence.seen;
    // Submitters of several workers live on when those hang: what has no answer then is lost.
    let is_cut = seen.is_interrupted || (seen.died.is_some() && plan.replicas.is_none());
    let nothing = (Default::default(), Vec::new());
    let names: HashSet<&String> = evidence.heard.keys().chain(evidence.journals.keys()).collect();
    for name in names {
        let found = session::check(&SessionEvidence {
            name,
            has_events: plan.replicas.is_none(),
            heard: evidence.heard.get(name).unwrap_or(&nothing.0),
            records: evidence.journals.get(name).unwrap_or(&nothing.1),
            effects: &evidence.effects,
            kills: &seen.kills,
            is_cut,
        });
        found.into_iter().for_each(|(flaw, line)| flaws.entry(flaw).or_default().push(line));
    }
    let known: HashSet<String> = evidence.journals.values().flat_map(|records| session::tokens(records)).collect();
    for token in evidence.effects.keys().filter(|token| !known.contains(*token)) {
        flaws.entry(Flaw::EffectWithoutIntent).or_default().push(format!("{token} happened, and no journal knows it"));
    }
    let mut numbers = numbers(plan, evidence);
    let mut checks = of_sessions(flaws);
    checks.push(Check::count("turns that were not run", not_run(plan, evidence, is_cut)));
    checks.push(Check::none("journals that cannot be read", evidence.unreadable.clone()));
    if plan.replicas.is_some() {
        // No event of a worker is reported, and each of several workers ends in the middle of its work.
        checks.retain(|check| check.name != ENDS_TOLD);
        checks.extend(replicas::check(evidence));
        checks.extend(late::checks(evidence, &numbers.turn));
        checks.extend(of_share(plan, &numbers));
        numbers.replicas = Some(ReplicaNumbers::of(evidence));
    } else {
        checks.extend(of_processes(plan, evidence));
        checks.extend(of_figures(&numbers));
        checks.extend(of_share(plan, &numbers));
    }
    Verdict { checks, numbers }
}

/// How many turns of the plan have no answer. Of a run that was cut, or that had a time instead of a number of turns, one
/// must have one: a run in which nothing happened shows nothing.
fn not_run(plan: &Plan, evidence: &Evidence, is_cut: bool) -> u64 {
    let answers = evidence.heard.values().flat_map(|heard| &heard.answers);
    let run: HashSet<Place> = answers.filter_map(|(_, answer)| Place::parse(&answer.request)).collect();
    let planned = plan.turns.filter(|_| !is_cut).map_or(1, |turns| u64::from(turns) * u64::from(plan.sessions));
    planned.saturating_sub(u64::try_from(run.len()).unwrap_or(u64::MAX))
}

fn of_sessions(mut flaws: BTreeMap<Flaw, Vec<String>>) -> Vec<Check> {
    let mut check = |name, flaw| Check::none(name, flaws.remove(&flaw).unwrap_or_default());
    vec![
        check("acknowledged turns lost", Flaw::Lost),
        check("acknowledged turns changed", Flaw::Changed),
        check("requests or outcomes duplicated", Flaw::Duplicated),
        check("out of order", Flaw::Disorder),
        check("requests without an answer", Flaw::Unanswered),
        check("requests answered twice", Flaw::AnsweredTwice),
        check(ENDS_TOLD, Flaw::EndReportedWrongly),
        check("turns left open", Flaw::Open),
        check("unpaired calls", Flaw::Unpaired),
        check("side effects run twice", Flaw::EffectTwice),
        check("side effects without an intent", Flaw::EffectWithoutIntent),
        check("side effects that did not happen", Flaw::EffectLost),
    ]
}

fn of_processes(plan: &Plan, evidence: &Evidence) -> Vec<Check> {
    let seen = &evidence.seen;
    let (ready, actors_at_first) = seen.ready.unwrap_or_default();
    let back = |name, first: u64, last: u64, most: u64| {
        let found = format!("{first} → {last}");
        Check { name, found, limit: format!("+{most} at most"), holds: last <= first + most, examples: Vec::new() }
    };
    // Without a turn before the run, the store is opened in it.
    let few = if plan.own.is_some() { FEW + 10 } else { FEW };
    let as_u64 = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let mut checks = vec![
        Check::none("worker ended by itself", seen.died.clone().into_iter().collect()),
        Check::none("zombies older than 1 s", seen.zombies.clone()),
        Check::none("orphans", seen.orphans.clone()),
        Check::count("sessions that did not leave", as_u64(seen.left_live)),
    ];
    // A run that was cut has no end to look at.
    if let Some((quiet, actors)) = seen.quiet {
        checks.push(back("actors at the end", as_u64(actors_at_first), as_u64(actors), 0));
        checks.push(back("file descriptors at the end", ready.fds, quiet.fds, few));
        checks.push(back("threads at the end", ready.threads, quiet.threads, FEW));
    }
    checks
}

fn of_figures(numbers: &Numbers) -> Vec<Check> {
    let memory = &numbers.memory;
    let growth = Check {
        name: "memory growth after warm-up",
        found: format!("{:.1} MiB in {:.0} s", memory.growth_mib(), memory.window_s),
        limit: format!("{:.0} MiB", memory.most_growth_mib()),
        holds: memory.growth_mib() <= memory.most_growth_mib(),
        examples: Vec::new(),
    };
    let mut checks = vec![growth];
    if numbers.cancel.count > 0 {
        checks.push(of_cancels(numbers));
    }
    checks
}

/// A run in which every turn fails loses nothing, and shows nothing.
fn of_share(plan: &Plan, numbers: &Numbers) -> Option<Check> {
    if plan.own.is_some() || numbers.unhit == 0 {
        return None;
    }
    let share = numbers.unhit_answered as f64 / numbers.unhit as f64;
    Some(Check {
        name: "turns no fault hit that succeeded",
        found: format!("{:.2} % of {}", share * 100.0, numbers.unhit),
        limit: format!("{} %", SUCCESS * 100.0),
        holds: share >= SUCCESS,
        examples: numbers.unhit_failed.clone(),
    })
}

/// Latency of cancels minus the scheduling latency of an empty task in the same process and time. Where that latency
/// alone exceeds half of the limit for one in ten, the result is undecided.
fn of_cancels(numbers: &Numbers) -> Check {
    let Numbers { cancel, cancel_judged, cancel_late, .. } = numbers;
    let is_busy = cancel_late.p90 > CANCEL_MS / 2.0;
    let found = if is_busy {
        format!("not judged: the machine was busy, an empty task was late by {:.1} ms (p90)", cancel_late.p90)
    } else {
        format!("{:.1} ms of {} ({:.1} by the clock)", cancel_judged.p99, cancel.count, cancel.p99)
    };
    Check {
        name: "cancel p99",
        found,
        limit: format!("{CANCEL_MS} ms"),
        holds: is_busy || cancel_judged.p99 <= CANCEL_MS,
        examples: Vec::new(),
    }
}

fn numbers(plan: &Plan, evidence: &Evidence) -> Numbers {
    let seen = &evidence.seen;
    let answers = || evidence.heard.values().flat_map(|heard| &heard.answers);
    let cancels = || answers().filter_map(|(_, answer)| answer.cancel);
    // The requests of a burst wait behind each other.
    let of_clients = || answers().filter(|(_, answer)| answer.session.starts_with('s'));
    let mut numbers = Numbers {
        answered: answers().count(),
        refused: evidence.heard.values().map(|heard| heard.refused.len()).sum(),
        steps: answers().map(|(_, answer)| u64::from(answer.steps)).sum(),
        effects: evidence.effects.values().map(|times| u64::from(*times)).sum(),
        kills: seen.kills.len(),
        turn: Times::of(of_clients().map(|(_, answer)| answer.took_us)),
        cancel: Times::of(cancels().map(|cancel| cancel.us)),
        cancel_judged: Times::of(cancels().map(|cancel| cancel.us.saturating_sub(cancel.late_us))),
        cancel_late: Times::of(cancels().map(|cancel| cancel.late_us)),
        server_back: Times::of(evidence.backs.iter().map(|(_, _, after_ms)| after_ms * 1_000)),
        process_start: Times::of(seen.starts_ms.iter().map(|ms| ms * 1_000)),
        gone_ms: seen.gone_ms,
        memory: Memory::of(&seen.samples),
        most_live: seen.samples.iter().map(|sample| sample.live).max().unwrap_or(0),
        duration_s: seen.samples.last().map_or(0.0, |sample| sample.at_ms as f64 / 1_000.0),
        ..Numbers::default()
    };
    for (_, answer) in answers() {
        *numbers.outcomes.entry(reason(answer.reason)).or_default() += 1;
    }
    for fault in &evidence.faults {
        *numbers.faults.entry(super::chaos::name(fault.kind)).or_default() += 1;
    }
    numbers.of_processor(&seen.samples, seen.ready.map(|(figures, _)| figures));
    unhit(plan, evidence, &mut numbers);
    numbers
}

fn reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Final => "final",
        FinishReason::GuardExceeded => "guard_exceeded",
        FinishReason::Cancelled => "cancelled",
        FinishReason::Suspended => "suspended",
        FinishReason::Error => "error",
    }
}

/// Counts the turns that nothing hit, and those of them that have their answer.
fn unhit(plan: &Plan, evidence: &Evidence, numbers: &mut Numbers) {
    let (everybody, some): (Vec<&Fault>, Vec<&Fault>) =
        evidence.faults.iter().partition(|fault| fault.sessions.is_empty());
    let mut of_session: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for fault in some {
        let later = if fault.kind.is_trap() { TRAP_FELT_MS } else { FELT_MS };
        for session in &fault.sessions {
            of_session.entry(session).or_default().push((fault.at, fault.at + later));
        }
    }
    let (rooms, servers): (Vec<&Fault>, Vec<&Fault>) = everybody.into_iter().partition(|fault| fault.kind.is_trap());
    let span = |faults: Vec<&Fault>| faults.iter().map(|fault| (fault.at, fault.at + AWAY_MS)).collect::<Vec<_>>();
    let (mut rooms, servers) = (span(rooms), span(servers));
    // What happens to a worker or to the database is felt in whatever runs at that time.
    rooms.extend(evidence.shared.strikes.iter().map(|(at, ..)| (*at, *at + AWAY_MS)));
    let within = |spans: &[(u64, u64)], from: u64, to: u64| spans.iter().any(|(at, end)| *at <= to && *end >= from);
    for (name, heard) in evidence.heard.iter().filter(|(name, _)| name.starts_with('s')) {
        let felt = of_session.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        for (at, answer) in &heard.answers {
            let Some(place) = Place::parse(&answer.request) else { continue };
            let began = at.saturating_sub(answer.took_us / 1_000);
            let is_plain = match Doing::of(plan, place) {
                Doing::Talk => true,
                Doing::LocalEffect => true,
                Doing::Read | Doing::Effect | Doing::Effects => !within(&servers, began, *at),
                Doing::Panic | Doing::Slow | Doing::Big | Doing::Sick(_) | Doing::Malformed => false,
            };
            let is_again = heard.asked.iter().filter(|(_, request)| *request == answer.request).count() > 1;
            let is_hit = within(felt, began, *at)
                || within(&rooms, began, *at)
                || evidence.seen.kills.iter().any(|kill| (*kill..=*kill + AWAY_MS).contains(&began));
            if !is_plain || is_again || is_hit {
                continue;
            }
            numbers.unhit += 1;
            if answer.reason == FinishReason::Final {
                numbers.unhit_answered += 1;
            } else if numbers.unhit_failed.len() < 5 {
                let why = answer.error.as_deref().unwrap_or_default();
                numbers.unhit_failed.push(format!("{}: {} {why}", answer.request, reason(answer.reason)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::chaos::{Chaos, Kind, Shape};
    use crate::soak::plan::{Replicas, StoreKind};
    use crate::soak::wire::Answer;

    #[test]
    fn a_run_in_which_nothing_happened_does_not_pass() {
        let mut plan = Plan {
            folder: std::path::PathBuf::new(),
            sessions: 3,
            turns: Some(2),
            duration_ms: None,
            think_ms: 0,
            seed: 1,
            chaos: Chaos::parse("off", Shape::Worker).unwrap(),
            store: StoreKind::Sqlite,
            own: None,
            replicas: None,
            defect: None,
        };
        let not_run = |plan: &Plan, evidence: &Evidence| {
            let verdict = judge(plan, evidence);
            let check = verdict.checks.into_iter().find(|check| check.name == "turns that were not run").unwrap();
            (check.found, check.holds)
        };
        let mut evidence = Evidence::default();
        assert_eq!(not_run(&plan, &evidence), ("6".to_owned(), false));
        evidence.seen.is_interrupted = true;
        assert_eq!(not_run(&plan, &evidence), ("1".to_owned(), false));
        (plan.turns, plan.duration_ms, evidence.seen.is_interrupted) = (None, Some(1_000), false);
        assert_eq!(not_run(&plan, &evidence), ("1".to_owned(), false));
    }

    #[test]
    fn turns_that_no_fault_hit_succeed_also_where_several_workers_run() {
        let mut plan = Plan {
            folder: std::path::PathBuf::new(),
            sessions: 1,
            turns: Some(400),
            duration_ms: None,
            think_ms: 0,
            seed: 1,
            chaos: Chaos::parse("off", Shape::Replicas).unwrap(),
            store: StoreKind::Postgres,
            own: None,
            replicas: None,
            defect: None,
        };
        let answer = |turn: u32| Answer {
            session: "s0".to_owned(),
            request: Place { session: 0, turn }.request(),
            turn: format!("t{turn}"),
            reason: FinishReason::Error,
            content: String::new(),
            saved: true,
            steps: 1,
            calls: Vec::new(),
            error: Some("it does not work".to_owned()),
            took_us: 1,
            cancel: None,
        };
        let mut evidence = Evidence::default();
        let heard = evidence.heard.entry("s0".to_owned()).or_default();
        heard.answers.extend((0..400).map(|turn| (100_000, answer(turn))));
        let holds = |plan: &Plan, evidence: &Evidence| {
            let checks = judge(plan, evidence).checks;
            checks.iter().find(|check| check.name == "turns no fault hit that succeeded").map(|check| check.holds)
        };
        assert_eq!(holds(&plan, &evidence), Some(false));
        plan.replicas = Some(Replicas { count: 2, url: None });
        assert_eq!(holds(&plan, &evidence), Some(false));
        evidence.shared.strikes.push((100_000 - AWAY_MS, Kind::ReplicaKill, "r0.0".to_owned()));
        assert_eq!(holds(&plan, &evidence), None, "a kill was felt in all of them");
    }

    #[test]
    fn a_cancel_is_judged_by_what_is_left_when_an_empty_task_is_taken_away() {
        let of = |times: &[(f64, f64)]| {
            let us = |ms: f64| (ms * 1_000.0) as u64;
            let each = || times.iter().map(|(took, late)| (us(*took), us(*late)));
            of_cancels(&Numbers {
                cancel: Times::of(each().map(|(took, _)| took)),
                cancel_judged: Times::of(each().map(|(took, late)| took.saturating_sub(late))),
                cancel_late: Times::of(each().map(|(_, late)| late)),
                ..Numbers::default()
            })
        };
        // Slow; slow because of the machine; and a machine too busy to decide.
        assert!(!of(&[(CANCEL_MS * 2.0, 0.0)]).holds);
        assert!(of(&[(CANCEL_MS * 2.0, CANCEL_MS * 1.5), (10.0, 0.0), (10.0, 0.0)]).holds);
        let busy = of(&[(CANCEL_MS * 9.0, CANCEL_MS * 2.0)]);
        assert!(busy.holds && busy.found.starts_with("not judged: the machine was busy"), "{}", busy.found);
    }
}
