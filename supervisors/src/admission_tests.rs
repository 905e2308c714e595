//! Admission: exact limits, and the order of waiting sessions.

use super::*;
use proptest::prelude::*;

fn session(name: u8) -> SessionId {
    SessionId::parse(&format!("s{name}")).unwrap()
}

#[test]
fn exactly_so_many_come_in_and_exactly_so_many_wait() {
    let mut admission = Admission::new(2, 3);
    for _ in 0..2 {
        assert!(admission.is_open(false));
        admission.slot_taken();
    }
    assert!(!admission.is_open(false));
    assert!(admission.is_open(true), "who has a place needs no other");
    for number in 0..3 {
        assert!(!admission.is_full(), "{number}");
        admission.enqueued();
        admission.queue(session(number));
    }
    assert!(admission.is_full());
    assert!(!admission.is_open(true), "but goes before nobody who waits");
    assert_eq!(admission.next(), None, "there is no place");
    admission.slot_freed();
    assert_eq!(admission.next(), Some(session(0)));
    admission.dequeued(1);
    assert!(!admission.is_full());
    assert_eq!((admission.next(), admission.running(), admission.waiting()), (None, 2, 2));
}

#[test]
fn an_admission_without_places_has_one() {
    assert!(Admission::new(0, 0).is_open(false));
}

#[test]
fn a_session_that_leaves_the_queue_is_not_let_in() {
    let mut admission = Admission::new(1, 9);
    (0..3).for_each(|number| admission.queue(session(number)));
    admission.leave_queue(&session(1));
    assert_eq!(admission.next(), Some(session(0)));
    admission.slot_freed();
    assert_eq!(admission.next(), Some(session(2)));
    admission.slot_freed();
    assert_eq!(admission.next(), None);
}

proptest! {
    /// Sessions that go to the end of the queue after each turn never run twice while another waits.
    #[test]
    fn those_who_wait_take_turns(sessions in 2_u8..9, turns in 1_usize..40) {
        let mut admission = Admission::new(1, 99);
        (0..sessions).for_each(|number| admission.queue(session(number)));
        let mut ran = Vec::new();
        for _ in 0..turns {
            let next = admission.next().unwrap();
            ran.push(next.clone());
            admission.slot_freed();
            admission.queue(next);
        }
        let expected: Vec<_> = (0..turns).map(|turn| session(u8::try_from(turn).unwrap() % sessions)).collect();
        prop_assert_eq!(ran, expected);
    }
}
