//! All operations at once: each caller is answered once and no slot is lost. Expected values are unwrapped: a test
//! fails at the line.

use super::*;
use bob_messages::store::{Fact, StoreError};
use std::collections::BTreeSet;

/// State of a test.
struct Story {
    fixture: Fixture,
    random: fastrand::Rng,
    pending: Vec<(String, PendingReply)>,
    refused: BTreeSet<String>,
    inputs: u32,
}

impl Story {
    async fn new(seed: u64) -> Self {
        let calls = vec![ScriptedReply::call("test/risky", serde_json::json!({})), ScriptedReply::text("fine")];
        let stall =
            ScriptedRule { when: Some("stall".into()), replies: vec![ScriptedReply::Stall], delay_ms: 0, stall: false };
        let asks = ScriptedRule { when: Some("ask".into()), replies: calls, delay_ms: 1, stall: false };
        let answers =
            ScriptedRule { when: None, replies: vec![ScriptedReply::text("fine")], delay_ms: 3, stall: false };
        let rules =
            SessionRules { max_running_turns: 2, max_waiting_turns: 6, passivate_after: Duration::from_millis(5) };
        let llm = ScriptedLlm::new(vec![stall, asks, answers]);
        let fixture = Fixture::with(llm, MemoryStore::new(), Vec::new(), rules).await;
        Self {
            fixture,
            random: fastrand::Rng::with_seed(seed),
            pending: Vec::new(),
            refused: BTreeSet::new(),
            inputs: 0,
        }
    }

    fn session(&mut self) -> SessionId {
        Self::crowded(self.random.u8(0..4))
    }

    fn crowded(number: u8) -> SessionId {
        SessionId::parse(&format!("s{number}")).unwrap()
    }

    async fn step(&mut self) {
        let session = self.session();
        match self.random.u8(0..12) {
            0..6 => {
                self.inputs += 1;
                let word = ["go", "go", "go", "stall", "ask"][self.random.usize(0..5)];
                let limits = Limits { approval_timeout_ms: 20, ..limits(30) };
                let turn = format!("{word} {}", self.inputs);
                let pending = self.fixture.say(&session, &turn, limits, &turn_config());
                self.pending.push((turn, pending));
            }
            6 => self.cancel(session, None),
            7 => {
                let word = ["go", "stall", "ask"][self.random.usize(0..3)];
                let turn = TurnId::new(format!("{word} {}", self.random.u32(0..=self.inputs)));
                self.cancel(session, Some(turn));
            }
            8 => {
                let children = self.fixture.tree.rooms.sessions.actor().unwrap().get_cell().get_children();
                if let Some(child) = children.get(self.random.usize(0..4)) {
                    child.kill();
                }
            }
            9 => {
                let (reply, _whether_or_not) = Reply::channel();
                self.fixture.tell(SessionsMessage::Passivate { session, reply });
            }
            _ => tokio::time::sleep(Duration::from_micros(self.random.u64(0..15_000))).await,
        }
        for _ in 0..self.random.u8(0..10) {
            tokio::task::yield_now().await;
        }
        let load = self.fixture.load().await;
        assert!(load.running <= 2 && load.waiting <= 6 && load.live <= 4, "{load:?}");
    }

    fn cancel(&self, session: SessionId, turn: Option<TurnId>) {
        let (reply, _whether_or_not) = Reply::channel();
        self.fixture.tell(SessionsMessage::Cancel { session, turn, tenant: None, reply });
    }

    /// All callers have an answer. Returns how many turns ended and how many were refused.
    async fn answers(&mut self) -> (usize, usize) {
        let (mut ended, mut refused) = (0, 0);
        for (turn, pending) in self.pending.drain(..) {
            match tokio::time::timeout(DEADLINE, pending).await.expect("answered").expect("by the supervisor") {
                Ok(_outcome) => ended += 1,
                Err(AgentError::Busy { .. } | AgentError::Overloaded { .. }) => {
                    refused += 1;
                    self.refused.insert(turn);
                }
                Err(other) => panic!("{other}"),
            }
        }
        (ended, refused)
    }

    /// By their journals no turn began twice, and none that was refused began at all; how many began.
    async fn began_once(&self) -> usize {
        let mut begun = BTreeSet::new();
        for number in 0..4 {
            for record in self.fixture.store.load(&Self::crowded(number)).await.expect("a journal") {
                if let (Fact::Started { .. }, Some(turn)) = (&record.fact, &record.turn) {
                    assert!(!self.refused.contains(turn.as_str()), "{turn} was refused and ran");
                    assert!(begun.insert(turn.clone()), "{turn} began twice");
                }
            }
        }
        begun.len()
    }
}

#[tokio::test(start_paused = true)]
async fn kills_cancels_pauses_and_crowds_lose_no_answer_and_no_place() {
    let (mut all, mut began) = ((0, 0), 0);
    for seed in 0..60 {
        let mut story = Story::new(seed).await;
        for _ in 0..80 {
            story.step().await;
        }
        let (ended, refused) = story.answers().await;
        all = (all.0 + ended, all.1 + refused);
        story.fixture.until(0, 0, 0).await;
        began += story.began_once().await;
        // Every place is there: as many as may run, run.
        let pending: Vec<_> =
            (0..8).map(|n| story.fixture.say(&session_of(n), "stall", limits(90_000), &turn_config())).collect();
        story.fixture.until(8, 2, 6).await;
        drop(pending);
    }
    assert!(began > 1_000, "turns that began: {began}");
    assert!(all.0 > 1_000 && all.1 > 10, "turns that ended and that were refused: {all:?}");
}

/// The end of the program in the middle of all kinds of work.
#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_of_everything_answers_everybody() {
    for seed in 100..140 {
        let mut story = Story::new(seed).await;
        for _ in 0..story.random.u8(5..60) {
            story.step().await;
        }
        let (reply, drained) = Reply::channel();
        story.fixture.tell(SessionsMessage::Drain { grace_ms: story.random.u64(0..20), hand_over: false, reply });
        for _ in 0..10 {
            story.step().await;
        }
        tokio::time::timeout(DEADLINE, drained).await.expect("it ends").expect("it ends");
        story.answers().await;
        story.began_once().await;
        let load = story.fixture.load().await;
        assert_eq!((load.running, load.waiting), (0, 0), "seed {seed}");
    }
}

fn session_of(number: u8) -> SessionId {
    SessionId::parse(&format!("last-{number}")).unwrap()
}

pub(super) fn kill_all_actors(fixture: &Fixture) {
    let children = fixture.tree.rooms.sessions.actor().unwrap().get_cell().get_children();
    children.iter().for_each(|child| child.kill());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_refused_after_a_crash_is_not_open_any_more() {
    let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
    store.plan(Some(Operation::Claim), 1, Fault::Hold(Arc::clone(&held)));
    store.plan(Some(Operation::Claim), 2, Fault::Refuse(StoreError::Unavailable("the disk is gone".into())));
    let seen = Arc::new(Seen::default());
    let fixture = Fixture::over(echo(), store.clone(), vec![seen.clone()]).await;
    let pending = fixture.submit("t1", limits(90_000));
    fixture.until(1, 1, 0).await;
    kill_all_actors(&fixture);
    tokio::time::sleep(Duration::from_millis(1)).await;
    held.close();
    let refusal = tokio::time::timeout(DEADLINE, pending).await.expect("answered").expect("answered");
    assert!(matches!(refusal, Err(AgentError::Store(_))), "{refusal:?}");
    assert!(seen.0.lock().unwrap().contains(&"t1".to_owned()), "somebody heard of the crash");
    assert_eq!(fixture.tree.feed.open_turn(&session()), None);
}

/// Notes whose events it saw.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl EventSink for Seen {
    fn emit(&self, event: &Envelope) {
        self.0.lock().unwrap().extend(event.turn_id.as_ref().map(|turn| turn.as_str().to_owned()));
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_an_idle_actor_does_not_count_against_the_next_turn() {
    let rules = SessionRules { max_running_turns: 1, ..SessionRules::default() };
    let fixture = Fixture::with(echo(), MemoryStore::new(), Vec::new(), rules).await;
    assert_eq!(paid(fixture.submit("one", limits(90_000))).await.content, "one");
    let busy = fixture.say(&session_of(0), "stall", limits(90_000), &turn_config());
    fixture.until(2, 1, 0).await;
    let waits = fixture.submit("stall", limits(90_000));
    fixture.until(2, 1, 1).await;
    let children = fixture.tree.rooms.sessions.actor().unwrap().get_cell().get_children();
    // The idle one is the older of the two.
    children.iter().min_by_key(|child| child.get_id().pid()).unwrap().kill();
    fixture.until(2, 1, 1).await;
    let (reply, _it_does) = Reply::channel();
    fixture.tell(SessionsMessage::Cancel { session: session_of(0), turn: None, tenant: None, reply });
    assert_eq!(paid(busy).await.finish_reason, FinishReason::Cancelled);
    let (reply, live) = Reply::channel();
    fixture.tell(SessionsMessage::Live { most: 10, reply });
    let live = live.await.unwrap();
    let restarts = live.iter().find(|live| live.session == session()).map(|live| live.restarts);
    assert_eq!(restarts, Some(0), "{live:?}");
    drop(waits);
}
