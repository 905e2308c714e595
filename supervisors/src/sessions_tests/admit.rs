//! Who is let in, who waits, who is refused. What must be there is unwrapped: a test fails
//! where it stands.

use super::*;
use bob_messages::submission::{LiveSession, LiveState};

fn rules(max_running_turns: usize, max_waiting_turns: usize) -> SessionRules {
    SessionRules { max_running_turns, max_waiting_turns, ..SessionRules::default() }
}

async fn house(running: usize, waiting: usize) -> House {
    House::with(echo(), MemoryStore::new(), Vec::new(), rules(running, waiting)).await
}

fn named(name: impl std::fmt::Display) -> SessionId {
    SessionId::parse(&format!("s-{name}")).unwrap()
}

async fn refused(owed: Owed) -> AgentError {
    let answer = tokio::time::timeout(DEADLINE, owed).await.expect("it is answered").expect("it is answered");
    answer.expect_err("the submission is refused")
}

/// Nobody waits: the answer is there without any time passing.
async fn at_once<T>(what: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let answer = what.await;
    assert_eq!(began.elapsed(), Duration::ZERO, "it is answered at once");
    answer
}

impl House {
    fn ask(&self, who: &SessionId, text: &str) -> Owed {
        self.say(who, text, limits(90_000), &brief())
    }

    async fn cancel_in(&self, session: &SessionId, turn: Option<&str>) -> bool {
        let (reply, answer) = Reply::channel();
        self.tell(SessionsMessage::Cancel { session: session.clone(), turn: turn.map(TurnId::new), reply });
        answer.await.unwrap()
    }

    async fn live(&self, most: usize) -> Vec<LiveSession> {
        let (reply, live) = Reply::channel();
        self.tell(SessionsMessage::Live { most, reply });
        live.await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn o1_so_many_run_so_many_wait_and_the_next_is_overloaded_at_once() {
    let house = house(3, 4).await;
    let mut owed: Vec<_> = (0..7).map(|number| house.ask(&named(number), &format!("stall{number}"))).collect();
    house.until(7, 3, 4).await;
    let error = at_once(refused(house.ask(&named(7), "too many"))).await;
    assert!(matches!(&error, AgentError::Overloaded(why) if why.contains("max_concurrent_turns")), "{error:?}");
    assert!(error.is_retryable());
    assert_eq!(house.load().await.live, 7, "nothing is kept of it");
    for number in 3..8 {
        let kept = house.store.load(&named(number)).await.unwrap();
        assert!(kept.is_empty(), "what waits is not accepted: {kept:?}");
    }
    // Each place that becomes free goes to the one who waits longest.
    for number in 0..4 {
        assert!(house.cancel_in(&named(number), None).await);
        assert_eq!(paid(owed.remove(0)).await.turn_id, TurnId::new(format!("stall{number}")));
        house.until(6 - number, 3, 3 - number).await;
        assert!(!house.store.load(&named(number + 3)).await.unwrap().is_empty(), "{number}");
    }
    assert_eq!(house.load().await.waiting, 0);
    let later = house.ask(&named(7), "stall7");
    house.until(4, 3, 1).await;
    assert!(house.cancel_in(&named(4), None).await);
    house.until(3, 3, 0).await;
    drop(later);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_wait_take_turns_and_each_keeps_its_order() {
    let llm = ScriptedLlm::new(vec![Rule {
        when: None,
        replies: vec![ScriptedReply::text("ok")],
        delay_ms: 10,
        stall: false,
    }]);
    let house = House::with(llm, MemoryStore::new(), Vec::new(), rules(1, 100)).await;
    // Nobody waits yet when the second comes: it is journaled behind the first and runs in its place.
    let order = ["a1", "a2", "b1", "a3", "c1", "a4", "b2", "a5"];
    let ended = Arc::new(Mutex::new(Vec::new()));
    let mut all = Vec::new();
    for turn in order {
        let (owed, ended) = (house.ask(&named(&turn[..1]), turn), Arc::clone(&ended));
        all.push(tokio::spawn(async move {
            let outcome = paid(owed).await;
            ended.lock().unwrap().push(outcome.turn_id.to_string());
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    assert_eq!(*ended.lock().unwrap(), ["a1", "a2", "b1", "c1", "a3", "b2", "a4", "a5"]);
    assert_eq!((house.load().await.running, house.load().await.waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn c1_what_waits_is_cancelled_at_once_and_its_place_in_the_queue_is_free() {
    let house = house(1, 2).await;
    let running = house.ask(&named("a"), "stall");
    let (first, second) = (house.ask(&named("b"), "b1"), house.ask(&named("c"), "c1"));
    house.until(3, 1, 2).await;
    assert!(house.cancel_in(&named("b"), None).await);
    let outcome = at_once(paid(first)).await;
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Cancelled, false));
    house.until(2, 1, 1).await;
    assert!(!house.cancel_in(&named("b"), None).await, "there is nothing to cancel any more");
    assert!(!house.cancel_in(&named("c"), Some("b1")).await);
    let third = house.ask(&named("d"), "d1");
    house.until(3, 1, 2).await;
    assert!(house.cancel_in(&named("a"), None).await);
    assert_eq!(paid(running).await.finish_reason, FinishReason::Cancelled);
    assert_eq!((paid(second).await.content.as_str(), paid(third).await.content.as_str()), ("c1", "d1"));
    assert!(house.store.load(&named("b")).await.unwrap().is_empty(), "it was never kept");
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_the_running_turn_of_its_session_is_cancelled_alone() {
    let house = house(1, 5).await;
    let running = house.ask(&named("a"), "stall");
    let other = house.ask(&named("b"), "b1");
    house.until(2, 1, 1).await;
    let (second, third) = (house.ask(&named("a"), "a2"), house.ask(&named("a"), "a3"));
    house.until(2, 1, 3).await;
    assert!(house.cancel_in(&named("a"), Some("a2")).await);
    assert_eq!(at_once(paid(second)).await.finish_reason, FinishReason::Cancelled);
    assert!(house.cancel_in(&named("a"), None).await);
    assert_eq!(paid(running).await.finish_reason, FinishReason::Cancelled);
    assert_eq!((paid(other).await.content.as_str(), paid(third).await.content.as_str()), ("b1", "stall|a3"));
}

#[tokio::test(start_paused = true)]
async fn the_clock_stands_until_a_turn_is_let_in() {
    let house = house(1, 5).await;
    let began = Instant::now();
    let first = house.say(&named("a"), "stall", limits(3_600_000), &brief());
    let second = house.say(&named("b"), "stall too", limits(1_000), &brief());
    assert_eq!(paid(first).await.guard_reason, Some(GuardReason::TurnTimeout));
    assert_took(began, 3_600_000);
    assert_eq!(paid(second).await.guard_reason, Some(GuardReason::TurnTimeout));
    assert_took(began, 3_601_000);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_a_person_keeps_its_place() {
    let calls = vec![ScriptedReply::call("test/risky", serde_json::json!({})), ScriptedReply::text("fine")];
    let house = House::with(model(calls, 10), MemoryStore::new(), Vec::new(), rules(1, 5)).await;
    let first = house.submit("t1", limits(1_000));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let second = house.ask(&named("b"), "b1");
    house.until(2, 1, 1).await;
    let states: Vec<_> = house.live(9).await.into_iter().map(|live| live.state).collect();
    assert_eq!(states, [LiveState::Asking, LiveState::Waiting]);
    let approval = ApprovalId::new("s-c00000001");
    let reply = Reply::to(|_heard| ());
    house.tell(SessionsMessage::Decide { session: session(), approval, decision: Decision::AllowOnce, reply });
    assert_eq!(paid(first).await.content, "fine");
    let asked_too = tokio::time::timeout(Duration::from_secs(1), second).await;
    assert!(asked_too.is_err(), "the next one runs and asks");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_refuses_what_waits_and_answers_everybody_once() {
    let house = house(2, 50).await;
    let mut runs: Vec<_> = (0..2).map(|number| house.ask(&named(number), &format!("stall{number}"))).collect();
    let behind = house.ask(&named(0), "behind");
    let mut waits: Vec<_> = (2..30).map(|number| house.ask(&named(number), &format!("t{number}"))).collect();
    waits.extend((0..5).map(|number| house.ask(&named(0), &format!("more{number}"))));
    house.until(30, 2, 33).await;
    let (reply, drained) = Reply::channel();
    house.tell(SessionsMessage::Drain { grace_ms: 1_000, reply });
    for owed in waits {
        let error = at_once(refused(owed)).await;
        assert!(matches!(&error, AgentError::Overloaded(why) if why.contains("shutting down")), "{error:?}");
    }
    let late = at_once(refused(house.ask(&named("late"), "late"))).await;
    assert!(matches!(late, AgentError::Overloaded(_)));
    let began = Instant::now();
    runs.push(behind);
    for owed in runs {
        assert_eq!(paid(owed).await.finish_reason, FinishReason::Cancelled);
    }
    drained.await.unwrap();
    assert_took(began, 1_000);
    assert_eq!((house.load().await.running, house.load().await.waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn eight_wait_behind_a_session_that_was_not_read_yet_and_the_ninth_is_busy() {
    let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    store.plan(Some(Operation::Claim), 1, Fault::Hold(Arc::clone(&held)));
    let house = House::over(echo(), store, Vec::new()).await;
    let taken: Vec<_> = (0..9).map(|number| house.submit(&format!("t{number}"), limits(90_000))).collect();
    for number in 9..12 {
        let error = at_once(refused(house.submit(&format!("t{number}"), limits(90_000)))).await;
        assert!(matches!(&error, AgentError::Busy(why) if why.contains("8 inputs")), "{error:?}");
    }
    held.close();
    for (number, owed) in taken.into_iter().enumerate() {
        assert_eq!(paid(owed).await.turn_id, TurnId::new(format!("t{number}")));
    }
    assert_eq!(paid(house.submit("t12", limits(90_000))).await.content.matches('|').count(), 9);
}

#[tokio::test(start_paused = true)]
async fn o2_a_hundred_thousand_inputs_for_one_session_cost_nine_places() {
    let house = house(1_024, 1_000).await;
    let mut taken = vec![house.submit("stall", limits(90_000))];
    let mut busy = 0;
    for number in 0..100_000 {
        let mut owed = house.submit(&format!("t{number}"), limits(90_000));
        // The door answers as soon as it reads the message; who is taken, waits.
        if number % 1_000 == 0 {
            let live = house.live(9).await;
            assert!((1..=9).contains(&live[0].owed), "{live:?}");
        }
        if number < 8 {
            taken.push(owed);
            continue;
        }
        match tokio::time::timeout(Duration::ZERO, &mut owed).await {
            Ok(answer) => assert!(matches!(answer, Some(Err(AgentError::Busy(_))))),
            Err(_not_yet) => assert!(matches!(refused(owed).await, AgentError::Busy(_))),
        }
        busy += 1;
    }
    assert_eq!((busy, house.load().await.running), (99_992, 1));
    assert!(house.cancel(None).await);
    for owed in taken {
        paid(owed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_live_tree_shows_the_sessions_and_at_most_a_thousand() {
    let house = house(1, 5_000).await;
    paid(house.ask(&named("idle"), "hello")).await;
    let _owed: Vec<_> = (0..1_200).map(|number| house.ask(&named(number), "stall")).collect();
    house.until(1_201, 1, 1_199).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let tree = house.tree.tree().await;
    let sessions = &tree.iter().find(|node| node.name == "sessions").unwrap().children;
    assert_eq!(sessions.len(), 1_000, "those that have something to do come first");
    assert!(sessions.is_sorted_by(|one, other| one.name < other.name));
    let running: Vec<_> = sessions.iter().filter(|node| node.state == crate::look::NodeStatus::Running).collect();
    assert_eq!((running[0].name.as_str(), running[0].queued, running.len()), ("s-0", Some(1), 1));
    assert!((500..600).contains(&running[0].age_ms), "{running:?}");
    let states: Vec<_> = house.live(5_000).await.into_iter().filter(|live| live.state == LiveState::Idle).collect();
    assert_eq!((states.len(), states[0].session.as_str(), states[0].owed), (1, "s-idle", 0));
}
