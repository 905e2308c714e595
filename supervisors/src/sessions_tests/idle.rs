//! Actors that have nothing to do are let go and come back unnoticed.

use super::*;
use std::collections::BTreeMap;

const AFTER: Duration = Duration::from_millis(50);

fn rules(passivate_after: Duration) -> SessionRules {
    SessionRules { passivate_after, ..SessionRules::default() }
}

async fn fixture(llm: ScriptedLlm) -> Fixture {
    Fixture::with(llm, MemoryStore::new(), Vec::new(), rules(AFTER)).await
}

async fn epoch(fixture: &Fixture) -> u64 {
    fixture.records().await.last().map_or(0, |record| record.epoch)
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_leaves_memory_in_time_and_answers_the_next_message_with_its_history() {
    let fixture = fixture(echo()).await;
    for (number, expected) in ["one", "one|two", "one|two|three"].into_iter().enumerate() {
        let last = expected.rsplit('|').next().unwrap();
        assert_eq!(paid(fixture.submit(last, limits(90_000))).await.content, expected);
        assert_eq!(epoch(&fixture).await, number as u64 + 1, "a new actor read the journal");
        tokio::time::sleep(AFTER - Duration::from_millis(2)).await;
        assert_eq!(fixture.load().await.live, 1, "not before its time");
        tokio::time::sleep(Duration::from_millis(4)).await;
        assert_eq!(fixture.load().await, SessionsLoad::default(), "nothing is held");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_is_measured_from_the_end_of_the_last_turn() {
    let fixture = fixture(echo()).await;
    for number in 0..10 {
        paid(fixture.submit(&format!("t{number}"), limits(90_000))).await;
        tokio::time::sleep(AFTER - Duration::from_millis(10)).await;
    }
    assert_eq!((epoch(&fixture).await, fixture.load().await.live), (1, 1), "it was never idle for so long");
    fixture.until(0, 0, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_runs_or_waits_for_a_person_is_not_let_go() {
    let calls = vec![ScriptedReply::call("test/risky", serde_json::json!({})), ScriptedReply::text("fine")];
    let fixture = fixture(model(calls, 700)).await;
    let pending = fixture.submit("t1", limits(10_000));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((fixture.load().await.live, fixture.load().await.running), (1, 1));
    let approval = ApprovalId::new("s-c00000001");
    let reply = Reply::to(|_heard| ());
    fixture.tell(SessionsMessage::Decide { session: session(), approval, decision: Decision::AllowOnce, reply });
    assert_eq!(paid(pending).await.content, "fine");
    fixture.until(0, 0, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_may_stay_for_ever_and_a_turn_take_any_time() {
    let fixture = Fixture::with(echo(), MemoryStore::new(), Vec::new(), rules(Duration::MAX)).await;
    let limits = Limits { approval_timeout_ms: u64::MAX, ..limits(u64::MAX) };
    assert_eq!(paid(fixture.submit("one", limits)).await.content, "one");
    tokio::time::sleep(DEADLINE).await;
    assert_eq!(paid(fixture.submit("two", limits)).await.content, "one|two");
    assert_eq!((epoch(&fixture).await, fixture.load().await.live), (1, 1), "it is the same actor");
}

/// Wherever between the stop of an idle actor and its end a message arrives.
#[tokio::test(start_paused = true)]
async fn a_message_that_comes_while_the_actor_leaves_is_answered_by_the_next_one() {
    let mut met = std::collections::BTreeSet::new();
    for places in 0..60 {
        let fixture = Fixture::with(echo(), MemoryStore::new(), Vec::new(), rules(AFTER)).await;
        paid(fixture.submit("one", limits(90_000))).await;
        let (session_room, (reply, pending)) = (fixture.tree.rooms.sessions.clone(), Reply::channel());
        let input = input("two", limits(90_000));
        let message = SessionsMessage::Submit {
            session: session(),
            input,
            turn_config: turn_config(),
            is_repeated: false,
            reply,
        };
        // In the very tick in which the actor has been idle for long enough.
        tokio::time::sleep(AFTER).await;
        let (look, seen) = Reply::channel();
        later(places, move || {
            session_room.tell(SessionsMessage::Live { most: 1, reply: look });
            session_room.tell(message);
        });
        met.insert(seen.await.unwrap().first().map(|live| format!("{:?}", live.state)));
        let outcome = paid(pending).await;
        assert_eq!((outcome.content.as_str(), outcome.saved), ("one|two", true), "{places}");
        assert_eq!(outcome.finish_reason, FinishReason::Final, "{places}");
        fixture.until(0, 0, 0).await;
    }
    let all = [None, Some("Idle".to_owned()), Some("Stopping".to_owned())];
    assert_eq!(met, all.into(), "it came before, while and after");
}

/// Random pauses around the idle time, three sessions, two slots: every message is answered once, in order, with all
/// earlier ones.
#[tokio::test(start_paused = true)]
async fn random_pauses_lose_and_double_nothing() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rules = SessionRules { max_running_turns: 2, ..rules(Duration::from_millis(5)) };
        let fixture = Fixture::with(echo(), MemoryStore::new(), Vec::new(), rules).await;
        let mut pending = Vec::new();
        for number in 0..60 {
            let to = SessionId::parse(&format!("s{}", random.u8(0..3))).unwrap();
            let turn = format!("{to}-{number}");
            pending.push((to.clone(), turn.clone(), fixture.say(&to, &turn, limits(90_000), &turn_config())));
            if random.u8(0..3) > 0 {
                tokio::time::sleep(Duration::from_micros(random.u64(0..12_000))).await;
            }
            for _ in 0..random.u8(0..20) {
                tokio::task::yield_now().await;
            }
            if random.u8(0..20) == 0 {
                let (reply, _whether_or_not) = Reply::channel();
                fixture.tell(SessionsMessage::Passivate { session: to, reply });
            }
        }
        let mut so_far = BTreeMap::<SessionId, Vec<String>>::new();
        for (to, turn, pending) in pending {
            let answer = tokio::time::timeout(DEADLINE, pending).await.expect("answered").expect("answered");
            let said = so_far.entry(to).or_default();
            match answer {
                Ok(outcome) => {
                    said.push(turn);
                    assert_eq!(outcome.content, said.join("|"), "seed {seed}");
                }
                Err(AgentError::Busy { .. }) => {}
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
        fixture.until(0, 0, 0).await;
    }
}

/// Two thousand sessions that are passivated after a millisecond: a message meets an actor that is live, ending, or
/// gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn o1_two_thousand_sessions_that_come_and_go_lose_and_double_nothing() {
    let rules =
        SessionRules { max_running_turns: 100, max_waiting_turns: 2_000, passivate_after: Duration::from_millis(1) };
    let fixture = Arc::new(Fixture::with(echo(), MemoryStore::new(), Vec::new(), rules).await);
    let lane = |number: usize| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move {
            let to = SessionId::parse(&format!("s{number}")).unwrap();
            let mut said = Vec::new();
            for turn in 0..4 {
                let turn = format!("{number}-{turn}");
                let outcome = paid(fixture.say(&to, &turn, limits(90_000), &turn_config())).await;
                said.push(turn);
                assert_eq!((outcome.content, outcome.saved), (said.join("|"), true));
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..3_000))).await;
            }
        })
    };
    let lanes: Vec<_> = (0..2_000).map(lane).collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    fixture.until(0, 0, 0).await;
    let whole = fixture.store.load(&SessionId::parse("s7").unwrap()).await.unwrap();
    assert!(whole.last().unwrap().epoch > 1, "actors came and went");
}
