//! The driver among rooms that answer when the test says so, or never. The clock
//! stands still until it is waited for.

#[path = "turn_tests/interrupted.rs"]
mod interrupted;
#[path = "turn_tests/rooms.rs"]
mod rooms;

use super::*;
use bob_messages::chat::{ContentPart, FinishReason, GuardReason, StopReason};
use bob_messages::ids::{ModelName, ResumeToken};
use bob_messages::input::TurnInput;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmMessage, ModelProfile, RawCall};
use bob_messages::outcome::TurnOutcome;
use bob_messages::store::{Append, Claim, Record, StoreMessage};
use bob_messages::submission::TurnNews;
use bob_messages::tools::{CallTraits, Grant, LocalToolsMessage, ToolDescriptor, ToolKind, ToolOutput, Verdict};
use bob_messages::turn_config::TurnConfig;
use std::marker::PhantomData;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Longer, on the virtual clock, than anything here takes.
const DEADLINE: Duration = Duration::from_secs(3_600);

/// Whoever is in a room: hands every message to the test.
struct Room<M>(PhantomData<fn(M)>);

impl<M: ractor::Message> Actor for Room<M> {
    type Msg = M;
    type State = UnboundedSender<M>;
    type Arguments = UnboundedSender<M>;

    async fn pre_start(&self, _: ActorRef<M>, to: UnboundedSender<M>) -> Result<Self::State, ActorProcessingErr> {
        Ok(to)
    }

    async fn handle(&self, _: ActorRef<M>, message: M, to: &mut Self::State) -> Result<(), ActorProcessingErr> {
        // A test that ended no longer reads.
        drop(to.send(message));
        Ok(())
    }
}

async fn inhabit<M: ractor::Message>(room: &crate::address::Address<M>) -> UnboundedReceiver<M> {
    let (to, from) = unbounded_channel();
    let (actor, _ends) = Actor::spawn(None, Room(PhantomData), to).await.unwrap();
    room.fill(actor);
    from
}

/// A turn and everybody it talks to.
struct Fixture {
    turn: ActorRef<TurnMessage>,
    ends: JoinHandle<()>,
    ending: Arc<OnceLock<Ending>>,
    rooms: Rooms,
    store: UnboundedReceiver<StoreMessage>,
    llm: UnboundedReceiver<LlmMessage>,
    tools: UnboundedReceiver<LocalToolsMessage>,
    sessions: UnboundedReceiver<SessionsMessage>,
    journal: Vec<Arc<Record>>,
}

/// What a turn waits for, in the order of its walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Wait {
    Claim,
    Input,
    Model,
    Verdict,
    Intent,
    Call,
    ModelAgain,
    Outcome,
}

const WAITS: [Wait; 8] =
    [Wait::Claim, Wait::Input, Wait::Model, Wait::Verdict, Wait::Intent, Wait::Call, Wait::ModelAgain, Wait::Outcome];

/// A question that a test holds open.
enum Held {
    Store(StoreMessage),
    Llm(LlmMessage),
    Tools(ToolsMessage),
}

impl Fixture {
    async fn new() -> Self {
        let rooms = Rooms::default();
        let (store, llm) = (inhabit(&rooms.store).await, inhabit(&rooms.llm).await);
        let (tools, sessions) = (inhabit(rooms.tools.local()).await, inhabit(&rooms.sessions).await);
        rooms.tools.local_publisher().offer(tool_list(), None);
        let ending = Arc::<OnceLock<Ending>>::default();
        let started = TurnArguments {
            pulse: bob_messages::reply::Pulse::default(),
            session: SessionId::parse("s").unwrap(),
            rooms: Arc::new(rooms.clone()),
            feed: Feed::new(Vec::new()),
            ending: Arc::clone(&ending),
            has_run: TimeRun::default(),
        };
        let (turn, ends) = Actor::spawn(None, TurnActor, started).await.unwrap();
        Self { turn, ends, ending, rooms, store, llm, tools, sessions, journal: Vec::new() }
    }

    /// A turn that waits for this, and the question that is open.
    async fn waiting_for(wait: Wait) -> (Self, Held) {
        let mut fixture = Self::new().await;
        fixture.start("t1");
        let held = fixture.walk_to(wait).await;
        (fixture, held)
    }

    fn start(&self, turn: &str) {
        let turn_config = Arc::new(TurnConfig::new(model()));
        self.turn.send_message(TurnMessage::Start { input: input(turn), turn_config }).unwrap();
    }

    /// Answers everything until the turn waits for this.
    async fn walk_to(&mut self, wait: Wait) -> Held {
        let claim = next(&mut self.store).await;
        if wait == Wait::Claim {
            return Held::Store(claim);
        }
        let StoreMessage::Claim { reply, .. } = claim else { panic!("not a claim: {claim:?}") };
        reply.send(Ok(Claim { epoch: 1, version: 0, records: Vec::new() }));
        let first = next(&mut self.store).await;
        self.gather().await;
        if wait == Wait::Input {
            return Held::Store(first);
        }
        self.stored(first);
        let asked = next(&mut self.llm).await;
        if wait == Wait::Model {
            return Held::Llm(asked);
        }
        answer_model(asked, "", true);
        let check = question(&mut self.tools).await;
        if wait == Wait::Verdict {
            return Held::Tools(check);
        }
        allow(check);
        let intent = next(&mut self.store).await;
        if wait == Wait::Intent {
            return Held::Store(intent);
        }
        self.stored(intent);
        let call = question(&mut self.tools).await;
        if wait == Wait::Call {
            return Held::Tools(call);
        }
        let ToolsMessage::Call { reply, .. } = call else { panic!("not a call: {call:?}") };
        reply.send(ToolReturn { status: CallStatus::Ok, output: ToolOutput::text("ok"), duration_ms: 1 });
        let result = next(&mut self.store).await;
        self.stored(result);
        let asked = next(&mut self.llm).await;
        if wait == Wait::ModelAgain {
            return Held::Llm(asked);
        }
        answer_model(asked, "done", false);
        Held::Store(next(&mut self.store).await)
    }

    /// The tools and the profile that the first prompt needs.
    async fn gather(&mut self) {
        match next(&mut self.llm).await {
            LlmMessage::Profile { reply, .. } => {
                let capabilities = Capabilities { native_tools: true, ..Capabilities::default() };
                reply.send(Ok(Arc::new(ModelProfile {
                    model: model(),
                    capabilities,
                    price: None,
                    tokens_per_kb: bob_messages::llm::TOKENS_PER_KB,
                })));
            }
            other => panic!("not a profile: {other:?}"),
        }
    }

    /// The store takes an append.
    fn stored(&mut self, message: StoreMessage) {
        let StoreMessage::Append { append, reply } = message else { panic!("not an append: {message:?}") };
        self.keep(&append);
        reply.send(Ok(self.journal.len() as u64));
    }

    fn keep(&mut self, append: &Append) {
        let new = append.records.iter().filter(|new| !self.journal.iter().any(|old| old.id == new.id));
        let new: Vec<_> = new.cloned().collect();
        self.journal.extend(new);
    }

    fn stop(&self, reason: EndReason) {
        self.ending.set(Ending { reason, submission: Some(TurnId::new("t1")) }).unwrap();
        self.turn.stop(Some(reason.to_string()));
    }

    /// What the supervisor hears until the actor has said all it has to say. The store
    /// takes what it is sent, if it works.
    async fn last_words(&mut self, store_works: bool) -> Vec<TurnOutcome> {
        let mut outcomes = Vec::new();
        loop {
            let news = tokio::select! {
                biased;
                message = self.store.recv() => {
                    match message.unwrap() {
                        message @ StoreMessage::Append { .. } if store_works => self.stored(message),
                        StoreMessage::Append { reply, .. } => drop(tokio::spawn(hang(reply))),
                        _ => {}
                    }
                    continue;
                }
                message = self.sessions.recv() => message.unwrap(),
                () = tokio::time::sleep(DEADLINE) => panic!("it never said that it left"),
            };
            match news {
                SessionsMessage::News { news: TurnNews::Left, .. } => return outcomes,
                SessionsMessage::News { news: TurnNews::Finished { outcome, .. }, .. } => outcomes.push(*outcome),
                other => panic!("nothing else is said: {other:?}"),
            }
        }
    }

    async fn finished(&mut self) -> TurnOutcome {
        match next(&mut self.sessions).await {
            SessionsMessage::News { news: TurnNews::Finished { outcome, .. }, .. } => *outcome,
            other => panic!("nothing else is said: {other:?}"),
        }
    }

    /// Answers on until the turn is over.
    async fn go_on(&mut self) -> TurnOutcome {
        loop {
            tokio::select! {
                biased;
                message = self.sessions.recv() => {
                    if let SessionsMessage::News { news: TurnNews::Finished { outcome, .. }, .. } = message.unwrap() {
                        return *outcome;
                    }
                }
                message = self.store.recv() => {
                    if let message @ StoreMessage::Append { .. } = message.unwrap() {
                        self.stored(message);
                    }
                }
                message = self.llm.recv() => answer_model(message.unwrap(), "done", false),
                () = tokio::time::sleep(DEADLINE) => panic!("the turn does not end"),
            }
        }
    }
}

async fn hang<T>(held: T) {
    std::future::pending::<()>().await;
    drop(held);
}

async fn next<M>(from: &mut UnboundedReceiver<M>) -> M {
    tokio::time::timeout(DEADLINE, from.recv()).await.expect("it is asked").expect("the room is inhabited")
}

async fn question(from: &mut UnboundedReceiver<LocalToolsMessage>) -> ToolsMessage {
    match next(from).await {
        LocalToolsMessage::Tools(message) => message,
        other => panic!("no question: {other:?}"),
    }
}

fn model() -> ModelName {
    ModelName::parse("fake:m").unwrap()
}

fn tool_list() -> Arc<[Arc<ToolDescriptor>]> {
    Arc::new([Arc::new(
        ToolDescriptor::new(
            bob_messages::ids::ToolName::new("test/write"),
            String::new(),
            serde_json::json!({"type": "object"}),
        )
        .with_title("write")
        .with_kind(ToolKind::Edit),
    )])
}

fn input(turn: &str) -> Arc<TurnInput> {
    let words = vec![ContentPart::text("go")];
    Arc::new(TurnInput::bare(TurnId::new(turn), ResumeToken::new("token"), words))
}

fn answer_model(message: LlmMessage, text: &str, calls: bool) {
    let LlmMessage::Infer { reply, .. } = message else { panic!("not a prompt: {message:?}") };
    let call = RawCall::new("test__write", "{}");
    reply.send(Ok(Arc::new(
        LlmAnswer::text(model(), text.to_owned())
            .with_calls(calls.then_some(call).into_iter().collect())
            .with_stop_reason(if calls { StopReason::ToolCalls } else { StopReason::Stop })
            .with_latency_ms(1),
    )));
}

fn allow(message: ToolsMessage) {
    let ToolsMessage::Check { check, reply, .. } = message else { panic!("not a check: {message:?}") };
    reply.send(Verdict::Allow {
        grant: Grant { call: check.call.id.clone(), seal: "seal".into() },
        traits: CallTraits { read_only: false, idempotent: false },
    });
}

#[tokio::test(start_paused = true)]
async fn c1_a_stop_in_each_wait_is_answered_once() {
    for wait in WAITS {
        let (mut fixture, held) = Fixture::waiting_for(wait).await;
        fixture.stop(EndReason::Cancelled);
        let outcomes = fixture.last_words(true).await;
        assert_eq!(outcomes.len(), 1, "{wait:?}: {outcomes:?}");
        let ends = if wait == Wait::Outcome { FinishReason::Final } else { FinishReason::Cancelled };
        assert_eq!(outcomes[0].finish_reason, ends, "{wait:?}");
        assert_eq!(outcomes[0].saved, wait != Wait::Claim, "{wait:?}: an unread session has nothing to save");
        let calls = usize::from(wait > Wait::Model);
        assert_eq!(outcomes[0].tool_transcript.len(), calls, "{wait:?}: every call has its result");
        fixture.ends.await.unwrap();
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn c1_a_store_that_hangs_is_waited_for_thirty_milliseconds() {
    for wait in [Wait::Input, Wait::Model, Wait::Call, Wait::Outcome] {
        let (mut fixture, held) = Fixture::waiting_for(wait).await;
        let began = Instant::now();
        fixture.stop(EndReason::Cancelled);
        let outcomes = fixture.last_words(false).await;
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(30) && took <= Duration::from_millis(31), "{wait:?}: {took:?}");
        assert_eq!(outcomes.len(), 1);
        assert!(!outcomes[0].saved, "{wait:?}: it is not known to be saved");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn c7_a_turn_whose_time_ends_before_its_journal_was_read_names_the_guard_and_its_limit() {
    let (mut fixture, held) = Fixture::waiting_for(Wait::Claim).await;
    fixture.stop(EndReason::TurnTimeout);
    let outcomes = fixture.last_words(true).await;
    assert_eq!(outcomes[0].guard_reason, Some(GuardReason::TurnTimeout));
    assert!(outcomes[0].content.contains("turn_timeout_ms"), "{}", outcomes[0].content);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn c1_what_is_in_flight_is_let_go_when_the_actor_ends() {
    for kill in [false, true] {
        for wait in [Wait::Model, Wait::Call] {
            let (fixture, held) = Fixture::waiting_for(wait).await;
            if kill {
                fixture.turn.kill();
            } else {
                fixture.stop(EndReason::Cancelled);
            }
            let let_go = async {
                match held {
                    Held::Llm(LlmMessage::Infer { mut reply, .. }) => reply.abandoned().await,
                    Held::Tools(ToolsMessage::Call { mut reply, .. }) => reply.abandoned().await,
                    _ => panic!("nothing is in flight"),
                }
            };
            let began = Instant::now();
            tokio::time::timeout(DEADLINE, let_go).await.expect("the worker learns it");
            assert_eq!(began.elapsed(), Duration::ZERO, "{wait:?}, killed: {kill}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_means_another_turn_leaves_this_one_open() {
    let (mut fixture, _held) = Fixture::waiting_for(Wait::Model).await;
    let before = fixture.journal.len();
    fixture.ending.set(Ending { reason: EndReason::Cancelled, submission: Some(TurnId::new("t0")) }).unwrap();
    fixture.turn.stop(None);
    assert_eq!(fixture.last_words(true).await, [], "no end is announced");
    assert_eq!(fixture.journal.len(), before, "and nothing is written");
}
