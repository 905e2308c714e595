//! A place is held by one call, and comes back whatever became of it.

use super::*;
use futures_util::FutureExt;

fn alone(calls: usize) -> Most {
    Most { calls, is_shared: true }
}

fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

#[tokio::test]
async fn a_full_provider_lets_the_next_one_in_when_one_leaves() {
    let admission = Admission::default();
    let (a, b) = (session("a"), session("b"));
    let first = admission.enter("p", alone(1), &a, true).await;
    let mut second = Box::pin(admission.enter("p", alone(1), &b, true));
    assert!(second.as_mut().now_or_never().is_none());
    assert!(admission.enter("other", alone(1), &b, true).now_or_never().is_some(), "each provider has its own places");
    drop(first);
    assert!(second.now_or_never().is_some());
}

#[tokio::test]
async fn whoever_stops_waiting_is_passed_over() {
    let admission = Admission::default();
    let (a, b, c) = (session("a"), session("b"), session("c"));
    let first = admission.enter("p", alone(1), &a, true).await;
    let mut leaves_early = Box::pin(admission.enter("p", alone(1), &b, true));
    let mut stays = Box::pin(admission.enter("p", alone(1), &c, true));
    assert!(leaves_early.as_mut().now_or_never().is_none() && stays.as_mut().now_or_never().is_none());
    drop(leaves_early);
    drop(first);
    assert!(stays.now_or_never().is_some());
}

#[tokio::test]
async fn a_place_that_was_given_and_never_taken_goes_on() {
    let admission = Admission::default();
    let (a, b, c) = (session("a"), session("b"), session("c"));
    let first = admission.enter("p", alone(1), &a, true).await;
    let mut given = Box::pin(admission.enter("p", alone(1), &b, true));
    let mut next = Box::pin(admission.enter("p", alone(1), &c, true));
    assert!(given.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
    drop(first);
    drop(given);
    assert!(next.now_or_never().is_some());
    assert!(admission.enter("p", alone(1), &a, true).now_or_never().is_some(), "and no place was lost");
}

#[tokio::test]
async fn a_panic_gives_the_place_back() {
    let admission = Admission::default();
    let inside = admission.clone();
    let crashed = tokio::spawn(async move {
        let _place = inside.enter("p", alone(1), &session("a"), true).await;
        panic!("on purpose");
    });
    assert!(crashed.await.is_err());
    assert!(admission.enter("p", alone(1), &session("b"), true).now_or_never().is_some());
}

/// The one who waits goes away on another thread, and is offered the place in between.
#[tokio::test]
async fn a_place_that_is_handed_to_somebody_who_goes_away_is_free_once() {
    let admission = Admission::default();
    let (a, b, c) = (session("a"), session("b"), session("c"));
    let first = admission.enter("p", alone(1), &a, true).await;
    let Err((goes_away, turn)) = admission.try_enter("p", 1, &b, true) else { panic!("it is full") };
    drop(turn);
    drop(first);
    let mut third = Box::pin(admission.enter("p", alone(1), &c, true));
    let came_in_between = third.as_mut().now_or_never();
    drop(goes_away);
    let inside = came_in_between.or_else(|| third.now_or_never()).expect("there is a place");
    assert!(admission.enter("p", alone(1), &a, true).now_or_never().is_none(), "and no second one");
    drop(inside);
}

#[tokio::test(start_paused = true)]
async fn a_process_takes_its_part_of_a_limit_which_changes_as_others_come_and_go() {
    let processes = Arc::new(Mutex::new(Share { before: 1, processes: 2 }));
    let share = Arc::clone(&processes);
    let admission = Admission::default().shared(Arc::new(move || *share.lock().unwrap()));
    let (a, most) = (session("a"), alone(3));
    let first = admission.enter("p", most, &a, true).now_or_never().expect("one of three for the second of two");
    let mut second = Box::pin(admission.enter("p", most, &a, true));
    assert!(second.as_mut().now_or_never().is_none());
    let server = Most { is_shared: false, ..most };
    assert!(admission.enter("here", server, &a, true).now_or_never().is_some());
    assert!(
        admission.enter("here", server, &a, true).now_or_never().is_some(),
        "a server of this machine is not divided"
    );

    // The other one ends: who waits finds that out.
    *processes.lock().unwrap() = Share::default();
    let second = tokio::time::timeout(2 * LOOKED_EACH, second).await.expect("it has a place now");
    let third = admission.enter("p", most, &a, true).now_or_never().expect("the third of three");

    // Two more begin: those that are inside stay, and the places that they leave are not given on.
    *processes.lock().unwrap() = Share { before: 0, processes: 3 };
    let mut fourth = Box::pin(admission.enter("p", most, &a, true));
    assert!(fourth.as_mut().now_or_never().is_none());
    drop((first, second));
    assert!(fourth.as_mut().now_or_never().is_none());
    drop(third);
    assert!(fourth.now_or_never().is_some());
}
