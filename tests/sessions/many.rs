//! Many sessions in one runtime, and many runtimes in one process.

use bob::health::RuntimeStatus;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::{AgentRequest, AgentRuntime};
use futures_util::future::join_all;

use crate::support::runtime::{Recorder, build, over, say, scripted, session, turn, within};

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_sessions_at_once_answer_each_for_itself() {
    let recorder = Recorder::new();
    let model = ScriptedLlm::from_fn(|request| ScriptedReply::text(format!("I am {}", request.session)));
    let runtime = build(over(model).sink(recorder.clone())).await;
    let turns = (0..200).map(|number| {
        let runtime = runtime.clone();
        tokio::spawn(async move { turn(&runtime, AgentRequest::text(session(&format!("s{number}")), "who?")).await })
    });
    for (number, outcome) in within(join_all(turns.collect::<Vec<_>>())).await.into_iter().enumerate() {
        let outcome = outcome.expect("each is answered");
        assert_eq!((outcome.finish_reason, outcome.content), (FinishReason::Final, format!("I am s{number}")));
        assert!(outcome.saved);
    }
    assert_eq!(within(runtime.health()).await.live_sessions, 200);
    recorder.assert_in_order();
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn several_runtimes_live_in_one_process_and_know_nothing_of_each_other() {
    let one = build(scripted(vec![ScriptedReply::text("one")])).await;
    let two = build(scripted(vec![ScriptedReply::text("two")])).await;
    let (first, second) = tokio::join!(turn(&one, say("who?")), turn(&two, say("who?")));
    assert_eq!((first.content.as_str(), second.content.as_str()), ("one", "two"));
    within(one.shutdown()).await;
    assert_eq!(within(one.health()).await.status, RuntimeStatus::Stopped);
    let health = within(two.health()).await;
    assert_eq!(health.status, RuntimeStatus::Ready);
    assert!(health.llm_ready && health.store_ready && health.tools_ready);
    assert_eq!(turn(&two, say("still there?")).await.content, "two");
    assert_eq!(within(two.records(session("s"))).await.unwrap().iter().filter(|r| r.turn.is_some()).count() % 4, 0);
}
