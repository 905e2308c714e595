//! A turn that an earlier process left runs before the next input, by its own clock.

use super::*;
use bob_messages::turn::OnRestart;

fn resuming() -> Arc<Brief> {
    Arc::new(Brief { on_restart: OnRestart::Resume, ..(*brief()).clone() })
}

impl House {
    fn go_on(&self, turn: &str, limits: Limits) -> Owed {
        self.say(&session(), turn, limits, &resuming())
    }
}

/// A store with a turn that began and whose program was killed.
async fn interrupted(text: &str, limits: Limits) -> Arc<dyn SessionStore> {
    let house = House::new(model(vec![ScriptedReply::Stall], 0)).await;
    let _never = house.submit(text, limits);
    while house.records().await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let House { tree, store } = house;
    let mut ended = tree.ended();
    drop(tree);
    ended.wait_for(Option::is_some).await.unwrap();
    store
}

/// Answers after a while of virtual time; what began with `stall` never.
fn slow_echo(delay_ms: u64) -> ScriptedLlm {
    let stalls = Rule { when: Some("stall".into()), replies: vec![ScriptedReply::Stall], delay_ms: 0, stall: false };
    let answers = Rule { when: None, replies: vec![ScriptedReply::text("fine")], delay_ms, stall: false };
    ScriptedLlm::new(vec![stalls, answers])
}

#[tokio::test(start_paused = true)]
async fn a_recovered_turn_does_not_use_up_the_time_of_the_next_input() {
    let store = interrupted("t1", limits(90_000)).await;
    let house = House::over(slow_echo(700), store, Vec::new()).await;
    let began = Instant::now();
    let outcome = paid(house.go_on("t2", limits(1_000))).await;
    assert_took(began, 1_400);
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "fine"));
}

#[tokio::test(start_paused = true)]
async fn a_recovered_turn_that_hangs_is_ended_by_its_own_clock() {
    let store = interrupted("stall", limits(2_000)).await;
    let house = House::over(slow_echo(700), store, Vec::new()).await;
    let began = Instant::now();
    let owed = house.go_on("t2", limits(1_000));
    let outcome = paid(owed).await;
    assert_took(began, 2_000 + 700);
    assert_eq!((outcome.turn_id.as_str(), outcome.content.as_str()), ("t2", "fine"));
    let ends =
        house.records().await.iter().filter(|record| format!("{:?}", record.fact).contains("TurnTimeout")).count();
    assert_eq!(ends, 1, "the recovered turn ended at its guard");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_the_input_behind_a_recovered_turn_leaves_that_turn_alone() {
    let store = interrupted("t1", limits(90_000)).await;
    let house = House::over(slow_echo(700), store, Vec::new()).await;
    let began = Instant::now();
    let owed = house.go_on("t2", limits(1_000));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(house.cancel(Some("t2")).await);
    let outcome = paid(owed).await;
    assert_took(began, 100);
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Cancelled, true));
    assert_eq!(house.load().await.running, 1, "nobody is owed the other, and it goes on");
    house.until(1, 0, 0).await;
    assert_took(began, 700);
    let kinds = house.records().await.iter().filter(|record| record.turn == Some(TurnId::new("t1"))).count();
    assert_eq!(kinds, 4, "input, start, answer and outcome");
}

#[tokio::test(start_paused = true)]
async fn a_recovered_turn_nobody_is_owed_can_be_cancelled_and_is_waited_for_at_the_end() {
    for cancel in [true, false] {
        let store = interrupted("stall", limits(90_000)).await;
        let house = House::over(slow_echo(700), store, Vec::new()).await;
        let owed = house.go_on("t2", limits(1_000));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(house.cancel(Some("t2")).await);
        paid(owed).await;
        let began = Instant::now();
        if cancel {
            assert!(house.cancel(Some("t1")).await || house.cancel(None).await);
            house.until(0, 0, 0).await;
        } else {
            let (reply, drained) = Reply::channel();
            house.tell(SessionsMessage::Drain { grace_ms: 3_000, reply });
            drained.await.unwrap();
            assert_took(began, 3_000);
        }
        let last = house.records().await.last().map(|record| format!("{:?}", record.fact));
        assert!(last.as_ref().is_some_and(|fact| fact.contains("Cancelled")), "{last:?}");
    }
}
