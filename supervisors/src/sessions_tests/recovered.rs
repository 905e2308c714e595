//! A turn of an earlier process runs before the next input, with its own clock.

use super::*;
use bob_messages::store::Fact;
use bob_messages::turn_config::OnRestart;

fn resuming() -> Arc<TurnConfig> {
    Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*turn_config()).clone() })
}

impl Fixture {
    fn go_on(&self, turn: &str, limits: Limits) -> PendingReply {
        self.say(&session(), turn, limits, &resuming())
    }
}

/// A store with a turn that began and whose program was killed.
pub(super) async fn interrupted(text: &str, limits: Limits) -> Arc<dyn SessionStore> {
    let fixture = Fixture::new(model(vec![ScriptedReply::Stall], 0)).await;
    let _never = fixture.submit(text, limits);
    while fixture.records().await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let Fixture { tree, store } = fixture;
    let mut ended = tree.ended();
    drop(tree);
    ended.wait_for(Option::is_some).await.unwrap();
    store
}

/// Answers after some virtual time; inputs that begin with `stall` are never answered.
fn slow_echo(delay_ms: u64) -> ScriptedLlm {
    let stalls =
        ScriptedRule { when: Some("stall".into()), replies: vec![ScriptedReply::Stall], delay_ms: 0, stall: false };
    let answers = ScriptedRule { when: None, replies: vec![ScriptedReply::text("fine")], delay_ms, stall: false };
    ScriptedLlm::new(vec![stalls, answers])
}

#[tokio::test(start_paused = true)]
async fn a_recovered_turn_does_not_use_up_the_time_of_the_next_input() {
    let store = interrupted("t1", limits(90_000)).await;
    let fixture = Fixture::over(slow_echo(700), store, Vec::new()).await;
    let began = Instant::now();
    let outcome = paid(fixture.go_on("t2", limits(1_000))).await;
    assert_took(began, 1_400);
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "fine"));
}

#[tokio::test(start_paused = true)]
async fn a_recovered_turn_that_hangs_is_ended_by_its_own_clock() {
    let store = interrupted("stall", limits(2_000)).await;
    let fixture = Fixture::over(slow_echo(700), store, Vec::new()).await;
    let began = Instant::now();
    let pending = fixture.go_on("t2", limits(1_000));
    let outcome = paid(pending).await;
    assert_took(began, 2_000 + 700);
    assert_eq!((outcome.turn_id.as_str(), outcome.content.as_str()), ("t2", "fine"));
    let ends =
        fixture.records().await.iter().filter(|record| format!("{:?}", record.fact).contains("TurnTimeout")).count();
    assert_eq!(ends, 1, "the recovered turn ended at its guard");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_the_input_behind_a_recovered_turn_leaves_that_turn_alone() {
    let store = interrupted("t1", limits(90_000)).await;
    let fixture = Fixture::over(slow_echo(700), store, Vec::new()).await;
    let began = Instant::now();
    let pending = fixture.go_on("t2", limits(1_000));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(fixture.cancel(Some("t2")).await);
    let outcome = paid(pending).await;
    assert_took(began, 100);
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Cancelled, true));
    assert_eq!(fixture.load().await.running, 1, "no caller waits for the other, which goes on");
    fixture.until(1, 0, 0).await;
    assert_took(began, 700);
    let kinds = fixture.records().await.iter().filter(|record| record.turn == Some(TurnId::new("t1"))).count();
    assert_eq!(kinds, 4, "input, start, answer and outcome");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_without_a_name_ends_the_recovered_turn_and_not_the_input_behind_it() {
    let store = interrupted("stall", limits(90_000)).await;
    let fixture = Fixture::over(slow_echo(700), store, Vec::new()).await;
    let pending = fixture.go_on("t2", limits(1_000));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    assert!(fixture.cancel(None).await);
    let outcome = paid(pending).await;
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "fine"));
    assert_took(began, 700);
    let ended = |record: &Arc<Record>| match &record.fact {
        Fact::Outcome(ended) => Some((record.turn.as_ref()?.to_string(), ended.finish_reason)),
        _another => None,
    };
    let ended: Vec<_> = fixture.records().await.iter().filter_map(ended).collect();
    assert_eq!(ended, [("stall".to_owned(), FinishReason::Cancelled), ("t2".to_owned(), FinishReason::Final)]);
}

#[tokio::test(start_paused = true)]
async fn a_recovered_turn_nobody_is_owed_can_be_cancelled_and_is_waited_for_at_the_end() {
    for cancel in [true, false] {
        let store = interrupted("stall", limits(90_000)).await;
        let fixture = Fixture::over(slow_echo(700), store, Vec::new()).await;
        let pending = fixture.go_on("t2", limits(1_000));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(fixture.cancel(Some("t2")).await);
        paid(pending).await;
        let began = Instant::now();
        if cancel {
            assert!(fixture.cancel(Some("t1")).await || fixture.cancel(None).await);
            fixture.until(0, 0, 0).await;
        } else {
            let (reply, drained) = Reply::channel();
            fixture.tell(SessionsMessage::Drain { grace_ms: 3_000, hand_over: false, reply });
            drained.await.unwrap();
            assert_took(began, 3_000);
        }
        let last = fixture.records().await.last().map(|record| format!("{:?}", record.fact));
        assert!(last.as_ref().is_some_and(|fact| fact.contains("Cancelled")), "{last:?}");
    }
}

/// A store whose first claim is held until released, over the data of an earlier process.
fn held(store: Arc<dyn SessionStore>) -> (Arc<Semaphore>, Arc<dyn SessionStore>) {
    let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(store));
    store.plan(Some(Operation::Claim), 1, Fault::Hold(Arc::clone(&held)));
    (held, store)
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_a_recovered_turn_while_it_runs_gets_its_outcome() {
    let store = interrupted("t1", limits(90_000)).await;
    let fixture = Fixture::over(slow_echo(700), store, Vec::new()).await;
    let began = Instant::now();
    let next = fixture.go_on("t2", limits(1_000));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let finished = paid(fixture.go_on("t1", limits(90_000))).await;
    assert_took(began, 700);
    assert_eq!((finished.turn_id.as_str(), finished.content.as_str()), ("t1", "fine"));
    assert_eq!(paid(next).await.content, "fine");
    assert_took(began, 1_400);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_a_recovered_turn_behind_the_next_input_costs_that_no_time() {
    let (held, store) = held(interrupted("t1", limits(90_000)).await);
    let fixture = Fixture::over(slow_echo(700), store, Vec::new()).await;
    let (next, recovered) = (fixture.go_on("t2", limits(1_000)), fixture.go_on("t1", limits(90_000)));
    fixture.until(1, 1, 0).await;
    let began = Instant::now();
    held.close();
    assert_eq!(paid(recovered).await.content, "fine");
    assert_took(began, 700);
    let outcome = paid(next).await;
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "fine"));
    assert_took(began, 1_400);
}

#[tokio::test(start_paused = true)]
async fn a_recovered_turn_that_is_asked_for_at_the_door_leaves_no_place_taken() {
    let (held, store) = held(interrupted("t1", limits(90_000)).await);
    let rules = SessionRules { max_running_turns: 1, ..SessionRules::default() };
    let fixture = Fixture::with(slow_echo(700), store, Vec::new(), rules).await;
    let other = SessionId::parse("other").unwrap();
    let next = fixture.go_on("t2", limits(90_000));
    let theirs = fixture.say(&other, "o1", limits(90_000), &resuming());
    let recovered = fixture.go_on("t1", limits(90_000));
    fixture.until(2, 1, 2).await;
    held.close();
    assert_eq!(paid(recovered).await.content, "fine");
    fixture.until(2, 1, 1).await;
    assert_eq!((paid(next).await.content.as_str(), paid(theirs).await.content.as_str()), ("fine", "fine"));
    fixture.until(2, 0, 0).await;
    assert_eq!(paid(fixture.go_on("t3", limits(90_000))).await.content, "fine", "there is a place for it");
}

/// Two inputs that an earlier process accepted; the first is submitted again: its end precedes the start of the
/// second.
#[tokio::test(start_paused = true)]
async fn an_input_left_behind_takes_no_place_from_others_for_good() {
    let fixture = Fixture::new(model(vec![ScriptedReply::Stall], 0)).await;
    let _never = (fixture.submit("t1", limits(90_000)), fixture.submit("t2", limits(90_000)));
    while fixture.records().await.len() < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let Fixture { tree, store } = fixture;
    let mut ended = tree.ended();
    drop(tree);
    ended.wait_for(Option::is_some).await.unwrap();
    let (held, store) = held(store);
    let rules = SessionRules { max_running_turns: 1, ..SessionRules::default() };
    let fixture = Fixture::with(slow_echo(700), store, Vec::new(), rules).await;
    let other = SessionId::parse("other").unwrap();
    let first = fixture.go_on("t1", limits(90_000));
    let theirs = fixture.say(&other, "o1", limits(90_000), &resuming());
    let third = fixture.go_on("t3", limits(90_000));
    fixture.until(2, 1, 2).await;
    held.close();
    for pending in [first, theirs, third] {
        assert_eq!(paid(pending).await.content, "fine");
    }
    fixture.until(2, 0, 0).await;
    assert_eq!(paid(fixture.say(&other, "o2", limits(90_000), &resuming())).await.content, "fine");
}

/// An actor that closes a turn may die as any other. The next one closes it, too.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_being_closed_does_not_go_on_when_the_actor_that_closes_it_dies() {
    let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    store.plan(Some(Operation::Claim), 2, Fault::Hold(Arc::clone(&held)));
    store.plan(Some(Operation::Claim), 3, Fault::Hold(Arc::clone(&held)));
    let asked = Arc::new(Mutex::new(0));
    let model = ScriptedLlm::from_fn({
        let asked = Arc::clone(&asked);
        move |_| {
            *asked.lock().unwrap() += 1;
            ScriptedReply::Stall
        }
    });
    let fixture = Fixture::over(model, store.clone(), Vec::new()).await;
    let claims = |many: usize| {
        let store = Arc::clone(&store);
        async move {
            while store.asked().iter().filter(|(asked, _)| *asked == Operation::Claim).count() < many {
                tokio::task::yield_now().await;
            }
        }
    };
    let dies = || {
        let children = fixture.tree.rooms.sessions.actor().unwrap().get_cell().get_children();
        children.iter().for_each(|child| child.kill());
    };
    let pending = fixture.submit("t1", limits(90_000));
    while *asked.lock().unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    // The second actor is cancelled before it has read the journal, so a third one closes the turn; that dies as well.
    dies();
    claims(2).await;
    assert!(fixture.cancel(None).await);
    held.add_permits(1);
    claims(3).await;
    dies();
    held.close();
    let outcome = paid(pending).await;
    assert_eq!((outcome.finish_reason, *asked.lock().unwrap()), (FinishReason::Cancelled, 1));
}
