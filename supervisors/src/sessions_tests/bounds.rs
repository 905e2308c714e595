//! Requests that wait for an actor that does not answer are bounded.

use super::*;
use bob_messages::approvals::Heard;

#[tokio::test(start_paused = true)]
async fn what_waits_for_an_actor_that_cannot_answer_is_bounded() {
    let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    store.plan(Some(Operation::Claim), 1, Fault::Hold(Arc::clone(&held)));
    let fixture = Fixture::over(echo(), store, Vec::new()).await;
    let mut submitted: Vec<_> = (0..70).map(|_| fixture.submit("t1", limits(90_000))).collect();
    let decide = |_| {
        let (approval, (reply, heard)) = (ApprovalId::new("s-c00000001"), Reply::channel());
        fixture.tell(SessionsMessage::Decide { session: session(), approval, decision: Decision::AllowOnce, reply });
        heard
    };
    let mut decided: Vec<_> = (0..70).map(decide).collect();
    let flush = |_| {
        let (reply, flushed) = Reply::channel();
        fixture.tell(SessionsMessage::Flush { session: session(), reply });
        flushed
    };
    let mut flushed: Vec<_> = (0..70).map(flush).collect();
    // The first one and 64 more wait.
    for submitted in submitted.split_off(65) {
        let refused = submitted.await.unwrap();
        assert!(matches!(refused, Err(AgentError::Busy { .. })), "{refused:?}");
    }
    for heard in decided.split_off(64) {
        assert_eq!(heard.await, Some(Heard::NotLive));
    }
    for flushed in flushed.split_off(64) {
        assert_eq!(flushed.await, None);
    }
    held.close();
    for submitted in submitted {
        assert_eq!(paid(submitted).await.content, "t1");
    }
    for heard in decided {
        assert_eq!(heard.await, Some(Heard::NotAsked));
    }
}
