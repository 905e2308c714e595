//! Which submissions are admitted, queued and refused. Expected values are unwrapped: a test fails at the line.

use super::*;
use bob_messages::submission::{LiveSession, LiveState};

fn rules(max_running_turns: usize, max_waiting_turns: usize) -> SessionRules {
    SessionRules { max_running_turns, max_waiting_turns, ..SessionRules::default() }
}

async fn fixture(running: usize, waiting: usize) -> Fixture {
    Fixture::with(echo(), MemoryStore::new(), Vec::new(), rules(running, waiting)).await
}

fn named(name: impl std::fmt::Display) -> SessionId {
    SessionId::parse(&format!("s-{name}")).unwrap()
}

async fn refused(pending: PendingReply) -> AgentError {
    let answer = tokio::time::timeout(DEADLINE, pending).await.expect("it is answered").expect("it is answered");
    answer.expect_err("the submission is refused")
}

/// Answered without any time passing.
async fn at_once<T>(what: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let answer = what.await;
    assert_eq!(began.elapsed(), Duration::ZERO, "it is answered at once");
    answer
}

impl Fixture {
    fn ask(&self, who: &SessionId, text: &str) -> PendingReply {
        self.say(who, text, limits(90_000), &turn_config())
    }

    async fn cancel_in(&self, session: &SessionId, turn: Option<&str>) -> bool {
        let (reply, answer) = Reply::channel();
        self.tell(SessionsMessage::Cancel {
            session: session.clone(),
            turn: turn.map(TurnId::new),
            tenant: None,
            reply,
        });
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
    let fixture = fixture(3, 4).await;
    let mut pending: Vec<_> = (0..7).map(|number| fixture.ask(&named(number), &format!("stall{number}"))).collect();
    fixture.until(7, 3, 4).await;
    let error = at_once(refused(fixture.ask(&named(7), "too many"))).await;
    assert!(
        matches!(&error, AgentError::Overloaded { text: why, .. } if why.contains("max_concurrent_turns")),
        "{error:?}"
    );
    assert!(error.is_retryable());
    assert_eq!(fixture.load().await.live, 7, "nothing is kept of it");
    for number in 3..8 {
        let kept = fixture.store.load(&named(number)).await.unwrap();
        assert!(kept.is_empty(), "what waits is not accepted: {kept:?}");
    }
    // Each free slot goes to the session that waits longest.
    for number in 0..4 {
        assert!(fixture.cancel_in(&named(number), None).await);
        assert_eq!(paid(pending.remove(0)).await.turn_id, TurnId::new(format!("stall{number}")));
        fixture.until(6 - number, 3, 3 - number).await;
        assert!(!fixture.store.load(&named(number + 3)).await.unwrap().is_empty(), "{number}");
    }
    assert_eq!(fixture.load().await.waiting, 0);
    let later = fixture.ask(&named(7), "stall7");
    fixture.until(4, 3, 1).await;
    assert!(fixture.cancel_in(&named(4), None).await);
    fixture.until(3, 3, 0).await;
    drop(later);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_wait_take_turns_and_each_keeps_its_order() {
    let llm = ScriptedLlm::new(vec![ScriptedRule {
        when: None,
        replies: vec![ScriptedReply::text("ok")],
        delay_ms: 10,
        stall: false,
    }]);
    let fixture = Fixture::with(llm, MemoryStore::new(), Vec::new(), rules(1, 100)).await;
    // No other submission waits when the second comes: it is journaled behind the first and runs in its slot.
    let order = ["a1", "a2", "b1", "a3", "c1", "a4", "b2", "a5"];
    let ended = Arc::new(Mutex::new(Vec::new()));
    let mut all = Vec::new();
    for turn in order {
        let (pending, ended) = (fixture.ask(&named(&turn[..1]), turn), Arc::clone(&ended));
        all.push(tokio::spawn(async move {
            let outcome = paid(pending).await;
            ended.lock().unwrap().push(outcome.turn_id.to_string());
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    assert_eq!(*ended.lock().unwrap(), ["a1", "a2", "b1", "c1", "a3", "b2", "a4", "a5"]);
    assert_eq!((fixture.load().await.running, fixture.load().await.waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn c1_what_waits_is_cancelled_at_once_and_its_place_in_the_queue_is_free() {
    let fixture = fixture(1, 2).await;
    let running = fixture.ask(&named("a"), "stall");
    let (first, second) = (fixture.ask(&named("b"), "b1"), fixture.ask(&named("c"), "c1"));
    fixture.until(3, 1, 2).await;
    assert!(fixture.cancel_in(&named("b"), None).await);
    let outcome = at_once(paid(first)).await;
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Cancelled, false));
    fixture.until(2, 1, 1).await;
    assert!(!fixture.cancel_in(&named("b"), None).await, "there is nothing to cancel any more");
    assert!(!fixture.cancel_in(&named("c"), Some("b1")).await);
    let third = fixture.ask(&named("d"), "d1");
    fixture.until(3, 1, 2).await;
    assert!(fixture.cancel_in(&named("a"), None).await);
    assert_eq!(paid(running).await.finish_reason, FinishReason::Cancelled);
    assert_eq!((paid(second).await.content.as_str(), paid(third).await.content.as_str()), ("c1", "d1"));
    assert!(fixture.store.load(&named("b")).await.unwrap().is_empty(), "it was never kept");
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_the_running_turn_of_its_session_is_cancelled_alone() {
    let fixture = fixture(1, 5).await;
    let running = fixture.ask(&named("a"), "stall");
    let other = fixture.ask(&named("b"), "b1");
    fixture.until(2, 1, 1).await;
    let (second, third) = (fixture.ask(&named("a"), "a2"), fixture.ask(&named("a"), "a3"));
    fixture.until(2, 1, 3).await;
    assert!(fixture.cancel_in(&named("a"), Some("a2")).await);
    assert_eq!(at_once(paid(second)).await.finish_reason, FinishReason::Cancelled);
    assert!(fixture.cancel_in(&named("a"), None).await);
    assert_eq!(paid(running).await.finish_reason, FinishReason::Cancelled);
    assert_eq!((paid(other).await.content.as_str(), paid(third).await.content.as_str()), ("b1", "stall|a3"));
}

#[tokio::test(start_paused = true)]
async fn the_clock_stands_until_a_turn_is_let_in() {
    let fixture = fixture(1, 5).await;
    let began = Instant::now();
    let first = fixture.say(&named("a"), "stall", limits(3_600_000), &turn_config());
    let second = fixture.say(&named("b"), "stall too", limits(1_000), &turn_config());
    assert_eq!(paid(first).await.guard_reason, Some(GuardReason::TurnTimeout));
    assert_took(began, 3_600_000);
    assert_eq!(paid(second).await.guard_reason, Some(GuardReason::TurnTimeout));
    assert_took(began, 3_601_000);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_a_person_keeps_its_place() {
    let calls = vec![ScriptedReply::call("test/risky", serde_json::json!({})), ScriptedReply::text("fine")];
    let fixture = Fixture::with(model(calls, 10), MemoryStore::new(), Vec::new(), rules(1, 5)).await;
    let first = fixture.submit("t1", limits(1_000));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let second = fixture.ask(&named("b"), "b1");
    fixture.until(2, 1, 1).await;
    let states: Vec<_> = fixture.live(9).await.into_iter().map(|live| live.state).collect();
    assert_eq!(states, [LiveState::Asking, LiveState::Waiting]);
    let approval = ApprovalId::new("s-c00000001");
    let reply = Reply::to(|_heard| ());
    fixture.tell(SessionsMessage::Decide { session: session(), approval, decision: Decision::AllowOnce, reply });
    assert_eq!(paid(first).await.content, "fine");
    let asked_too = tokio::time::timeout(Duration::from_secs(1), second).await;
    assert!(asked_too.is_err(), "the next one runs and asks");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_refuses_what_waits_and_answers_everybody_once() {
    let fixture = fixture(2, 50).await;
    let mut runs: Vec<_> = (0..2).map(|number| fixture.ask(&named(number), &format!("stall{number}"))).collect();
    let behind = fixture.ask(&named(0), "behind");
    let mut waits: Vec<_> = (2..30).map(|number| fixture.ask(&named(number), &format!("t{number}"))).collect();
    waits.extend((0..5).map(|number| fixture.ask(&named(0), &format!("more{number}"))));
    fixture.until(30, 2, 33).await;
    let (reply, drained) = Reply::channel();
    fixture.tell(SessionsMessage::Drain { grace_ms: 1_000, hand_over: false, reply });
    for pending in waits {
        let error = at_once(refused(pending)).await;
        assert!(
            matches!(&error, AgentError::Overloaded { text: why, .. } if why.contains("shutting down")),
            "{error:?}"
        );
    }
    let late = at_once(refused(fixture.ask(&named("late"), "late"))).await;
    assert!(matches!(late, AgentError::Overloaded { .. }));
    let began = Instant::now();
    runs.push(behind);
    for pending in runs {
        assert_eq!(paid(pending).await.finish_reason, FinishReason::Cancelled);
    }
    drained.await.unwrap();
    assert_took(began, 1_000);
    assert_eq!((fixture.load().await.running, fixture.load().await.waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_hands_over_ends_no_turn_and_refuses_its_callers() {
    let fixture = fixture(2, 50).await;
    let mut runs: Vec<_> = (0..2).map(|number| fixture.ask(&named(number), &format!("stall{number}"))).collect();
    runs.push(fixture.ask(&named(0), "behind"));
    fixture.until(2, 2, 0).await;
    let (reply, drained) = Reply::channel();
    fixture.tell(SessionsMessage::Drain { grace_ms: 1_000, hand_over: true, reply });
    for pending in runs {
        let error = refused(pending).await;
        assert!(matches!(&error, AgentError::Stopped(why) if why.contains("left to the next process")), "{error:?}");
    }
    drained.await.unwrap();
    assert_eq!((fixture.load().await.running, fixture.load().await.live), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn eight_wait_behind_a_session_that_was_not_read_yet_and_the_ninth_is_busy() {
    let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    store.plan(Some(Operation::Claim), 1, Fault::Hold(Arc::clone(&held)));
    let fixture = Fixture::over(echo(), store, Vec::new()).await;
    let taken: Vec<_> = (0..9).map(|number| fixture.submit(&format!("t{number}"), limits(90_000))).collect();
    for number in 9..12 {
        let error = at_once(refused(fixture.submit(&format!("t{number}"), limits(90_000)))).await;
        assert!(matches!(&error, AgentError::Busy { text: why, .. } if why.contains("8 inputs")), "{error:?}");
    }
    held.close();
    for (number, pending) in taken.into_iter().enumerate() {
        assert_eq!(paid(pending).await.turn_id, TurnId::new(format!("t{number}")));
    }
    assert_eq!(paid(fixture.submit("t12", limits(90_000))).await.content.matches('|').count(), 9);
}

#[tokio::test(start_paused = true)]
async fn o2_a_hundred_thousand_inputs_for_one_session_cost_nine_places() {
    let fixture = fixture(1_024, 1_000).await;
    let mut taken = vec![fixture.submit("stall", limits(90_000))];
    let mut busy = 0;
    for number in 0..100_000 {
        let mut pending = fixture.submit(&format!("t{number}"), limits(90_000));
        // Admission answers as soon as it reads the message; an admitted turn waits.
        if number % 1_000 == 0 {
            let live = fixture.live(9).await;
            assert!((1..=9).contains(&live[0].pending), "{live:?}");
        }
        if number < 8 {
            taken.push(pending);
            continue;
        }
        match tokio::time::timeout(Duration::ZERO, &mut pending).await {
            Ok(answer) => assert!(matches!(answer, Some(Err(AgentError::Busy { .. })))),
            Err(_not_yet) => assert!(matches!(refused(pending).await, AgentError::Busy { .. })),
        }
        busy += 1;
    }
    assert_eq!((busy, fixture.load().await.running), (99_992, 1));
    assert!(fixture.cancel(None).await);
    for pending in taken {
        paid(pending).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_live_tree_shows_the_sessions_and_at_most_a_thousand() {
    let fixture = fixture(1, 5_000).await;
    paid(fixture.ask(&named("idle"), "hello")).await;
    let _owed: Vec<_> = (0..1_200).map(|number| fixture.ask(&named(number), "stall")).collect();
    fixture.until(1_201, 1, 1_199).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let tree = fixture.tree.tree().await;
    let sessions = &tree.iter().find(|node| node.name == "sessions").unwrap().children;
    assert_eq!(sessions.len(), 1_000, "those that have something to do come first");
    assert!(sessions.is_sorted_by(|one, other| one.name < other.name));
    let running: Vec<_> = sessions.iter().filter(|node| node.state == crate::look::NodeStatus::Running).collect();
    assert_eq!((running[0].name.as_str(), running[0].queued, running.len()), ("s-0", Some(1), 1));
    assert!((500..600).contains(&running[0].age_ms), "{running:?}");
    let states: Vec<_> = fixture.live(5_000).await.into_iter().filter(|live| live.state == LiveState::Idle).collect();
    assert_eq!((states.len(), states[0].session.as_str(), states[0].pending), (1, "s-idle", 0));
}

/// An actor that is started again makes its calls again, also while the program ends.
#[tokio::test(start_paused = true)]
async fn a_submission_that_is_known_is_shared_while_the_program_ends() {
    let fixture = fixture(2, 5).await;
    let first = fixture.ask(&named("a"), "stall");
    fixture.until(1, 1, 0).await;
    let (reply, drained) = Reply::channel();
    fixture.tell(SessionsMessage::Drain { grace_ms: 1_000, hand_over: false, reply });
    let again = fixture.ask(&named("a"), "stall");
    assert_eq!(paid(again).await.finish_reason, FinishReason::Cancelled, "it has the outcome of the first one");
    assert_eq!(paid(first).await.finish_reason, FinishReason::Cancelled);
    drained.await.unwrap();
}

impl Fixture {
    /// An input that another process, or an earlier supervisor, may have handed in.
    fn ask_again(&self, who: &SessionId, text: &str) -> PendingReply {
        let ((reply, pending), session) = (Reply::channel(), who.clone());
        let (input, turn_config) = (input(text, limits(90_000)), turn_config());
        self.tell(SessionsMessage::Submit { session, input, turn_config, is_repeated: true, reply });
        pending
    }
}

/// Of what the journal may have, a caller is not told that nothing is kept.
#[tokio::test(start_paused = true)]
async fn an_input_that_is_repeated_is_left_to_the_next_process_at_the_end() {
    let is_left =
        |error: &AgentError| matches!(error, AgentError::Stopped(why) if why.contains("left to the next process"));
    for hand_over in [false, true] {
        let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
        store.plan(Some(Operation::Claim), 2, Fault::Hold(Arc::clone(&held)));
        let fixture = Fixture::with(echo(), store, Vec::new(), rules(2, 5)).await;
        let _runs = fixture.ask(&named("a"), "stall");
        fixture.until(1, 1, 0).await;
        let unread = fixture.ask_again(&named("b"), "b1");
        let (queued, new) = (fixture.ask_again(&named("c"), "c1"), fixture.ask(&named("d"), "d1"));
        fixture.until(4, 2, 2).await;
        let (reply, drained) = Reply::channel();
        fixture.tell(SessionsMessage::Drain { grace_ms: 1_000, hand_over, reply });
        let late = fixture.ask_again(&named("late"), "late");
        for pending in [queued, late] {
            let error = at_once(refused(pending)).await;
            assert!(is_left(&error), "{error:?}");
        }
        assert!(matches!(at_once(refused(new)).await, AgentError::Overloaded { .. }), "nothing of it is kept");
        if hand_over {
            let error = refused(unread).await;
            assert!(is_left(&error), "{error:?}");
        }
        held.close();
        drained.await.unwrap();
    }
}
