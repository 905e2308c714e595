//! Readers get what was told, in order, joined where nobody read in time.

use super::*;
use bob_messages::chat::{FinishReason, GuardReason};
use bob_messages::event::Delta;
use bob_messages::ids::{CallId, ModelName};
use bob_messages::outcome::TurnOutcome;

fn names() -> (SessionId, TurnId) {
    (SessionId::parse("s").unwrap(), TurnId::new("t"))
}

fn text(piece: &str) -> AgentEvent {
    AgentEvent::LlmStreamChunk { message_id: "m".into(), delta: Delta::Text(piece.into()) }
}

fn guard() -> AgentEvent {
    AgentEvent::GuardTripped { guard: GuardReason::MaxSteps, limit: 1 }
}

#[tokio::test]
async fn waiting_text_is_joined_and_states_are_kept() {
    let feed = Feed::new(Vec::new());
    let (session, turn) = names();
    let mut reader = feed.subscribe(&session);
    for event in [text("a"), text("b"), guard(), text("c")] {
        feed.emit(&session, &turn, 0, event);
    }
    let first = reader.next().await.unwrap();
    assert_eq!((first.seq, &first.event), (2, &text("ab")));
    assert_eq!(reader.next().await.unwrap().event, guard());
    assert_eq!(reader.next().await.unwrap().event, text("c"));
}

#[tokio::test]
async fn a_reader_that_never_reads_is_detached_and_told() {
    let feed = Feed::new(Vec::new());
    let (session, turn) = names();
    let mut reader = feed.subscribe(&session);
    for _ in 0..2_000 {
        feed.emit(&session, &turn, 0, guard());
    }
    for _ in 0..1_024 {
        reader.next().await.unwrap();
    }
    assert_eq!(reader.next().await, Err(Detached));
}

const LONG: Duration = Duration::from_secs(30);

/// A sink that holds its thread at each event until it is let go on, and notes what it was given.
struct Stuck {
    until: Mutex<std::sync::mpsc::Receiver<()>>,
    seen: Mutex<Vec<(String, u64)>>,
}

impl Stuck {
    fn new() -> (Arc<Self>, std::sync::mpsc::Sender<()>) {
        let (let_go, until) = std::sync::mpsc::channel();
        (Arc::new(Self { until: Mutex::new(until), seen: Mutex::default() }), let_go)
    }
}

impl EventSink for Stuck {
    fn emit(&self, event: &Envelope) {
        let _let_go_or_the_end_of_the_test = self.until.lock().unwrap().recv();
        let session = event.session_id.as_ref().map(ToString::to_string).unwrap_or_default();
        self.seen.lock().unwrap().push((session, event.seq));
    }
}

#[tokio::test]
async fn x9_a_sink_that_blocks_does_not_stop_the_feed_and_loses_with_a_count() {
    let (stuck, let_go) = Stuck::new();
    let feed = Feed::new(vec![stuck.clone()]);
    let (session, turn) = names();
    // On this thread: a call that waited for the sink would never come back.
    for _ in 0..20_000 {
        feed.emit(&session, &turn, 0, guard());
    }
    let mut reader = feed.subscribe(&session);
    feed.emit(&session, &turn, 0, guard());
    assert_eq!(reader.next().await.unwrap().seq, 20_001, "readers are not concerned");
    assert_eq!(stuck.seen.lock().unwrap().len(), 0);
    assert!((3_615..=3_617).contains(&feed.lost()), "16,384 wait, one may be in the sink's hands: {}", feed.lost());
    // The end of a runtime does not wait for it longer than it is told.
    feed.flush(Duration::from_millis(1)).await;
    drop(let_go);
    feed.flush(LONG).await;
    let seen = stuck.seen.lock().unwrap();
    assert_eq!(seen.len() as u64 + feed.lost(), 20_001);
    assert!(seen.iter().enumerate().all(|(at, (_, seq))| *seq == at as u64 + 1), "the first ones, in their order");
}

#[tokio::test]
async fn a_sink_that_is_behind_loses_pieces_of_streams_before_it_loses_an_end() {
    let (stuck, let_go) = Stuck::new();
    let feed = Feed::new(vec![stuck.clone()]);
    let (session, turn) = names();
    feed.emit(&session, &turn, 0, guard());
    for _ in 0..20_000 {
        feed.emit(&session, &turn, 0, text("piece"));
    }
    let outcome = TurnOutcome::bare(session.clone(), turn.clone(), FinishReason::Final, "done");
    feed.emit(&session, &turn, 0, AgentEvent::TurnFinished { outcome: Box::new(outcome) });
    drop(let_go);
    feed.flush(LONG).await;
    assert_eq!(stuck.seen.lock().unwrap().last(), Some(&("s".to_owned(), 20_002)));
    assert!(feed.lost() > 10_000);
}

#[tokio::test]
async fn what_waits_for_a_sink_is_bounded_in_bytes_and_told_after_the_feed_is_gone() {
    let (stuck, let_go) = Stuck::new();
    let feed = Feed::new(vec![stuck.clone()]);
    let (session, turn) = names();
    let piece = "x".repeat(1 << 20);
    feed.emit(&session, &turn, 0, guard());
    for _ in 0..100 {
        feed.emit(&session, &turn, 0, text(&piece));
    }
    assert!((35..=36).contains(&feed.lost()), "64 MiB wait, one may be in the sink's hands: {}", feed.lost());
    drop(feed);
    drop(let_go);
    let deadline = Instant::now() + LONG;
    while stuck.seen.lock().unwrap().len() < 64 && Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    assert!(stuck.seen.lock().unwrap().len() >= 64);
}

/// Takes everything and keeps nothing.
struct Deaf;

impl EventSink for Deaf {
    fn emit(&self, _: &Envelope) {}
}

#[tokio::test]
async fn a_reader_that_leaves_after_the_end_leaves_nothing_behind_for_the_sinks() {
    let feed = Feed::new(vec![Arc::new(Deaf)]);
    let (session, turn) = names();
    let reader = feed.subscribe(&session);
    feed.emit(&session, &turn, 0, guard());
    assert_eq!(feed.open_turn(&session), Some(turn.clone()));
    let outcome = TurnOutcome::bare(session.clone(), turn.clone(), FinishReason::Final, "done");
    feed.emit(&session, &turn, 0, AgentEvent::TurnFinished { outcome: Box::new(outcome) });
    assert_eq!(feed.open_turn(&session), None);
    drop(reader);
    assert!(feed.watched.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_turn_that_a_sink_follows_goes_on_counting_when_a_reader_leaves() {
    let feed = Feed::new(vec![Arc::new(Deaf)]);
    let (session, turn) = names();
    let first = feed.subscribe(&session);
    feed.emit(&session, &turn, 0, guard());
    drop(first);
    let mut second = feed.subscribe(&session);
    feed.emit(&session, &turn, 0, guard());
    assert_eq!(second.next().await.unwrap().seq, 2);
}

#[tokio::test]
async fn a_session_that_is_named_as_its_own_parent_ends_the_way_up() {
    let feed = Feed::new(Vec::new());
    let (session, turn) = names();
    let mut reader = feed.subscribe(&session).with_children();
    let parent = ParentTurn {
        session: session.clone(),
        turn: turn.clone(),
        call: CallId::new("c1"),
        depth: 1,
        line: None,
        on_parent_end: None,
    };
    let began = AgentEvent::TurnStarted {
        submission: turn.clone(),
        model: ModelName::parse("scripted:m").unwrap(),
        cwd: None,
        traceparent: None,
        tracestate: None,
        agent: None,
        tools: Vec::new(),
        servers: Vec::new(),
        parent: Some(parent),
        context: None,
    };
    feed.emit(&session, &turn, 0, began.clone());
    assert_eq!(reader.next().await.unwrap().event, began);
}

#[tokio::test]
async fn nothing_is_kept_for_a_session_nobody_watches() {
    let feed = Feed::new(Vec::new());
    let (session, turn) = names();
    assert!(!feed.is_watched());
    let reader = feed.subscribe(&session);
    feed.emit(&SessionId::parse("other").unwrap(), &turn, 0, guard());
    assert_eq!(feed.watched.lock().unwrap().len(), 1);
    drop(reader);
    assert!(!feed.is_watched() && feed.watched.lock().unwrap().is_empty());
}

/// A sink that panics at each event of a session called `bad`.
struct Touchy(AtomicUsize);

impl EventSink for Touchy {
    fn emit(&self, event: &Envelope) {
        assert!(event.session_id.as_ref().is_none_or(|session| session.to_string() != "bad"), "as told");
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a2_a_sink_that_panics_costs_itself_one_event_and_nobody_else_anything() {
    let (before, behind) = (Arc::new(Touchy(AtomicUsize::new(0))), Arc::new(Touchy(AtomicUsize::new(0))));
    let feed = Feed::new(vec![before.clone(), behind.clone()]);
    let (session, turn) = names();
    let bad = SessionId::parse("bad").unwrap();
    let mut reader = feed.subscribe(&bad);
    for session in [&bad, &session, &bad, &session] {
        feed.emit(session, &turn, 0, guard());
    }
    feed.emit_of_tree(0, guard());
    assert_eq!(reader.next().await.unwrap().seq, 1, "readers get what the sink lost");
    feed.flush(LONG).await;
    assert_eq!((before.0.load(Ordering::SeqCst), behind.0.load(Ordering::SeqCst)), (3, 3));
}

#[tokio::test]
async fn o3_what_waits_for_a_reader_is_bounded_in_bytes() {
    let feed = Feed::new(Vec::new());
    let (session, turn) = names();
    let (mut idle, mut awake) = (feed.subscribe(&session), feed.subscribe(&session));
    let piece = "x".repeat(1 << 20);
    let mut read = 0;
    for _ in 0..40 {
        feed.emit(&session, &turn, 0, text(&piece));
        read += usize::from(awake.next().await.is_ok());
    }
    assert_eq!(read, 40, "what was read no longer waits");
    let mut waited = 0;
    while idle.next().await.is_ok() {
        waited += 1;
    }
    assert_eq!(waited, 16, "16 MiB wait, and no more");
}

#[tokio::test]
async fn one_event_larger_than_the_bound_is_given() {
    let feed = Feed::new(Vec::new());
    let (session, turn) = names();
    let mut reader = feed.subscribe(&session);
    feed.emit(&session, &turn, 0, text(&"x".repeat(20 << 20)));
    feed.emit(&session, &turn, 0, guard());
    feed.emit(&session, &turn, 0, text("one more"));
    assert!(reader.next().await.is_ok());
    assert_eq!(reader.next().await.map(|event| event.event.clone()), Ok(guard()));
    assert_eq!(reader.next().await, Err(Detached));
}

/// A model that floods: what waits for a reader that does not read, and for one that does now and then, stays small, and
/// nothing of the text is lost as long as it may wait.
#[tokio::test]
async fn o4_a_million_pieces_are_joined_and_wait_in_bounded_memory() {
    let feed = Feed::new(Vec::new());
    let (session, turn) = names();
    let (mut idle, mut slow) = (feed.subscribe(&session), feed.subscribe(&session));
    let (mut read, mut events) = (0, 0);
    for number in 1..=1_000_000 {
        feed.emit(&session, &turn, 0, text("0123456789"));
        if number % 50_000 == 0 {
            let piece = slow.next().await.expect("it keeps up");
            read += piece.event.bytes();
            events += 1;
        }
    }
    let waiting = idle.waiting();
    assert!(waiting.0 <= 64 && waiting.1 <= 16 << 20, "{waiting:?}");
    let mut whole = 0;
    for _ in 0..waiting.0 {
        whole += idle.next().await.expect("it waits").event.bytes();
    }
    assert_eq!(whole, 10_000_000, "not a piece is lost");
    while read < 10_000_000 {
        read += slow.next().await.expect("it waits").event.bytes();
        events += 1;
    }
    assert!(events <= 64, "{events}");
}
