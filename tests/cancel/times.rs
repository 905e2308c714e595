//! Cancelling twice, an unknown session, before the start, concurrently, and after the end: one cancel is enough.

use bob::events::OnDrop;
use bob::sessions::{CancellationToken, FinishReason};
use bob::{AgentRequest, AgentRuntime, Runtime};
use futures_util::FutureExt;

use crate::cancel::waits::spawned;
use crate::support::runtime::{Recorder, build, session, turn, within};
use crate::support::stuck::{Places, Wait};

/// How a session is cancelled in a row of the table.
#[derive(Clone, Copy, Debug)]
enum Times {
    /// The session is unknown.
    Unknown,
    /// Its turn is over.
    After,
    /// The request has a token that was cancelled before.
    Before,
    /// Immediately, before the submission is handled.
    AtOnce,
    /// The second when the first has been answered, before the outcome is read.
    Twice,
    /// The second before the first is handled.
    Together,
    /// By its token, and by name, at once.
    TokenAndName,
    /// By name and by dropping its stream, at once.
    NameAndStream,
    /// Ten times, by ten callers.
    Tenfold,
}

const ALL: [Times; 9] = [
    Times::Unknown,
    Times::After,
    Times::Before,
    Times::AtOnce,
    Times::Twice,
    Times::Together,
    Times::TokenAndName,
    Times::NameAndStream,
    Times::Tenfold,
];

const STUCK: Wait = Wait::Changes;

/// Cancels as configured; returns the result of each cancel, and the outcome of the turn and its durability.
async fn cancel(
    times: Times,
    places: &Places,
    runtime: &Runtime,
    number: usize,
) -> (Vec<bool>, Option<bob::AgentResponse>) {
    let id = STUCK.session(number);
    let stop = || runtime.cancel(id.clone());
    let token = CancellationToken::new();
    let request = AgentRequest { cancel: Some(token.clone()), ..STUCK.request(number) };
    match times {
        Times::Unknown => return (vec![stop().await], None),
        Times::After => {
            let outcome = turn(runtime, STUCK.next(number)).await;
            assert_eq!(outcome.content, "fine");
            return (vec![stop().await, stop().await], None);
        }
        Times::Before => {
            token.cancel();
            let running = spawned(runtime, request);
            return (vec![], within(running).await.ok());
        }
        Times::AtOnce => {
            let mut running = Box::pin(runtime.run(request));
            assert!(running.as_mut().now_or_never().is_none(), "it is submitted, and no more");
            let stopped = stop().await;
            let result = within(running).await.expect("it was taken");
            return (vec![stopped], Some(result.response().clone()));
        }
        Times::NameAndStream => {
            let stream = within(runtime.run_stream(request)).await.expect("it is taken").on_drop(OnDrop::Cancel);
            within(places.until(&id)).await;
            let stopped = stop();
            drop(stream);
            return (vec![stopped.await], None);
        }
        Times::Twice | Times::Together | Times::TokenAndName | Times::Tenfold => {}
    }
    let running = spawned(runtime, request);
    within(places.until(&id)).await;
    // A later cancel finds the turn stopping or ended; both results are valid.
    let stopped = match times {
        Times::Twice => {
            let first = stop().await;
            stop().await;
            first
        }
        Times::Together => {
            let (first, _second) = tokio::join!(stop(), stop());
            first
        }
        Times::TokenAndName => {
            token.cancel();
            stop().await;
            token.is_cancelled()
        }
        _ => futures_util::future::join_all((0..10).map(|_| stop())).await.contains(&true),
    };
    (vec![stopped], within(running).await.ok())
}

#[tokio::test]
async fn c3_however_often_and_whenever_a_turn_is_cancelled_it_ends_once() {
    for times in ALL {
        let (places, recorder) = (Places::new(), Recorder::new());
        let runtime = build(places.in_memory().sink(recorder.clone())).await;
        let other = spawned(&runtime, AgentRequest::text(session("headers-0"), "headers"));
        within(places.until(&session("headers-0"))).await;
        let (answers, outcome) = within(cancel(times, &places, &runtime, 1)).await;
        let expected = !matches!(times, Times::Unknown | Times::After);
        assert!(answers.iter().all(|answer| *answer == expected), "{times:?}: {answers:?}");
        if let Some(outcome) = outcome {
            assert_eq!(outcome.finish_reason, FinishReason::Cancelled, "{times:?}");
            assert_eq!(recorder.ends(&outcome.turn_id), 1, "{times:?}: one terminal event");
        }
        assert_eq!(turn(&runtime, STUCK.next(1)).await.content, "fine", "{times:?}: the session goes on");
        assert!(!other.is_finished(), "{times:?}: nobody else is meant");
        assert!(within(runtime.cancel(session("headers-0"))).await);
        within(other).await.expect("answered");
        recorder.assert_in_order();
        within(runtime.shutdown()).await;
        assert!(!within(runtime.cancel(STUCK.session(1))).await, "{times:?}: nothing is left to be cancelled");
    }
}
