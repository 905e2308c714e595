//! A place is held by one call, and comes back whatever became of it.

use super::*;
use futures_util::FutureExt;

fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

#[tokio::test]
async fn a_full_provider_lets_the_next_one_in_when_one_leaves() {
    let admission = Admission::default();
    let (a, b) = (session("a"), session("b"));
    let first = admission.enter("p", 1, &a, true).await;
    let mut second = Box::pin(admission.enter("p", 1, &b, true));
    assert!(second.as_mut().now_or_never().is_none());
    assert!(admission.enter("other", 1, &b, true).now_or_never().is_some(), "each provider has its own places");
    drop(first);
    assert!(second.now_or_never().is_some());
}

#[tokio::test]
async fn whoever_stops_waiting_is_passed_over() {
    let admission = Admission::default();
    let (a, b, c) = (session("a"), session("b"), session("c"));
    let first = admission.enter("p", 1, &a, true).await;
    let mut leaves_early = Box::pin(admission.enter("p", 1, &b, true));
    let mut stays = Box::pin(admission.enter("p", 1, &c, true));
    assert!(leaves_early.as_mut().now_or_never().is_none() && stays.as_mut().now_or_never().is_none());
    drop(leaves_early);
    drop(first);
    assert!(stays.now_or_never().is_some());
}

#[tokio::test]
async fn a_place_that_was_given_and_never_taken_goes_on() {
    let admission = Admission::default();
    let (a, b, c) = (session("a"), session("b"), session("c"));
    let first = admission.enter("p", 1, &a, true).await;
    let mut given = Box::pin(admission.enter("p", 1, &b, true));
    let mut next = Box::pin(admission.enter("p", 1, &c, true));
    assert!(given.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
    drop(first);
    drop(given);
    assert!(next.now_or_never().is_some());
    assert!(admission.enter("p", 1, &a, true).now_or_never().is_some(), "and no place was lost");
}

#[tokio::test]
async fn a_panic_gives_the_place_back() {
    let admission = Admission::default();
    let inside = admission.clone();
    let crashed = tokio::spawn(async move {
        let _place = inside.enter("p", 1, &session("a"), true).await;
        panic!("on purpose");
    });
    assert!(crashed.await.is_err());
    assert!(admission.enter("p", 1, &session("b"), true).now_or_never().is_some());
}

/// The one who waits goes away on another thread, and is offered the place in between.
#[tokio::test]
async fn a_place_that_is_handed_to_somebody_who_goes_away_is_free_once() {
    let admission = Admission::default();
    let (a, b, c) = (session("a"), session("b"), session("c"));
    let first = admission.enter("p", 1, &a, true).await;
    let Err((goes_away, turn)) = admission.try_enter("p", 1, &b, true) else { panic!("it is full") };
    drop(turn);
    drop(first);
    let mut third = Box::pin(admission.enter("p", 1, &c, true));
    let came_in_between = third.as_mut().now_or_never();
    drop(goes_away);
    let inside = came_in_between.or_else(|| third.now_or_never()).expect("there is a place");
    assert!(admission.enter("p", 1, &a, true).now_or_never().is_none(), "and no second one");
    drop(inside);
}
