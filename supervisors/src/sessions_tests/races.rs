//! Cancels that race with the natural end: at every place between the submission and the outcome, one of the two wins.

use super::*;
use bob_messages::ids::CallId;
use bob_messages::options::{ParentTurn, SessionOptions};
use bob_messages::store::Fact;
use bob_messages::tools::AgentLine;
use std::collections::HashMap;
use std::sync::PoisonError;

/// Races of an ordinary run; `BOB_RACES` asks for more.
const RACES: usize = 2_000;

/// Races in one fixture, so that its sessions do not fill the memory.
const IN_ONE_HOUSE: usize = 250;

/// A cancel occurs at one of these places; the last ones are after the end.
const PLACES: u32 = 70;

/// Counts the end events of each turn.
#[derive(Default)]
struct Ends(Mutex<HashMap<TurnId, u32>>);

impl EventSink for Ends {
    fn emit(&self, event: &Envelope) {
        if let (AgentEvent::TurnFinished { .. }, Some(turn)) = (&event.event, &event.turn_id) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(turn.clone()).or_default() += 1;
        }
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

/// One race; returns how the turn ended according to its caller.
async fn race(fixture: &Fixture, ends: &Ends, random: &mut fastrand::Rng, number: usize) -> FinishReason {
    let (session, turn) = (SessionId::parse(&format!("s{number}")).unwrap(), format!("t{number}"));
    let pending = fixture.say(&session, &turn, limits(90_000), &turn_config());
    let (sessions, by_name) = (fixture.tree.rooms.sessions.clone(), random.bool());
    let (reply, cancelled) = Reply::channel();
    let named = by_name.then(|| TurnId::new(&*turn));
    let of = session.clone();
    later(random.u32(0..PLACES), move || {
        sessions.tell(SessionsMessage::Cancel { session: of, turn: named, tenant: None, reply })
    });
    let outcome = paid(pending).await;
    let was_there = cancelled.await.unwrap();
    let told = outcome.finish_reason;
    assert!(matches!(told, FinishReason::Final | FinishReason::Cancelled), "{told:?}");
    assert!(was_there || told == FinishReason::Final, "only a cancel that met the turn ended it");
    let records = fixture.store.load(&session).await.unwrap();
    let kept = records.iter().filter_map(|record| match &record.fact {
        Fact::Outcome(ended) => Some(ended.finish_reason),
        _ => None,
    });
    let kept: Vec<_> = kept.collect();
    match kept[..] {
        [one] => assert_eq!(one, told, "what was told is what is kept"),
        [] => assert!(told == FinishReason::Cancelled && !outcome.saved, "an acknowledged answer stays: {outcome:?}"),
        _ => panic!("more than one outcome: {kept:?}"),
    }
    let ended = ends.0.lock().unwrap().get(&outcome.turn_id).copied();
    assert_eq!(ended, Some(1), "one terminal event");
    told
}

#[tokio::test(start_paused = true)]
async fn c2_in_every_race_of_a_cancel_with_the_natural_end_one_wins() {
    let races = std::env::var("BOB_RACES").ok().and_then(|races| races.parse().ok()).unwrap_or(RACES);
    let mut random = fastrand::Rng::with_seed(7);
    let (mut natural, mut done) = (0, 0);
    while done < races {
        let ends = Arc::<Ends>::default();
        let replies = match random.bool() {
            true => vec![ScriptedReply::text("fine")],
            // A call that is refused, so that there are two steps.
            false => vec![ScriptedReply::call("test/none", serde_json::json!({})), ScriptedReply::text("fine")],
        };
        let fixture = Fixture::over(model(replies, 0), MemoryStore::new(), vec![Arc::clone(&ends) as _]).await;
        for _ in 0..IN_ONE_HOUSE {
            natural += usize::from(race(&fixture, &ends, &mut random, done).await == FinishReason::Final);
            done += 1;
        }
    }
    let cancelled = done - natural;
    eprintln!("{done} races: the natural end won {natural}, the cancel {cancelled}");
    assert!(natural > done / 20 && cancelled > done / 20, "both ends were seen: {natural} and {cancelled}");
}

#[tokio::test(start_paused = true)]
async fn what_is_handed_in_twice_answers_two_callers() {
    let events = Arc::new(Ends::default());
    let fixture =
        Fixture::over(model(vec![ScriptedReply::text("once")], 10), MemoryStore::new(), vec![events.clone()]).await;
    let (first, second) = (fixture.submit("t1", limits(90_000)), fixture.submit("t1", limits(90_000)));
    // A caller that does not wait costs the other nothing.
    drop(fixture.submit("t1", limits(90_000)));
    let (first, second) = (paid(first).await, paid(second).await);
    assert_eq!((first.content.as_str(), &first), ("once", &second));
    assert_eq!(fixture.load().await, SessionsLoad { live: 1, running: 0, waiting: 0 }, "nothing is pending any more");
    assert_eq!(events.0.lock().unwrap().values().sum::<u32>(), 1, "its end is told once");
    let turns = fixture.tree.rooms.metrics.snapshot().turns;
    assert_eq!((turns.submitted, turns.repeated, turns.ended()), (3, 2, 1));
}

/// A call that is made again after a crash submits its child again, which may be cancelled before its journal is read.
#[tokio::test(start_paused = true)]
async fn a_child_that_comes_again_and_is_cancelled_at_once_has_the_outcome_of_its_journal() {
    let child = || {
        let line = Arc::new(AgentLine { agents: vec!["a".to_owned()], levels: 0 });
        let call = CallId::new("c00000001");
        let of = SessionId::parse("above").unwrap();
        let parent =
            ParentTurn { session: of, turn: TurnId::new("t"), call, depth: 1, line: Some(line), on_parent_end: None };
        let options = SessionOptions { parent: Some(parent), ..SessionOptions::default() };
        Arc::new(TurnInput { options: Some(Arc::new(options)), ..(*input("t1", limits(90_000))).clone() })
    };
    let submit = |fixture: &Fixture| {
        let (reply, pending) = Reply::channel();
        let (input, turn_config) = (child(), turn_config());
        fixture.tell(SessionsMessage::Submit { session: session(), input, turn_config, is_repeated: false, reply });
        pending
    };
    let store: Arc<dyn SessionStore> = MemoryStore::new();
    let fixture = || Fixture::over(echo(), Arc::clone(&store), Vec::new());
    let before = fixture().await;
    let first = paid(submit(&before)).await;
    assert_eq!((first.finish_reason, first.steps), (FinishReason::Final, 1));
    // An actor that has read its journal, one that has not, and none.
    for (house, messages) in [(before, 0), (fixture().await, 0), (fixture().await, 3), (fixture().await, 12)] {
        let pending = submit(&house);
        for _message in 0..messages {
            tokio::task::yield_now().await;
        }
        let _it_may_be_over = house.cancel(Some("t1")).await;
        let again = paid(pending).await;
        assert_eq!((again.finish_reason, again.steps), (FinishReason::Final, 1), "{again:?}");
        let kept = house.records().await;
        let outcomes = kept.iter().filter(|record| matches!(record.fact, Fact::Outcome(_))).count();
        assert_eq!(outcomes, 1, "nothing is written");
    }
}

/// An input of a child in the background of the turn `t1` of the session `s`, which outlives it.
pub(super) fn background(turn: &str) -> (SessionId, Arc<TurnInput>) {
    let line = Arc::new(AgentLine { agents: vec!["a".to_owned()], levels: 0 });
    let (call, on_parent_end) = (CallId::new("c00000001"), Some(bob_messages::options::OnParentEnd::Continue));
    let parent =
        ParentTurn { session: session(), turn: TurnId::new("t1"), call, depth: 1, line: Some(line), on_parent_end };
    let options = SessionOptions { parent: Some(parent), ..SessionOptions::default() };
    let input = TurnInput { options: Some(Arc::new(options)), ..(*input(turn, limits(90_000))).clone() };
    (SessionId::parse("s.c1").unwrap(), Arc::new(input))
}

/// A turn that is cancelled while it begins a task: the child is submitted behind the cancel, and before the outcome.
#[tokio::test(start_paused = true)]
async fn a_child_that_comes_behind_the_cancel_of_its_turn_is_cancelled_with_it() {
    let model = ScriptedLlm::from_fn(|_| ScriptedReply::Stall);
    let fixture = Fixture::over(model, MemoryStore::new(), Vec::new()).await;
    let above = fixture.submit("t1", limits(90_000));
    fixture.until(1, 1, 0).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let (child, input) = background("t2");
    let (reply, pending) = Reply::channel();
    let began = Instant::now();
    fixture.tell(SessionsMessage::Cancel {
        session: session(),
        turn: None,
        tenant: None,
        reply: Reply::to(|_there| ()),
    });
    fixture.tell(SessionsMessage::Submit {
        session: child,
        input,
        turn_config: turn_config(),
        is_repeated: false,
        reply,
    });
    assert_eq!(paid(above).await.finish_reason, FinishReason::Cancelled);
    assert_eq!(paid(pending).await.finish_reason, FinishReason::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

/// A child that is left by its turn had the place of that turn, and has one of its own from then on.
#[tokio::test(start_paused = true)]
async fn a_child_that_outlives_its_turn_has_a_place_of_its_own() {
    let model = ScriptedLlm::from_fn(|request| match said(request).as_str() {
        "t2" => ScriptedReply::Stall,
        "t1" => ScriptedReply::text("it goes on"),
        other => ScriptedReply::text(other),
    });
    let rules = SessionRules { max_running_turns: 1, ..SessionRules::default() };
    let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    store.plan(Some(Operation::Append), 1, Fault::Hold(Arc::clone(&held)));
    let fixture = Fixture::with(model, store, Vec::new(), rules).await;
    let above = fixture.submit("t1", limits(90_000));
    fixture.until(1, 1, 0).await;
    let (child, input) = background("t2");
    let (reply, pending) = Reply::channel();
    fixture.tell(SessionsMessage::Submit {
        session: child.clone(),
        input,
        turn_config: turn_config(),
        is_repeated: false,
        reply,
    });
    fixture.until(2, 1, 0).await;
    held.close();
    assert_eq!(paid(above).await.content, "it goes on");
    fixture.until(2, 1, 0).await;
    let next = fixture.submit("t3", limits(90_000));
    fixture.until(2, 1, 1).await;
    fixture.tell(SessionsMessage::Cancel { session: child, turn: None, tenant: None, reply: Reply::to(|_there| ()) });
    assert_eq!(paid(pending).await.finish_reason, FinishReason::Cancelled);
    assert_eq!(paid(next).await.finish_reason, FinishReason::Final);
    fixture.until(1, 0, 0).await;
}
