//! Turns that were stopped while the store took nothing: they do not go on when it does again.

use super::hard::kill_all_actors;
use super::*;
use bob_messages::store::{Fact, StoreError};
use bob_messages::turn_config::OnRestart;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How often each turn has ended, by its events.
#[derive(Default)]
struct Ends(Mutex<Vec<TurnId>>);

impl EventSink for Ends {
    fn emit(&self, event: &Envelope) {
        if let (AgentEvent::TurnFinished { .. }, Some(turn)) = (&event.event, &event.turn_id) {
            self.0.lock().unwrap().push(turn.clone());
        }
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

struct Story {
    fixture: Fixture,
    turn_config: Arc<TurnConfig>,
    /// Whether the store takes no append.
    refuses: Arc<AtomicBool>,
    /// How often the model was asked about an input that stalls.
    asked: Arc<AtomicUsize>,
    ends: Arc<Ends>,
}

impl Story {
    async fn new(on_restart: OnRestart) -> Self {
        let (refuses, asked, ends) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default(), Arc::default());
        let is_on = Arc::clone(&refuses);
        let store = FaultStore::judged(MemoryStore::new(), move |operation, _sessions| {
            let is_met = operation == Operation::Append && is_on.load(Ordering::Relaxed);
            is_met.then(|| Fault::Refuse(StoreError::Unavailable("it is away".into())))
        });
        let counted = Arc::clone(&asked);
        let model = ScriptedLlm::from_fn(move |request| {
            if said(request).rsplit('|').next().is_some_and(|last| last.starts_with("stall")) {
                counted.fetch_add(1, Ordering::Relaxed);
                return ScriptedReply::Stall;
            }
            ScriptedReply::text("fine")
        });
        let fixture = Fixture::over(model, store, vec![Arc::clone(&ends) as _]).await;
        let turn_config = Arc::new(TurnConfig { on_restart, ..(*turn_config()).clone() });
        Self { fixture, turn_config, refuses, asked, ends }
    }

    fn say(&self, turn: &str, limits: Limits) -> PendingReply {
        self.fixture.say(&session(), turn, limits, &self.turn_config)
    }

    fn refuses(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    async fn asked(&self, many: usize) {
        while self.asked.load(Ordering::Relaxed) < many {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn kept(&self, records: usize) {
        while self.fixture.records().await.len() < records {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The outcomes in the journal.
    async fn outcomes(&self) -> Vec<(String, FinishReason)> {
        let outcome = |record: &Arc<Record>| match &record.fact {
            Fact::Outcome(ended) => Some((record.turn.as_ref()?.to_string(), ended.finish_reason)),
            _another => None,
        };
        self.fixture.records().await.iter().filter_map(outcome).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_stop_was_not_saved_does_not_go_on_when_the_store_is_back() {
    for on_restart in [OnRestart::Report, OnRestart::Resume] {
        for (timeout_ms, end) in [(90_000, FinishReason::Cancelled), (1_000, FinishReason::GuardExceeded)] {
            for waits in [false, true] {
                let case = format!("{on_restart:?}, {end:?}, an input waits: {waits}");
                let story = Story::new(on_restart).await;
                let first = story.say("stall", limits(timeout_ms));
                story.asked(1).await;
                let mut second = waits.then(|| story.say("t2", limits(90_000)));
                story.kept(if waits { 4 } else { 3 }).await;
                story.refuses(true);
                if end == FinishReason::Cancelled {
                    assert!(story.fixture.cancel(Some("stall")).await);
                }
                let outcome = paid(first).await;
                assert_eq!((outcome.finish_reason, outcome.saved), (end, false), "{case}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                story.refuses(false);
                let second = second.take().unwrap_or_else(|| story.say("t2", limits(90_000)));
                assert_eq!(paid(second).await.finish_reason, FinishReason::Final, "{case}");
                assert_eq!(story.asked.load(Ordering::Relaxed), 1, "{case}: it does not go on");
                let expected = [("stall".to_owned(), end), ("t2".to_owned(), FinishReason::Final)];
                assert_eq!(story.outcomes().await, expected, "{case}");
                let ends = story.ends.0.lock().unwrap().clone();
                assert_eq!(ends, [TurnId::new("stall"), TurnId::new("t2")], "{case}: each has one end");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_whose_withdrawal_was_not_saved_does_not_begin() {
    let story = Story::new(OnRestart::Report).await;
    let first = story.say("stall", limits(90_000));
    story.asked(1).await;
    let second = story.say("t2", limits(90_000));
    story.kept(4).await;
    story.refuses(true);
    assert!(story.fixture.cancel(Some("t2")).await);
    let outcome = paid(second).await;
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Cancelled, false));
    kill_all_actors(&story.fixture);
    story.refuses(false);
    story.asked(2).await;
    assert!(story.fixture.cancel(Some("stall")).await);
    assert_eq!(paid(first).await.finish_reason, FinishReason::Cancelled);
    assert_eq!(paid(story.say("t3", limits(90_000))).await.finish_reason, FinishReason::Final);
    let begun =
        |record: &&Arc<Record>| matches!(record.fact, Fact::Started { .. }) && record.turn == Some(TurnId::new("t2"));
    assert_eq!(story.fixture.records().await.iter().filter(begun).count(), 0);
}

/// The actor that closes the turn dies before the store takes that.
#[tokio::test(start_paused = true)]
async fn it_is_known_until_the_store_has_taken_it() {
    let story = Story::new(OnRestart::Resume).await;
    let first = story.say("stall", limits(90_000));
    story.asked(1).await;
    story.kept(3).await;
    story.refuses(true);
    assert!(story.fixture.cancel(None).await);
    assert!(!paid(first).await.saved);
    let second = story.say("t2", limits(90_000));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let _an_error_of_the_store = tokio::time::timeout(DEADLINE, second).await.expect("it is answered");
    kill_all_actors(&story.fixture);
    story.refuses(false);
    assert_eq!(paid(story.say("t3", limits(90_000))).await.finish_reason, FinishReason::Final);
    assert_eq!(story.asked.load(Ordering::Relaxed), 1, "it does not go on");
    let outcomes = story.outcomes().await;
    assert_eq!(outcomes.first(), Some(&("stall".to_owned(), FinishReason::Cancelled)), "{outcomes:?}");
}

/// Cancels the turn whose actor has crashed, while the next one reads the journal, which then cannot be read.
async fn cancelled_behind_a_crash(
    store: &FaultStore,
    fixture: &Fixture,
    turn_config: &Arc<TurnConfig>,
) -> PendingReply {
    let held = Arc::new(Semaphore::new(0));
    store.plan(Some(Operation::Claim), 2, Fault::Hold(Arc::clone(&held)));
    let away = StoreError::Unavailable("it is away".into());
    store.plan(Some(Operation::Claim), 3, Fault::Refuse(away));
    let first = fixture.say(&session(), "stall", limits(90_000), turn_config);
    while fixture.records().await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    kill_all_actors(fixture);
    while store.asked().iter().filter(|(operation, _)| *operation == Operation::Claim).count() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(fixture.cancel(None).await);
    held.close();
    first
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_does_not_go_on_although_the_journal_could_not_be_read_to_close_it() {
    for on_restart in [OnRestart::Report, OnRestart::Resume] {
        let (store, asked) = (FaultStore::new(MemoryStore::new()), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&asked);
        let model = ScriptedLlm::from_fn(move |request| {
            let stalls = said(request).rsplit('|').next().is_some_and(|last| last.starts_with("stall"));
            counted.fetch_add(usize::from(stalls), Ordering::Relaxed);
            if stalls { ScriptedReply::Stall } else { ScriptedReply::text("fine") }
        });
        let fixture = Fixture::over(model, store.clone(), Vec::new()).await;
        let turn_config = Arc::new(TurnConfig { on_restart, ..(*turn_config()).clone() });
        let first = cancelled_behind_a_crash(&store, &fixture, &turn_config).await;
        let answer = tokio::time::timeout(DEADLINE, first).await.expect("answered").expect("answered");
        assert!(matches!(answer, Err(AgentError::Store(StoreError::InDoubt(_)))), "{on_restart:?}: {answer:?}");
        let second = paid(fixture.say(&session(), "t2", limits(90_000), &turn_config)).await;
        assert_eq!(second.finish_reason, FinishReason::Final, "{on_restart:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{on_restart:?}: it does not go on");
        let ended = |record: &&Arc<Record>| matches!(&record.fact, Fact::Outcome(ended) if ended.finish_reason == FinishReason::Cancelled);
        assert_eq!(fixture.records().await.iter().filter(ended).count(), 1, "{on_restart:?}");
    }
}

/// All actors that are to close it die.
#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_does_not_go_on_although_no_actor_lived_to_close_it() {
    let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    for nth in 2..8 {
        store.plan(Some(Operation::Claim), nth, Fault::Hold(Arc::clone(&held)));
    }
    let fixture = Fixture::over(echo(), store.clone(), Vec::new()).await;
    let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*turn_config()).clone() });
    let first = fixture.say(&session(), "stall", limits(90_000), &turn_config);
    while fixture.records().await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    kill_all_actors(&fixture);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(fixture.cancel(None).await);
    let mut first = std::pin::pin!(first);
    let answer = loop {
        tokio::select! { biased;
            answer = &mut first => break answer.expect("answered").expect("it crashed"),
            () = tokio::time::sleep(Duration::from_millis(1)) => kill_all_actors(&fixture),
        }
    };
    assert!(matches!(answer.error, Some(AgentError::Internal(_))), "{answer:?}");
    held.close();
    let second = paid(fixture.say(&session(), "t2", limits(90_000), &turn_config)).await;
    assert_eq!((second.finish_reason, second.content.as_str()), (FinishReason::Final, "stall|t2"));
    assert_eq!(ends(&fixture).await, [FinishReason::Cancelled, FinishReason::Final], "it does not go on");
}

/// An input that is repeated may be in the journal from before, although it waits for a place here.
#[tokio::test(start_paused = true)]
async fn a_queued_input_that_was_cancelled_does_not_run_although_the_journal_has_it() {
    let store = super::recovered::interrupted("t1", limits(90_000)).await;
    let rules = SessionRules { max_running_turns: 1, ..SessionRules::default() };
    let fixture = Fixture::with(echo(), store, Vec::new(), rules).await;
    let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*turn_config()).clone() });
    let other = SessionId::parse("other").unwrap();
    let busy = fixture.say(&other, "stall", limits(1_000), &turn_config);
    fixture.until(1, 1, 0).await;
    let (reply, pending) = Reply::channel();
    let (input, config) = (input("t1", limits(90_000)), Arc::clone(&turn_config));
    fixture.tell(SessionsMessage::Submit { session: session(), input, turn_config: config, is_repeated: true, reply });
    fixture.until(2, 1, 1).await;
    assert!(fixture.cancel(Some("t1")).await);
    let outcome = paid(pending).await;
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Cancelled, false));
    assert!(outcome.content.ends_with("it is closed there."), "{}", outcome.content);
    assert_eq!(paid(busy).await.guard_reason, Some(GuardReason::TurnTimeout));
    assert_eq!(paid(fixture.say(&session(), "t2", limits(90_000), &turn_config)).await.content, "t1|t2");
    assert_eq!(ends(&fixture).await, [FinishReason::Cancelled, FinishReason::Final]);
}

/// How the turns of the session ended, by its journal.
async fn ends(fixture: &Fixture) -> Vec<FinishReason> {
    let ended = |record: &Arc<Record>| match &record.fact {
        Fact::Outcome(ended) => Some(ended.finish_reason),
        _another => None,
    };
    fixture.records().await.iter().filter_map(ended).collect()
}
