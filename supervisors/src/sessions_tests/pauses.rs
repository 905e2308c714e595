//! Paused time: a slow decision, a late resumption or a jump of the clock does not reduce a turn's retries. One
//! failure of the provider follows in each test.

use super::*;
use bob_actors::clock::WallClock;
use bob_messages::approvals::Heard;
use bob_messages::llm::LlmErrorKind;
use bob_messages::store::Fact;
use bob_messages::turn_config::OnRestart;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

const TURN_MS: u64 = 90_000;
const HOUR_MS: i64 = 3_600_000;

/// A model that calls a tool, fails once after it, and then answers.
fn fails_once_behind(tool: &'static str) -> ScriptedLlm {
    let failed = AtomicU32::new(0);
    ScriptedLlm::from_fn(move |request| match request.step {
        1 => ScriptedReply::call(tool, serde_json::json!({})),
        _ if failed.fetch_add(1, Ordering::Relaxed) == 0 => ScriptedReply::Error(LlmErrorKind::Unavailable),
        _ => ScriptedReply::text("fine"),
    })
}

/// A fixture whose wall clock is advanced by each tool call.
async fn tree_whose_clock_jumps(llm: ScriptedLlm, store: Arc<dyn SessionStore>, by_ms: i64) -> Fixture {
    let wall = Arc::new(AtomicI64::new(1_700_000_000_000));
    let shows = Arc::clone(&wall);
    let clock = WallClock::by(move || shows.load(Ordering::Relaxed));
    let rooms = Rooms { clock, ..Rooms::default() };
    let jumps = move |_: Nothing, _: Invocation| {
        let wall = Arc::clone(&wall);
        async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            wall.fetch_add(by_ms, Ordering::Relaxed);
            Ok(ToolOutput::text("it is another time"))
        }
    };
    let feed = Feed::new(Vec::new());
    let tree = start(TreeSpec {
        sessions: sessions::child(&rooms, &feed, SessionRules::default()),
        servers: crate::tools::DesiredServers::default(),
        further: Vec::new(),
        rooms,
        feed,
        store: Arc::clone(&store),
        llm: Arc::new(llm),
        retry: RetryPolicy::default(),
        tools: vec![risky(), Arc::new(tool("test/jump", "Moves the clock.", jumps).risk(Risk::Low))],
        policy: Policy::default(),
    });
    Fixture { tree: tree.await.unwrap(), store }
}

#[tokio::test(start_paused = true)]
async fn l16_a_turn_that_waited_long_for_a_person_is_repeated_as_any_other() {
    let fixture = Fixture::new(fails_once_behind("test/risky")).await;
    let long = Limits { approval_timeout_ms: 24 * 3_600_000, ..limits(TURN_MS) };
    let began = Instant::now();
    let pending = fixture.submit("t1", long);
    tokio::time::sleep(Duration::from_secs(10 * 60)).await;
    let approval = ApprovalId::new("s-c00000001");
    let (reply, heard) = Reply::channel();
    fixture.tell(SessionsMessage::Decide { session: session(), approval, decision: Decision::AllowOnce, reply });
    assert!(heard.await.is_some());
    let outcome = paid(pending).await;
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "fine"), "{:?}", outcome.error);
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!(outcome.duration_ms.abs_diff(took) < 10, "{} of {took}", outcome.duration_ms);
}

#[tokio::test(start_paused = true)]
async fn l16_a_wall_clock_that_jumps_takes_no_repetition_and_changes_no_duration() {
    for by_ms in [HOUR_MS, -HOUR_MS] {
        let fixture = tree_whose_clock_jumps(fails_once_behind("test/jump"), MemoryStore::new(), by_ms).await;
        let began = Instant::now();
        let outcome = paid(fixture.submit("t1", limits(TURN_MS))).await;
        assert_eq!(outcome.finish_reason, FinishReason::Final, "{by_ms}: {:?}", outcome.error);
        let took = u64::try_from(began.elapsed().as_millis()).unwrap();
        assert!(outcome.duration_ms.abs_diff(took) < 10, "{by_ms}: {} of {took}", outcome.duration_ms);
        assert_eq!(outcome.tool_transcript[0].duration_ms, 2_000, "{by_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn l16_a_turn_that_is_finished_long_after_its_program_died_is_repeated_as_any_other() {
    let store = MemoryStore::new();
    let stalls = ScriptedLlm::from_fn(|_| ScriptedReply::Stall);
    let first = tree_whose_clock_jumps(stalls, store.clone(), 0).await;
    let pending = first.submit("t1", limits(TURN_MS));
    while first.store.load(&session()).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The program ends without a shutdown.
    drop((pending, first));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let second = tree_whose_clock_jumps(fails_once_behind("test/jump"), store, HOUR_MS).await;
    let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*turn_config()).clone() });
    let outcome = paid(second.say(&session(), "t1", limits(TURN_MS), &turn_config)).await;
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "fine"), "{:?}", outcome.error);
    assert!(outcome.duration_ms < 60_000, "{} ms, without the hour between", outcome.duration_ms);
}

#[tokio::test(start_paused = true)]
async fn a1_an_actor_that_is_started_again_goes_on_with_the_time_of_its_turn() {
    let fixture = tree_whose_clock_jumps(fails_once_behind("test/jump"), MemoryStore::new(), 0).await;
    let began = Instant::now();
    let pending = fixture.submit("t1", limits(TURN_MS));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let children = fixture.tree.rooms.sessions.actor().unwrap().get_cell().get_children();
    children.first().expect("its actor").kill();
    let outcome = paid(pending).await;
    assert_eq!(outcome.finish_reason, FinishReason::Final, "{:?}", outcome.error);
    assert_eq!(outcome.tool_transcript[0].status, CallStatus::Unknown, "{outcome:?}");
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!(took >= 1_000 && outcome.duration_ms.abs_diff(took) < 10, "{} of {took}", outcome.duration_ms);
}

/// A turn that asks a person at its limits.
fn asking(fixture: &Fixture, limits: Limits) -> PendingReply {
    let input = TurnInput { asks_at_limits: true, approvals: ApprovalsMode::Wait, ..(*input("t1", limits)).clone() };
    let (reply, pending) = Reply::channel();
    let input = Arc::new(input);
    fixture.tell(SessionsMessage::Submit {
        session: session(),
        input,
        turn_config: turn_config(),
        is_repeated: false,
        reply,
    });
    pending
}

async fn decide(fixture: &Fixture, question: &str, decision: Decision) -> Option<Heard> {
    let (reply, heard) = Reply::channel();
    let approval = ApprovalId::new(question);
    fixture.tell(SessionsMessage::Decide { session: session(), approval, decision, reply });
    heard.await
}

fn quiet(progress_timeout_ms: u64) -> Limits {
    Limits { progress_timeout_ms, approval_timeout_ms: 5_000, ..limits(3_600_000) }
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_progress_ends_when_nobody_answers_whether_it_goes_on() {
    let fixture = Fixture::new(ScriptedLlm::from_fn(|_| ScriptedReply::Stall)).await;
    let began = Instant::now();
    let outcome = paid(asking(&fixture, quiet(1_000))).await;
    assert_eq!(outcome.guard_reason, Some(GuardReason::NoProgress));
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!((6_000..6_100).contains(&took), "a second of silence, and five for an answer: {took}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_progress_has_that_time_again_with_a_yes_and_ends_at_a_no() {
    let fixture = Fixture::new(ScriptedLlm::from_fn(|_| ScriptedReply::Stall)).await;
    let began = Instant::now();
    let pending = asking(&fixture, quiet(1_000));
    tokio::time::sleep(Duration::from_millis(2_000)).await;
    assert_eq!(decide(&fixture, "s-limit4", Decision::AllowOnce).await, Some(Heard::Counts));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(decide(&fixture, "s-limit6", Decision::AllowOnce).await, Some(Heard::NotAsked), "not yet");
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(decide(&fixture, "s-limit6", Decision::Deny { reason: String::new() }).await, Some(Heard::Counts));
    let outcome = paid(pending).await;
    assert_eq!(outcome.guard_reason, Some(GuardReason::NoProgress));
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!((3_500..3_600).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_at_a_limit_asks_again_when_its_actor_is_started_again() {
    let calls = ScriptedLlm::from_fn(|request| match request.step {
        1 => ScriptedReply::call("test/jump", serde_json::json!({})),
        _ => ScriptedReply::text("fine"),
    });
    let fixture = tree_whose_clock_jumps(calls, MemoryStore::new(), 0).await;
    let pending = asking(&fixture, Limits { max_steps: 1, ..limits(TURN_MS) });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let children = fixture.tree.rooms.sessions.actor().unwrap().get_cell().get_children();
    children.first().expect("its actor").kill();
    // The clock stands still at the question, before and behind the restart.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let records = fixture.store.load(&session()).await.expect("its journal");
    let asked: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.fact {
            Fact::LimitAsked { question, .. } => Some(question.as_str()),
            _another => None,
        })
        .collect();
    let [question] = asked[..] else { panic!("one question, asked again as it was: {asked:?}") };
    assert_eq!(decide(&fixture, question, Decision::AllowOnce).await, Some(Heard::Counts));
    let outcome = paid(pending).await;
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "fine"), "{:?}", outcome.error);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_cannot_ask_a_person_ends_after_one_time_without_progress() {
    let fixture = Fixture::new(ScriptedLlm::from_fn(|_| ScriptedReply::Stall)).await;
    let began = Instant::now();
    let input =
        TurnInput { asks_at_limits: true, approvals: ApprovalsMode::Deny, ..(*input("t1", quiet(1_000))).clone() };
    let (reply, pending) = Reply::channel();
    let input = Arc::new(input);
    fixture.tell(SessionsMessage::Submit {
        session: session(),
        input,
        turn_config: turn_config(),
        is_repeated: false,
        reply,
    });
    assert_eq!(paid(pending).await.guard_reason, Some(GuardReason::NoProgress));
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!((1_000..1_100).contains(&took), "{took}");
}

/// Whether a turn asks was decided by the input that began it, and not by the one that answers its question.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_resumed_is_asked_about_without_progress_too() {
    let asks = ScriptedLlm::from_fn(|request| match request.step {
        1 => ScriptedReply::call("ask_user", serde_json::json!({"question": "which?"})),
        _ => ScriptedReply::Stall,
    });
    let fixture = Fixture::new(asks).await;
    let input = TurnInput {
        asks_at_limits: true,
        approvals: ApprovalsMode::Wait,
        interactive: true,
        ..(*input("t1", quiet(1_000))).clone()
    };
    let (reply, pending) = Reply::channel();
    let input = Arc::new(input);
    fixture.tell(SessionsMessage::Submit {
        session: session(),
        input,
        turn_config: turn_config(),
        is_repeated: false,
        reply,
    });
    let token = paid(pending).await.token.expect("it is suspended");
    let (reply, pending) = Reply::channel();
    fixture.tell(SessionsMessage::Resume {
        parent: None,
        session: session(),
        submission: TurnId::new("t2"),
        token,
        tenant: None,
        said: bob_messages::input::ResumeReply::Answer("blue".into()),
        limits: quiet(1_000),
        turn_config: turn_config(),
        reply,
    });
    let began = Instant::now();
    assert_eq!(paid(pending).await.guard_reason, Some(GuardReason::NoProgress));
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!((6_000..6_100).contains(&took), "a second of silence, and five for an answer: {took}");
}
