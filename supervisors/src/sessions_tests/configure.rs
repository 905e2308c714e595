//! Changes of a session's options: no turns, each answered once, also when the actor ends.

use super::hard::kill_all_actors;
use super::recovered::interrupted;
use super::*;
use bob_messages::ids::RequestId;
use bob_messages::options::{Change, Configuring, OptionsPatch, SessionChange};
use bob_messages::session_state::Session;
use bob_messages::store::{Fact, StoreError};

type Told = Answer<Result<(), AgentError>>;

impl Fixture {
    fn change(&self, name: &str) -> Told {
        let agent = Change::Set(name.to_owned());
        let change = SessionChange::Patch(Box::new(OptionsPatch { agent, ..OptionsPatch::default() }));
        let asked = Arc::new(Configuring { request_id: RequestId::new(name), change });
        let (reply, told) = Reply::channel();
        self.tell(SessionsMessage::Configure { session: session(), asked, turn_config: turn_config(), reply });
        told
    }

    async fn agent(&self) -> Option<String> {
        Session::fold(session(), &self.records().await).options.agent.clone()
    }

    async fn changes(&self) -> usize {
        self.records().await.iter().filter(|record| matches!(record.fact, Fact::Configured { .. })).count()
    }
}

async fn told(told: Told) -> Result<(), AgentError> {
    tokio::time::timeout(DEADLINE, told).await.expect("it is told").expect("it is told")
}

fn rules() -> SessionRules {
    SessionRules { passivate_after: Duration::from_millis(50), ..SessionRules::default() }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_at_rest_is_changed_and_rests_again() {
    let fixture = Fixture::with(echo(), MemoryStore::new(), Vec::new(), rules()).await;
    assert_eq!(told(fixture.change("one")).await, Ok(()), "of a session nobody knew");
    fixture.until(0, 0, 0).await;
    assert_eq!(paid(fixture.submit("hi", limits(90_000))).await.content, "hi");
    fixture.until(0, 0, 0).await;
    assert_eq!(told(fixture.change("two")).await, Ok(()));
    assert_eq!(told(fixture.change("one")).await, Ok(()), "a name that is known");
    assert_eq!((fixture.agent().await.as_deref(), fixture.changes().await), (Some("two"), 2));
    fixture.until(0, 0, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_running_turn_goes_on_and_takes_no_notice() {
    let fixture = Fixture::new(model(vec![ScriptedReply::text("fine")], 700)).await;
    let pending = fixture.submit("t1", limits(90_000));
    fixture.until(1, 1, 0).await;
    assert_eq!(told(fixture.change("one")).await, Ok(()));
    assert_eq!(fixture.load().await.running, 1);
    assert_eq!(fixture.agent().await, None, "not in force yet");
    assert_eq!(paid(pending).await.content, "fine");
    assert_eq!(fixture.agent().await.as_deref(), Some("one"));
}

#[tokio::test(start_paused = true)]
async fn whoever_asked_is_told_once_although_the_actor_is_killed() {
    for held in [Operation::Claim, Operation::Append] {
        let (gate, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
        store.plan(Some(held), 1, Fault::Hold(Arc::clone(&gate)));
        let fixture = Fixture::with(echo(), store.clone(), Vec::new(), rules()).await;
        let (one, two) = (fixture.change("one"), fixture.change("two"));
        while !store.asked().iter().any(|(operation, _)| *operation == held) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        kill_all_actors(&fixture);
        tokio::time::sleep(Duration::from_millis(1)).await;
        gate.close();
        assert_eq!((told(one).await, told(two).await), (Ok(()), Ok(())), "{held:?}");
        assert_eq!((fixture.agent().await.as_deref(), fixture.changes().await), (Some("two"), 2), "{held:?}");
        fixture.until(0, 0, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_killed_again_and_again_is_given_up_and_the_session_is_usable() {
    let (gate, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    for nth in 1..10 {
        store.plan(Some(Operation::Claim), nth, Fault::Hold(Arc::clone(&gate)));
    }
    let fixture = Fixture::with(echo(), store, Vec::new(), rules()).await;
    let mut asked = std::pin::pin!(told(fixture.change("one")));
    let refused = loop {
        tokio::select! { biased;
            told = &mut asked => break told,
            () = tokio::time::sleep(Duration::from_millis(1)) => kill_all_actors(&fixture),
        }
    };
    assert!(matches!(refused, Err(AgentError::Internal(_))), "{refused:?}");
    gate.close();
    fixture.until(0, 0, 0).await;
    assert_eq!(paid(fixture.submit("hi", limits(90_000))).await.content, "hi");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_told_and_the_same_change_may_be_sent_again() {
    let store = FaultStore::new(MemoryStore::new());
    store.plan(Some(Operation::Append), 1, Fault::Refuse(StoreError::Unavailable("full".into())));
    let fixture = Fixture::over(echo(), store, Vec::new()).await;
    assert!(matches!(told(fixture.change("one")).await, Err(AgentError::Store(_))));
    assert_eq!(told(fixture.change("one")).await, Ok(()));
    assert_eq!(fixture.changes().await, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_of_the_program_left_is_not_touched() {
    let store = interrupted("t1", limits(90_000)).await;
    let fixture = Fixture::with(echo(), store, Vec::new(), rules()).await;
    let before = fixture.records().await.len();
    assert_eq!(told(fixture.change("one")).await, Ok(()));
    fixture.until(0, 0, 0).await;
    let records = fixture.records().await;
    assert_eq!(records.len(), before + 1, "the open turn is as it was");
    assert!(Session::fold(session(), &records).running().is_some());
    // Again while the actor is live.
    assert_eq!(told(fixture.change("two")).await, Ok(()));
    let outcome = paid(fixture.submit("t2", limits(90_000))).await;
    assert_eq!(outcome.finish_reason, FinishReason::Final);
    let ends = fixture.records().await.iter().filter(|record| matches!(record.fact, Fact::Outcome(_))).count();
    assert_eq!((ends, fixture.agent().await.as_deref()), (2, Some("two")), "the old turn was closed first");
}
