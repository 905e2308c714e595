//! Turns of sub-agents whose calls have ended: closed by some actor of their session, and waited for at the end.

use super::hard::kill_all_actors;
use super::*;
use bob_messages::ids::CallId;
use bob_messages::input::ResumeReply;
use bob_messages::options::{ParentTurn, SessionOptions};
use bob_messages::session_state::Session;
use bob_messages::submission::TurnNews;
use bob_messages::tools::AgentLine;

fn child() -> SessionId {
    SessionId::parse("s.c1").unwrap()
}

/// A session whose turn has ended, and a suspended one that worked for a call of it and has no actor.
async fn suspended_below(store: Arc<dyn SessionStore>) -> Fixture {
    let fixture = with_suspended(store, SessionRules::default()).await;
    let (reply, gone) = Reply::channel();
    fixture.tell(SessionsMessage::Passivate { session: child(), reply });
    assert_eq!(gone.await, Some(true));
    fixture.until(1, 0, 0).await;
    fixture
}

async fn with_suspended(store: Arc<dyn SessionStore>, rules: SessionRules) -> Fixture {
    let llm = ScriptedLlm::from_fn(|request| match said(request).as_str() {
        "t2" => ScriptedReply::call("test/risky", serde_json::json!({})),
        "stall" => ScriptedReply::Stall,
        other => ScriptedReply::text(other),
    });
    let fixture = Fixture::with(llm, store, Vec::new(), rules).await;
    assert_eq!(paid(fixture.submit("t1", limits(90_000))).await.finish_reason, FinishReason::Final);
    let line = Arc::new(AgentLine { agents: vec!["a".to_owned()], levels: 0 });
    let (call, turn) = (CallId::new("c00000001"), TurnId::new("t1"));
    let parent = ParentTurn { session: session(), turn, call, depth: 1, line: Some(line), on_parent_end: None };
    let options = Some(Arc::new(SessionOptions { parent: Some(parent), ..SessionOptions::default() }));
    let input = TurnInput { options, approvals: ApprovalsMode::Suspend, ..(*input("t2", limits(90_000))).clone() };
    let (reply, pending) = Reply::channel();
    let (session, input, turn_config) = (child(), Arc::new(input), turn_config());
    fixture.tell(SessionsMessage::Submit { session, input, turn_config, is_repeated: false, reply });
    assert_eq!(paid(pending).await.finish_reason, FinishReason::Suspended);
    fixture
}

impl Fixture {
    fn gives_up(&self) {
        self.gives_up_for(session());
    }

    fn gives_up_for(&self, session: SessionId) {
        let news = TurnNews::ChildGivenUp { child: child(), turn: TurnId::new("t2") };
        self.tell(SessionsMessage::News { session, news });
    }

    async fn is_closed(&self) -> bool {
        Session::fold(child(), &self.store.load(&child()).await.unwrap()).open.is_none()
    }

    /// Ends; returns after how long.
    async fn drains(&self) -> Duration {
        let (reply, drained) = Reply::channel();
        let began = Instant::now();
        self.tell(SessionsMessage::Drain { grace_ms: 60_000, hand_over: false, reply });
        drained.await.unwrap();
        began.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_closed_although_the_actors_that_are_to_close_it_die() {
    for deaths in 1..=3 {
        let store = FaultStore::new(MemoryStore::new());
        // The first claim of each session comes before.
        let gates: Vec<_> = (0..deaths).map(|nth| (3 + nth, Arc::new(Semaphore::new(0)))).collect();
        for (nth, gate) in &gates {
            store.plan(Some(Operation::Claim), *nth, Fault::Hold(Arc::clone(gate)));
        }
        let fixture = suspended_below(store.clone()).await;
        fixture.gives_up();
        for (nth, gate) in gates {
            let claims = || store.asked().iter().filter(|(operation, _)| *operation == Operation::Claim).count();
            while claims() < nth {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            kill_all_actors(&fixture);
            tokio::time::sleep(Duration::from_millis(1)).await;
            gate.close();
        }
        assert!(fixture.drains().await < Duration::from_secs(5), "{deaths}: it is closed before the grace is over");
        assert!(fixture.is_closed().await, "{deaths}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_actor_is_stopped_meanwhile_is_closed_by_the_next_one() {
    let (gate, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    store.plan(Some(Operation::Claim), 3, Fault::Hold(Arc::clone(&gate)));
    let fixture = suspended_below(store).await;
    // An input for the session makes an actor, which is stopped before it has read the journal.
    let pending = fixture.say(&child(), "t3", limits(90_000), &turn_config());
    fixture.until(2, 1, 0).await;
    let cancel = Reply::to(|_there| ());
    fixture.tell(SessionsMessage::Cancel { session: child(), turn: None, tenant: None, reply: cancel });
    fixture.gives_up();
    gate.close();
    assert_eq!(paid(pending).await.finish_reason, FinishReason::Cancelled);
    assert!(fixture.drains().await < Duration::from_secs(5));
    assert!(fixture.is_closed().await);
}

#[tokio::test(start_paused = true)]
async fn an_end_does_not_wait_for_actors_that_die_for_ever() {
    let (gate, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    for nth in 3..20 {
        store.plan(Some(Operation::Claim), nth, Fault::Hold(Arc::clone(&gate)));
    }
    let fixture = suspended_below(store).await;
    fixture.gives_up();
    let mut drains = std::pin::pin!(fixture.drains());
    let took = loop {
        tokio::select! { biased;
            took = &mut drains => break took,
            () = tokio::time::sleep(Duration::from_millis(1)) => kill_all_actors(&fixture),
        }
    };
    assert!(took < Duration::from_secs(5), "{took:?}");
    gate.close();
}

/// A turn that was resumed has another name than the submission that runs it.
#[tokio::test(start_paused = true)]
async fn a_child_that_outlives_a_resumed_turn_is_not_left_to_another_process_while_that_runs() {
    let llm = ScriptedLlm::from_fn(|request| {
        let is_called = request.messages.iter().any(|message| matches!(**message, Message::Tool { .. }));
        match said(request).as_str() {
            "t1" if !is_called => ScriptedReply::call("test/risky", serde_json::json!({})),
            _ => ScriptedReply::Stall,
        }
    });
    let fixture = Fixture::new(llm).await;
    let input_of = |input: Arc<TurnInput>| TurnInput { approvals: ApprovalsMode::Suspend, ..(*input).clone() };
    let submit = |session: SessionId, input: TurnInput| {
        let (reply, pending) = Reply::channel();
        let (input, turn_config) = (Arc::new(input), turn_config());
        fixture.tell(SessionsMessage::Submit { session, input, turn_config, is_repeated: false, reply });
        pending
    };
    let asked = paid(submit(session(), input_of(input("t1", limits(90_000))))).await;
    let (reply, above) = Reply::channel();
    fixture.tell(SessionsMessage::Resume {
        session: session(),
        submission: TurnId::new("r1"),
        token: asked.token.expect("it is suspended"),
        said: ResumeReply::Decision(Decision::AllowOnce),
        parent: None,
        limits: limits(90_000),
        tenant: None,
        turn_config: turn_config(),
        reply,
    });
    fixture.until(1, 1, 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (child, input) = super::races::background("t2");
    let below = submit(child, (*input).clone());
    fixture.until(2, 1, 0).await;
    let (reply, drained) = Reply::channel();
    fixture.tell(SessionsMessage::Drain { grace_ms: 1_000, hand_over: false, reply });
    assert_eq!(paid(above).await.finish_reason, FinishReason::Cancelled);
    assert_eq!(paid(below).await.finish_reason, FinishReason::Cancelled, "it ends with the turn that was cancelled");
    drained.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_closes_a_turn_is_not_idle_until_it_has() {
    let store = FaultStore::new(MemoryStore::new());
    // The claims of the two sessions and of the one that is busy come before.
    store.plan(Some(Operation::Claim), 4, Fault::Delay(Duration::from_millis(20)));
    let rules = SessionRules { passivate_after: Duration::from_millis(1), ..SessionRules::default() };
    let fixture = with_suspended(store.clone(), rules).await;
    fixture.until(0, 0, 0).await;
    let busy = SessionId::parse("busy").unwrap();
    let _runs = fixture.say(&busy, "stall", limits(90_000), &turn_config());
    fixture.until(1, 1, 0).await;
    fixture.gives_up_for(busy);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let claims = store.asked().iter().filter(|(operation, _)| *operation == Operation::Claim).count();
    assert_eq!(claims, 4, "one actor was started for it");
    assert!(fixture.is_closed().await);
    fixture.until(1, 1, 0).await;
}
