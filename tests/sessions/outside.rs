//! Callers with another tokio runtime or with none, after the end, and with names by which no request is found again.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use bob::events::EventsFrom;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, RequestId, SessionFilter, SessionLook};
use bob::{AgentError, AgentRequest, AgentRuntime};

use crate::support::runtime::{build, over, say, scripted, session, turn, within};

/// Runs a future without a tokio runtime.
fn polled<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::yield_now(),
        }
    }
}

#[tokio::test]
async fn a_token_cancels_the_turn_of_a_caller_whose_tokio_runtime_has_ended_and_of_one_without() {
    let runtime = build(over(ScriptedLlm::from_fn(|_| ScriptedReply::Stall))).await;
    for (id, has_tokio) in [("with", true), ("without", false)] {
        let token = tokio_util::sync::CancellationToken::new();
        let request = AgentRequest { cancel: Some(token.clone()), ..AgentRequest::text(session(id), "hi") };
        let mut events = within(runtime.subscribe(session(id), EventsFrom::Now)).await.unwrap();
        let caller = runtime.clone();
        // A stream that is dropped cancels its turn, and this one is to be cancelled by its token.
        let begins = async move { caller.run_stream(request).await.map(std::mem::forget) };
        let began = thread::spawn(move || match has_tokio {
            true => tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(begins),
            false => polled(begins),
        });
        within(events.next()).await.expect("it begins").unwrap();
        began.join().expect("no panic").unwrap();
        token.cancel();
        let last = async {
            loop {
                match runtime.session(session(id)).await.unwrap() {
                    Some(SessionLook { last: Some(last), .. }) => return last,
                    _ => drop(events.next().await),
                }
            }
        };
        assert_eq!(within(last).await.finish_reason, FinishReason::Cancelled, "with a tokio runtime: {has_tokio}");
    }
    within(runtime.shutdown()).await;
}

/// An error that says to try again later would be tried for ever.
#[tokio::test]
async fn what_is_asked_after_the_end_is_answered_that_it_was_shut_down() {
    let runtime = build(scripted(vec![ScriptedReply::text("fine")])).await;
    within(runtime.run(say("hi"))).await.unwrap();
    let mut reader = within(runtime.subscribe(session("s"), EventsFrom::Now)).await.unwrap();
    within(runtime.shutdown()).await;
    assert!(within(reader.next()).await.is_none(), "a reader ends");
    let errors = [
        within(runtime.run(say("more"))).await.map(drop),
        within(runtime.session(session("s"))).await.map(drop),
        within(runtime.records(session("s"))).await.map(drop),
        within(runtime.sessions(SessionFilter::default(), None)).await.map(drop),
        within(runtime.delete(session("s"))).await.map(drop),
    ];
    for (at, ended) in errors.into_iter().enumerate() {
        assert!(matches!(&ended, Err(AgentError::Stopped(_))), "{at}: {ended:?}");
    }
}

#[tokio::test]
async fn a_request_id_that_names_nothing_or_too_much_and_labels_without_bound_are_refused() {
    let runtime = build(scripted(vec![ScriptedReply::text("fine")])).await;
    let named = |id: String| AgentRequest { request_id: Some(RequestId::new(id)), ..say("hi") };
    let labelled = |bytes: usize| {
        let labels = BTreeMap::from([("k".to_owned(), "v".repeat(bytes - 1))]);
        AgentRequest { labels, ..say("hi") }
    };
    for (request, says) in [
        (named(String::new()), "the request id is empty"),
        (named("x".repeat(1025)), "at most 1024"),
        (labelled(64 * 1024 + 1), "at most 65536"),
    ] {
        let refused = within(runtime.run(request)).await;
        assert!(matches!(&refused, Err(AgentError::Invalid(why)) if why.contains(says)), "{refused:?}");
    }
    assert!(within(runtime.session(session("s"))).await.unwrap().is_none(), "nothing is kept");
    for request in [named("x".repeat(1024)), labelled(64 * 1024)] {
        assert_eq!(turn(&runtime, request).await.content, "fine");
    }
}
