//! Closed, open, one probe, and back.

use super::*;
use proptest::prelude::*;

const POLICY: BreakerPolicy = BreakerPolicy { failures: 3, lasting_ms: 100, probe_every_ms: 1_000 };

/// A breaker that opened at 200; it fails since 0.
fn open() -> Breaker {
    let mut breaker = Breaker::default();
    for now_ms in [0, 100, 200] {
        assert_eq!(breaker.pass(now_ms), Passage::Free);
        breaker.failed(false, now_ms, POLICY);
    }
    breaker
}

#[test]
fn l13_failures_in_a_row_that_last_open_it() {
    let refused = Passage::Refused(Down { for_ms: 300, next_try_in_ms: Some(900) });
    assert_eq!(open().pass(300), refused);
}

#[test]
fn l13_many_failures_at_once_are_no_outage() {
    let mut breaker = Breaker::default();
    (0..1_000).for_each(|_| breaker.failed(false, 7, POLICY));
    assert_eq!(breaker.pass(106), Passage::Free);
    breaker.failed(false, 107, POLICY);
    assert!(matches!(breaker.pass(107), Passage::Refused(_)), "they have lasted");
}

#[test]
fn l13_one_success_between_failures_keeps_it_closed() {
    let mut breaker = Breaker::default();
    for now_ms in (0..100_000).step_by(1_000) {
        breaker.failed(false, now_ms, POLICY);
        breaker.failed(false, now_ms + 500, POLICY);
        breaker.succeeded(false);
        assert_eq!(breaker.pass(now_ms), Passage::Free);
    }
}

#[test]
fn l13_one_caller_is_the_probe_and_its_success_closes() {
    let mut breaker = open();
    assert_eq!(breaker.pass(1_200), Passage::Probe);
    assert_eq!(breaker.pass(1_200), Passage::Refused(Down { for_ms: 1_200, next_try_in_ms: None }));
    breaker.succeeded(true);
    assert_eq!((breaker, breaker.down(1_201)), (Breaker::default(), None));
}

#[test]
fn l13_a_failed_probe_keeps_it_open_for_another_interval() {
    let mut breaker = open();
    assert_eq!(breaker.pass(5_000), Passage::Probe);
    breaker.failed(true, 5_010, POLICY);
    assert_eq!(breaker.pass(6_009), Passage::Refused(Down { for_ms: 6_009, next_try_in_ms: Some(1) }));
    assert_eq!(breaker.pass(6_010), Passage::Probe);
}

#[test]
fn l13_a_probe_that_is_let_go_leaves_its_place_to_the_next() {
    let mut breaker = open();
    assert_eq!(breaker.pass(1_200), Passage::Probe);
    breaker.let_go(1_300);
    assert_eq!(breaker.pass(1_300), Passage::Probe);
}

#[test]
fn l13_whoever_began_before_it_opened_decides_nothing() {
    for now_ms in [300, 1_200] {
        let mut breaker = open();
        let _passage = breaker.pass(now_ms);
        let before = breaker;
        breaker.succeeded(false);
        breaker.failed(false, now_ms, POLICY);
        assert_eq!(breaker, before);
    }
}

proptest! {
    /// Whatever callers do, at most one probe is on its way, and no caller is turned
    /// away for longer than an interval once every probe has ended.
    #[test]
    fn l13_one_probe_at_a_time_and_always_a_next_one(steps in proptest::collection::vec((0_u64..700, 0_u8..4), 1..200)) {
        let (mut breaker, mut now_ms, mut probing, mut inside) = (Breaker::default(), 0, false, 0_u32);
        for (wait_ms, choice) in steps {
            now_ms += wait_ms;
            match choice {
                0 => match breaker.pass(now_ms) {
                    Passage::Free => inside += 1,
                    Passage::Probe => {
                        prop_assert!(!probing, "two probes");
                        probing = true;
                    }
                    Passage::Refused(Down { next_try_in_ms: Some(wait), .. }) => {
                        prop_assert!(!probing && wait <= POLICY.probe_every_ms);
                    }
                    Passage::Refused(Down { next_try_in_ms: None, .. }) => prop_assert!(probing),
                },
                1 if probing => {
                    breaker.let_go(now_ms);
                    probing = false;
                }
                2 if probing || inside > 0 => {
                    breaker.failed(probing, now_ms, POLICY);
                    if probing { probing = false } else { inside -= 1 }
                }
                3 if probing || inside > 0 => {
                    breaker.succeeded(probing);
                    if probing { probing = false } else { inside -= 1 }
                }
                _nobody_to_speak_of => {}
            }
        }
    }
}
