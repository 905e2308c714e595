//! Admission: exact limits, the order of waiting sessions, and the shares of tenants.

use super::*;
use crate::tenants::TenantLimits;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn session(name: u8) -> SessionId {
    SessionId::parse(&format!("s{name}")).unwrap()
}

fn tenant(name: u8) -> Option<TenantId> {
    (name > 0).then(|| TenantId::new(format!("t{name}")))
}

fn unlimited(most_running: usize, most_waiting: usize) -> Admission {
    Admission::new(most_running, most_waiting, Arc::default())
}

/// Every tenant may have so many turns at once.
fn limited(most_running: usize, most_waiting: usize, each: usize) -> Admission {
    let all = TenantLimits { max_concurrent_turns: each, ..TenantLimits::default() };
    Admission::new(most_running, most_waiting, Arc::new(TenantRules { all, own: BTreeMap::new() }))
}

fn next(admission: &mut Admission) -> Option<SessionId> {
    admission.admit_next().map(|(session, _)| session)
}

#[test]
fn exactly_so_many_come_in_and_exactly_so_many_wait() {
    let mut admission = unlimited(2, 3);
    for _ in 0..2 {
        assert!(admission.is_open(None, false));
        admission.slot_taken(None);
    }
    assert!(!admission.is_open(None, false));
    assert!(admission.is_open(None, true), "who has a place needs no other");
    for number in 0..3 {
        assert!(!admission.is_full(None), "{number}");
        admission.enqueued(None);
        admission.queue(None, session(number));
    }
    assert!(admission.is_full(None));
    assert!(!admission.is_open(None, true), "but goes before nobody who waits");
    assert_eq!(admission.admit_next(), None, "there is no place");
    admission.slot_freed(None);
    assert_eq!(admission.admit_next(), Some((session(0), None)));
    admission.dequeued(None);
    assert!(!admission.is_full(None));
    assert_eq!((admission.admit_next(), admission.running(), admission.waiting()), (None, 2, 2));
}

#[test]
fn an_admission_without_places_has_one() {
    assert!(unlimited(0, 0).is_open(None, false));
}

#[test]
fn a_session_that_leaves_the_queue_is_not_let_in() {
    let mut admission = unlimited(1, 9);
    (0..3).for_each(|number| admission.queue(None, session(number)));
    admission.leave_queue(&session(1));
    assert_eq!(next(&mut admission), Some(session(0)));
    admission.slot_freed(None);
    assert_eq!(next(&mut admission), Some(session(2)));
    admission.slot_freed(None);
    assert_eq!(next(&mut admission), None);
}

#[test]
fn a_tenant_at_its_limit_waits_though_there_are_slots_and_delays_no_other() {
    let mut admission = limited(9, 9, 2);
    let (one, other) = (tenant(1), tenant(2));
    for _ in 0..2 {
        assert!(admission.is_open(one.as_ref(), false) && !admission.is_at_limit(one.as_ref()));
        admission.slot_taken(one.as_ref());
    }
    assert!(!admission.is_open(one.as_ref(), false) && admission.is_at_limit(one.as_ref()));
    admission.enqueued(one.as_ref());
    admission.queue(one.as_ref(), session(1));
    assert_eq!(admission.admit_next(), None);
    assert!(admission.is_open(other.as_ref(), false) && admission.is_open(None, false));
    admission.slot_taken(other.as_ref());
    assert!(admission.is_open(other.as_ref(), true), "those at their own limit are not overtaken");
    admission.slot_freed(one.as_ref());
    assert_eq!(admission.admit_next(), Some((session(1), one.clone())));
    assert_eq!(admission.of(one.as_ref()), (2, 1));
}

#[test]
fn one_tenant_does_not_fill_the_queue_of_the_others() {
    let mut admission = unlimited(1, 8);
    let (one, other) = (tenant(1), tenant(2));
    admission.slot_taken(one.as_ref());
    let mut queued = 0;
    while !admission.is_full(one.as_ref()) {
        admission.enqueued(one.as_ref());
        queued += 1;
    }
    assert_eq!(queued, 4, "half of it");
    let mut queued = 0;
    while !admission.is_full(other.as_ref()) {
        admission.enqueued(other.as_ref());
        queued += 1;
    }
    assert_eq!(queued, 2, "half of the rest");
    assert!(!admission.is_full(tenant(3).as_ref()));
}

#[derive(Debug, Clone)]
enum Step {
    /// A session of a tenant has a submission.
    Submit(u8),
    /// The turn of this number among those that run ends.
    End(usize),
    /// A queued session gives up.
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..4_u8).prop_map(Step::Submit),
        4 => (0..9_usize).prop_map(Step::End),
        1 => (0..9_usize).prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    /// Sessions that go to the end of the queue after each turn never run twice while another waits.
    #[test]
    fn those_who_wait_take_turns(sessions in 2_u8..9, turns in 1_usize..40) {
        let mut admission = unlimited(1, 99);
        (0..sessions).for_each(|number| admission.queue(None, session(number)));
        let mut ran = Vec::new();
        for _ in 0..turns {
            let next = next(&mut admission).unwrap();
            ran.push(next.clone());
            admission.slot_freed(None);
            admission.queue(None, next);
        }
        let expected: Vec<_> = (0..turns).map(|turn| session(u8::try_from(turn).unwrap() % sessions)).collect();
        prop_assert_eq!(ran, expected);
    }

    /// Over any submissions and ends: no limit is exceeded, no slot is free while a tenant could use it, no tenant gets a
    /// slot while one with fewer waits, and within a tenant the longest wait is next.
    #[test]
    fn slots_are_shared_fairly_and_none_is_wasted(steps in steps(), most in 1_usize..6, each in 0_usize..4) {
        let mut admission = limited(most, 1_000, each);
        let mut waiting: BTreeMap<u8, VecDeque<SessionId>> = (0..4).map(|name| (name, VecDeque::new())).collect();
        let mut running: Vec<u8> = Vec::new();
        let mut number = 0;
        let limit = |name: u8| if name == 0 || each == 0 { usize::MAX } else { each };
        for step in steps {
            match step {
                Step::Submit(name) => {
                    let (of, id) = (tenant(name), SessionId::parse(&format!("x{number}")).unwrap());
                    number += 1;
                    let own = running.iter().filter(|other| **other == name).count();
                    let is_open = running.len() < most && own < limit(name);
                    prop_assert_eq!(admission.is_open(of.as_ref(), false), is_open);
                    if is_open {
                        admission.slot_taken(of.as_ref());
                        running.push(name);
                    } else {
                        admission.enqueued(of.as_ref());
                        admission.queue(of.as_ref(), id.clone());
                        waiting.get_mut(&name).unwrap().push_back(id);
                    }
                }
                Step::End(at) if !running.is_empty() => {
                    let name = running.remove(at % running.len());
                    admission.slot_freed(tenant(name).as_ref());
                    while let Some((id, of)) = admission.admit_next() {
                        let name = (0..4).find(|name| tenant(*name) == of).unwrap();
                        let has = |name: u8| running.iter().filter(|other| **other == name).count();
                        prop_assert_eq!(waiting.get_mut(&name).unwrap().pop_front(), Some(id));
                        prop_assert!(has(name) < limit(name));
                        for (other, queue) in &waiting {
                            prop_assert!(queue.is_empty() || has(*other) >= limit(*other) || has(*other) >= has(name));
                        }
                        admission.dequeued(of.as_ref());
                        running.push(name);
                    }
                }
                Step::Leave(at) => {
                    let all: Vec<_> = waiting.iter().flat_map(|(name, queue)| queue.iter().map(|id| (*name, id.clone()))).collect();
                    if let Some((name, id)) = all.get(at % all.len().max(1)) {
                        waiting.get_mut(name).unwrap().retain(|other| other != id);
                        admission.leave_queue(id);
                        admission.dequeued(tenant(*name).as_ref());
                    }
                }
                Step::End(_nothing_runs) => {}
            }
            prop_assert!(running.len() <= most);
            prop_assert_eq!((admission.running(), admission.waiting()), (running.len(), waiting.values().map(VecDeque::len).sum()));
            for name in 0..4 {
                let has = running.iter().filter(|other| **other == name).count();
                prop_assert_eq!(admission.of(tenant(name).as_ref()), (has, waiting[&name].len()));
                let could_run = running.len() < most && has < limit(name);
                prop_assert!(waiting[&name].is_empty() || !could_run, "a slot is free, and tenant {} waits", name);
            }
        }
    }

    /// With one slot, of tenants that always have something to do each has as many turns as any other, whatever number of
    /// sessions each has.
    #[test]
    fn tenants_that_always_wait_take_turns(sessions in prop::collection::vec(1_u8..9, 2..5), rounds in 1_usize..20) {
        let mut admission = unlimited(1, 1_000);
        for (name, count) in (1..).zip(&sessions) {
            (0..*count).for_each(|at| admission.queue(tenant(name).as_ref(), session(name * 10 + at)));
        }
        let mut turns = BTreeMap::<Option<TenantId>, usize>::new();
        for _ in 0..rounds * sessions.len() {
            let (session, of) = admission.admit_next().unwrap();
            *turns.entry(of.clone()).or_default() += 1;
            admission.slot_freed(of.as_ref());
            admission.queue(of.as_ref(), session);
        }
        prop_assert!(turns.values().all(|turns| *turns == rounds), "{:?}", turns);
    }
}
