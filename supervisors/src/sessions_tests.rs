//! Time limits and pending replies, over a whole tree with a paused clock.

#[path = "sessions_tests/admit.rs"]
mod admit;
#[path = "sessions_tests/asks_below.rs"]
mod asks_below;
#[path = "sessions_tests/bounds.rs"]
mod bounds;
#[path = "sessions_tests/configure.rs"]
mod configure;
#[path = "sessions_tests/counted.rs"]
mod counted;
#[path = "sessions_tests/deadlines.rs"]
mod deadlines;
#[path = "sessions_tests/given_up.rs"]
mod given_up;
#[path = "sessions_tests/hard.rs"]
mod hard;
#[path = "sessions_tests/idle.rs"]
mod idle;
#[path = "sessions_tests/pauses.rs"]
mod pauses;
#[path = "sessions_tests/races.rs"]
mod races;
#[path = "sessions_tests/recovered.rs"]
mod recovered;
#[path = "sessions_tests/starts.rs"]
mod starts;
#[path = "sessions_tests/told.rs"]
mod told;
#[path = "sessions_tests/unsaved.rs"]
mod unsaved;

use crate::sessions::SessionRules;
use crate::{Tree, TreeSpec, sessions, start};
use bob_actors::feed::{EventSink, Feed};
use bob_actors::llm::scripted::ScriptedRule;
use bob_actors::llm::{RetryPolicy, ScriptedLlm, ScriptedReply};
use bob_actors::rooms::Rooms;
use bob_actors::store::{MemoryStore, SessionStore};
use bob_actors::tools::{Invocation, Policy, ToolPort, tool};
use bob_drill::store::{Fault, FaultStore, Operation};
use bob_messages::approvals::Decision;
use bob_messages::chat::{CallStatus, ContentPart, FinishReason, GuardReason, Message};
use bob_messages::error::AgentError;
use bob_messages::event::{AgentEvent, Envelope};
use bob_messages::ids::{ApprovalId, ModelName, ResumeToken, SessionId, TurnId};
use bob_messages::input::{ApprovalsMode, TurnInput};
use bob_messages::limits::Limits;
use bob_messages::llm::LlmRequest;
use bob_messages::outcome::TurnOutcome;
use bob_messages::reply::{Answer, Reply};
use bob_messages::store::Record;
use bob_messages::submission::{SessionsLoad, SessionsMessage};
use bob_messages::tools::{Risk, ToolOutput};
use bob_messages::turn_config::TurnConfig;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

type PendingReply = Answer<Result<Box<TurnOutcome>, AgentError>>;

/// Longer, on the virtual clock, than anything here takes.
const DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

struct Fixture {
    tree: Tree,
    store: Arc<dyn SessionStore>,
}

fn model(replies: Vec<ScriptedReply>, delay_ms: u64) -> ScriptedLlm {
    ScriptedLlm::new(vec![ScriptedRule { when: None, replies, delay_ms, stall: false }])
}

fn risky() -> Arc<dyn ToolPort> {
    let run = |_: Nothing, _: Invocation| async move { Ok(ToolOutput::text("done")) };
    Arc::new(tool("test/risky", "Needs a person.", run).risk(Risk::High))
}

impl Fixture {
    async fn new(llm: ScriptedLlm) -> Self {
        Self::over(llm, MemoryStore::new(), Vec::new()).await
    }

    async fn over(llm: ScriptedLlm, store: Arc<dyn SessionStore>, sinks: Vec<Arc<dyn EventSink>>) -> Self {
        Self::with(llm, store, sinks, SessionRules::default()).await
    }

    async fn with(
        llm: ScriptedLlm,
        store: Arc<dyn SessionStore>,
        sinks: Vec<Arc<dyn EventSink>>,
        rules: SessionRules,
    ) -> Self {
        Self::around(Rooms::default(), llm, store, sinks, rules).await
    }

    async fn around(
        rooms: Rooms,
        llm: ScriptedLlm,
        store: Arc<dyn SessionStore>,
        sinks: Vec<Arc<dyn EventSink>>,
        rules: SessionRules,
    ) -> Self {
        let feed = Feed::new(sinks);
        let tree = start(TreeSpec {
            sessions: sessions::child(&rooms, &feed, rules),
            servers: crate::tools::DesiredServers::default(),
            further: Vec::new(),
            rooms,
            feed,
            store: Arc::clone(&store),
            llm: Arc::new(llm),
            retry: RetryPolicy::default(),
            tools: vec![risky()],
            policy: Policy::default(),
        });
        Self { tree: tree.await.unwrap(), store }
    }

    fn submit(&self, turn: &str, limits: Limits) -> PendingReply {
        self.say(&session(), turn, limits, &turn_config())
    }

    fn say(&self, to: &SessionId, turn: &str, limits: Limits, turn_config: &Arc<TurnConfig>) -> PendingReply {
        let input = input(turn, limits);
        let (reply, pending) = Reply::channel();
        self.tell(SessionsMessage::Submit {
            session: to.clone(),
            input,
            turn_config: Arc::clone(turn_config),
            is_repeated: false,
            reply,
        });
        pending
    }

    fn tell(&self, message: SessionsMessage) {
        self.tree.rooms.sessions.tell(message);
    }

    async fn cancel(&self, turn: Option<&str>) -> bool {
        let (reply, answer) = Reply::channel();
        self.tell(SessionsMessage::Cancel { session: session(), turn: turn.map(TurnId::new), tenant: None, reply });
        answer.await.unwrap()
    }

    async fn load(&self) -> SessionsLoad {
        let (reply, load) = Reply::channel();
        self.tell(SessionsMessage::Load { reply });
        load.await.unwrap()
    }

    /// Waits until the sessions are in this state: live, running, waiting.
    async fn until(&self, live: usize, running: usize, waiting: usize) {
        let wanted = SessionsLoad { live, running, waiting };
        let wait = async {
            while self.load().await != wanted {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let submitted_at = tokio::time::timeout(Duration::from_secs(60), wait).await;
        if submitted_at.is_err() {
            panic!("never {wanted:?}, but {:?}", self.load().await);
        }
    }

    async fn records(&self) -> Vec<Arc<Record>> {
        self.store.load(&session()).await.unwrap()
    }
}

fn input(turn: &str, limits: Limits) -> Arc<TurnInput> {
    let words = vec![ContentPart::text(turn)];
    let input = TurnInput::bare(TurnId::new(turn), ResumeToken::new(turn), words);
    Arc::new(TurnInput { approvals: ApprovalsMode::Wait, limits, ..input })
}

fn turn_config() -> Arc<TurnConfig> {
    Arc::new(TurnConfig { max_history_messages: 1_000, ..TurnConfig::new(ModelName::parse("scripted:m").unwrap()) })
}

/// The user messages in a prompt, in order.
fn said(request: &LlmRequest) -> String {
    let text = |message: &Arc<Message>| match &**message {
        Message::User { parts } => Some(parts.iter().map(|part| part.as_text()).collect::<String>()),
        Message::Assistant { .. } | Message::Tool { .. } => None,
    };
    request.messages.iter().filter_map(text).collect::<Vec<_>>().join("|")
}

/// A model that repeats the user's messages; after `stall…` it never replies.
fn echo() -> ScriptedLlm {
    ScriptedLlm::from_fn(|request| {
        let said = said(request);
        let stalls = said.rsplit('|').next().is_some_and(|last| last.starts_with("stall"));
        if stalls { ScriptedReply::Stall } else { ScriptedReply::text(said) }
    })
}

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn limits(turn_timeout_ms: u64) -> Limits {
    Limits { turn_timeout_ms, ..Limits::default() }
}

async fn paid(pending: PendingReply) -> TurnOutcome {
    let outcome = tokio::time::timeout(DEADLINE, pending).await.expect("it is paid").expect("it is paid");
    *outcome.expect("the submission is taken")
}

/// The virtual time since `began` is exactly this, to the millisecond of the timer.
#[track_caller]
fn assert_took(began: Instant, expected_ms: u64) {
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!((expected_ms..=expected_ms + 1).contains(&took), "took {took} ms, not {expected_ms} ms");
}

#[tokio::test(start_paused = true)]
async fn c7_a_deadline_is_kept_to_the_millisecond() {
    for timeout_ms in [1, 200, 90_000] {
        let fixture = Fixture::new(model(vec![ScriptedReply::Stall], 0)).await;
        let began = Instant::now();
        let outcome = paid(fixture.submit("t1", limits(timeout_ms))).await;
        assert_took(began, timeout_ms);
        assert_eq!(outcome.guard_reason, Some(GuardReason::TurnTimeout));
        assert!(outcome.saved);
    }
}

#[tokio::test(start_paused = true)]
async fn c7_a_deadline_fires_inside_a_store_that_hangs() {
    for operation in [Operation::Claim, Operation::Append] {
        let store = FaultStore::new(MemoryStore::new());
        store.plan(Some(operation), 1, Fault::Hold(Arc::new(Semaphore::new(0))));
        let fixture = Fixture::over(model(vec![ScriptedReply::text("fine")], 0), store, Vec::new()).await;
        let began = Instant::now();
        let outcome = paid(fixture.submit("t1", limits(1_000))).await;
        let most_ms = 1_000 + 40 + 1;
        assert!(began.elapsed() <= Duration::from_millis(most_ms), "{operation:?}: {:?}", began.elapsed());
        assert_eq!((outcome.guard_reason, outcome.saved), (Some(GuardReason::TurnTimeout), false), "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_a_waiting_turn_runs_from_when_it_is_first() {
    let fixture = Fixture::new(model(vec![ScriptedReply::Stall], 0)).await;
    let began = Instant::now();
    let (first, second) = (fixture.submit("t1", limits(1_000)), fixture.submit("t2", limits(1_000)));
    assert_eq!(paid(first).await.turn_id, TurnId::new("t1"));
    assert_took(began, 1_000);
    let second = paid(second).await;
    assert_took(began, 2_000);
    assert_eq!((second.turn_id, second.guard_reason), (TurnId::new("t2"), Some(GuardReason::TurnTimeout)));
}

#[tokio::test(start_paused = true)]
async fn the_clock_stands_still_while_a_person_is_asked() {
    let calls = vec![ScriptedReply::call("test/risky", serde_json::json!({})), ScriptedReply::text("fine")];
    let fixture = Fixture::new(model(calls, 700)).await;
    let began = Instant::now();
    let pending = fixture.submit("t1", limits(1_000));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let approval = ApprovalId::new("s-c00000001");
    let reply = Reply::to(|_heard| ());
    fixture.tell(SessionsMessage::Decide { session: session(), approval, decision: Decision::AllowOnce, reply });
    let outcome = paid(pending).await;
    // 700 ms of the turn's second were used before the question, 300 ms are left after it.
    assert_took(began, 60_000 + 300);
    assert_eq!(outcome.guard_reason, Some(GuardReason::TurnTimeout));
    assert_eq!(outcome.tool_transcript[0].status, CallStatus::Ok, "the decision counted");
}

#[tokio::test(start_paused = true)]
async fn a_question_nobody_answers_denies_when_it_runs_out() {
    let calls = vec![ScriptedReply::call("test/risky", serde_json::json!({})), ScriptedReply::text("went on")];
    let fixture = Fixture::new(model(calls, 100)).await;
    let began = Instant::now();
    let limits = Limits { approval_timeout_ms: 30_000, ..limits(1_000) };
    let outcome = paid(fixture.submit("t1", limits)).await;
    assert_took(began, 100 + 30_000 + 100);
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "went on"));
    assert_eq!(outcome.tool_transcript[0].status, CallStatus::Denied);
    assert!(outcome.denied[0].reason.contains("the approval timed out"), "{:?}", outcome.denied);
}

#[tokio::test(start_paused = true)]
async fn c1_a_cancel_ends_a_turn_that_waits_for_a_person() {
    let calls = vec![ScriptedReply::call("test/risky", serde_json::json!({}))];
    let fixture = Fixture::new(model(calls, 0)).await;
    let began = Instant::now();
    let pending = fixture.submit("t1", limits(1_000));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(fixture.cancel(None).await);
    let outcome = paid(pending).await;
    assert_took(began, 5_000);
    assert_eq!((outcome.finish_reason, outcome.tool_transcript.len()), (FinishReason::Cancelled, 1));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_leaves_no_timer() {
    let fixture = Fixture::new(model(vec![ScriptedReply::text("fine")], 0)).await;
    for _ in 0..50 {
        paid(fixture.submit("t1", limits(90_000))).await;
    }
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for number in 0..50 {
        paid(fixture.submit(&format!("n{number}"), limits(90_000))).await;
    }
    let after = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(after <= before + 1, "{before} tasks before, {after} after");
}

/// Runs a closure this many places further back in the queue of tasks, each time behind all that are ready.
fn later(places: u32, what: impl FnOnce() + Send + 'static) {
    let mut then: Box<dyn FnOnce() + Send> = Box::new(what);
    for _ in 0..places {
        let next = then;
        then = Box::new(move || drop(tokio::spawn(async move { next() })));
    }
    then();
}

/// Wherever between the end of one turn and the start of the next a cancel of the first arrives, the second runs.
#[tokio::test(start_paused = true)]
async fn c2_a_cancel_that_comes_too_late_does_not_hit_the_next_turn() {
    for places in 0..40 {
        let (held, store) = (Arc::new(Semaphore::new(0)), FaultStore::new(MemoryStore::new()));
        store.plan(Some(Operation::Append), 2, Fault::Hold(Arc::clone(&held)));
        let fixture = Fixture::over(model(vec![ScriptedReply::text("fine")], 0), store.clone(), Vec::new()).await;
        let first = fixture.submit("t1", limits(90_000));
        while store.asked().iter().filter(|(asked, _)| *asked == Operation::Append).count() < 2 {
            tokio::task::yield_now().await;
        }
        let second = fixture.submit("t2", limits(90_000));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        held.close();
        let sessions = fixture.tree.rooms.sessions.clone();
        let (reply, _whether_or_not) = Reply::channel();
        let turn = Some(TurnId::new("t1"));
        later(places, move || sessions.tell(SessionsMessage::Cancel { session: session(), turn, tenant: None, reply }));
        let outcome = paid(first).await;
        assert_eq!((outcome.turn_id.as_str(), outcome.finish_reason), ("t1", FinishReason::Final), "{places}");
        let outcome = paid(second).await;
        assert_eq!((outcome.turn_id.as_str(), outcome.finish_reason), ("t2", FinishReason::Final), "{places}");
    }
}

/// A sink that holds its thread at the first prompt: a handler that blocks.
struct Blocks {
    entered: SyncSender<()>,
    until: Mutex<Option<Receiver<()>>>,
}

impl EventSink for Blocks {
    fn emit(&self, event: &Envelope) {
        if matches!(event.event, AgentEvent::LlmRequested { .. })
            && let Some(until) = self.until.lock().unwrap().take()
        {
            self.entered.send(()).unwrap();
            // In place: tasks queued behind this one on its worker continue elsewhere. A task in the worker's own
            // slot cannot be stolen, and it may be the supervisor's.
            tokio::task::block_in_place(|| until.recv()).unwrap();
        }
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_actor_that_blocks_its_thread_is_killed_after_the_grace() {
    let ((entered, is_blocked), (go_on, until)) = (sync_channel(1), sync_channel(1));
    let sink = Arc::new(Blocks { entered, until: Mutex::new(Some(until)) });
    let fixture = Fixture::over(model(vec![ScriptedReply::text("fine")], 0), MemoryStore::new(), vec![sink]).await;
    let pending = fixture.submit("t1", limits(90_000));
    tokio::task::spawn_blocking(move || is_blocked.recv().unwrap()).await.unwrap();
    assert!(fixture.cancel(None).await);
    // The grace period uses the real clock here; the actor continues after it.
    tokio::time::sleep(super::STOP_GRACE + Duration::from_millis(200)).await;
    go_on.send(()).unwrap();
    let outcome = paid(pending).await;
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Cancelled, true));
    let last = fixture.records().await.last().map(|record| record.epoch);
    assert_eq!(last, Some(2), "its successor closed the turn: it was killed and said nothing itself");
    assert_eq!(paid(fixture.submit("t2", limits(90_000))).await.content, "fine");
}
