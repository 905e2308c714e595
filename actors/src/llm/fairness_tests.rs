//! Nobody waits behind another session's backlog.

use super::*;
use proptest::prelude::*;

fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

fn drain(queue: &mut Fairness<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.next()).collect()
}

#[test]
fn sessions_take_turns_whatever_their_backlog() {
    let mut queue = Fairness::default();
    for item in ["a1", "a2", "a3"] {
        queue.push(&session("a"), true, item);
    }
    queue.push(&session("b"), true, "b1");
    queue.push(&session("c"), true, "c1");
    queue.push(&session("b"), true, "b2");
    assert_eq!(drain(&mut queue), ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn interactive_calls_go_before_batch_work() {
    let mut queue = Fairness::default();
    queue.push(&session("nightly"), false, "batch");
    queue.push(&session("person"), true, "asked");
    assert_eq!(drain(&mut queue), ["asked", "batch"]);
}

#[test]
fn an_item_can_leave_before_its_turn_and_only_then() {
    let mut queue = Fairness::default();
    let first = queue.push(&session("a"), true, "a1");
    let second = queue.push(&session("a"), true, "a2");
    assert_eq!(queue.remove(&first), Some("a1"));
    assert_eq!(queue.next(), Some("a2"));
    assert_eq!(queue.remove(&second), None, "it has had its turn");
    assert!(queue.interactive.queues.is_empty() && queue.interactive.turns.is_empty());
}

#[test]
fn a_session_that_left_and_came_back_has_one_turn() {
    let mut queue = Fairness::default();
    let gone = queue.push(&session("a"), true, "gone");
    queue.remove(&gone);
    for item in ["a1", "a2"] {
        queue.push(&session("a"), true, item);
    }
    queue.push(&session("b"), true, "b1");
    assert_eq!(drain(&mut queue), ["a1", "b1", "a2"]);
}

proptest! {
    #[test]
    fn whatever_came_in_comes_out_once_or_left(
        steps in prop::collection::vec((0_u8..4, any::<bool>(), any::<bool>()), 0..60)
    ) {
        let mut queue = Fairness::default();
        let mut waiting = Vec::new();
        let mut left = 0_usize;
        for (number, (name, interactive, leaves)) in steps.iter().enumerate() {
            waiting.push(queue.push(&session(&format!("s{name}")), *interactive, number));
            if *leaves && queue.remove(&waiting[number / 2]).is_some() {
                left += 1;
            }
        }
        let mut out: Vec<usize> = std::iter::from_fn(|| queue.next()).collect();
        prop_assert_eq!(out.len() + left, steps.len());
        out.sort_unstable();
        out.dedup();
        prop_assert_eq!(out.len() + left, steps.len());
        prop_assert!(queue.interactive.queues.is_empty() && queue.batch.queues.is_empty());
    }
}
