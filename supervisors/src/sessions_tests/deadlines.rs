//! Deadlines of turns and calls, exact to the millisecond in every state, on a paused clock.

use super::*;
use bob_actors::tools::Invocation;

/// The default limit of a turn.
const TURN_MS: u64 = 90_000;

/// The call's.
const CALL_MS: u64 = 15_000;

/// The last save of a turn is waited for so long.
const SAVE_MS: u64 = 40;

fn endless(name: &str) -> Arc<dyn ToolPort> {
    let run = |_: Nothing, _: Invocation| async move {
        std::future::pending::<()>().await;
        Ok(ToolOutput::text("never"))
    };
    Arc::new(tool(name, "Never ends.", run).risk(Risk::Low))
}

async fn with_tools(llm: ScriptedLlm, store: Arc<dyn SessionStore>) -> Fixture {
    let (rooms, feed) = (Rooms::default(), Feed::new(Vec::new()));
    let tree = start(TreeSpec {
        sessions: sessions::child(&rooms, &feed, SessionRules::default()),
        servers: crate::tools::DesiredServers::default(),
        further: Vec::new(),
        rooms,
        feed,
        store: Arc::clone(&store),
        llm: Arc::new(llm),
        retry: RetryPolicy::default(),
        tools: vec![risky(), endless("test/endless")],
        policy: Policy::default(),
    });
    Fixture { tree: tree.await.unwrap(), store }
}

fn calls(tool: &str) -> ScriptedLlm {
    model(vec![ScriptedReply::call(tool, serde_json::json!({}))], 0)
}

/// A turn that has all the time for its calls.
fn only_turn() -> Limits {
    Limits { turn_timeout_ms: TURN_MS, tool_timeout_ms: 10 * TURN_MS, ..Limits::default() }
}

#[tokio::test(start_paused = true)]
async fn c7_the_turns_deadline_is_kept_to_the_millisecond_in_each_wait_for_others() {
    for (what, llm) in [
        ("a silent model", model(vec![ScriptedReply::Stall], 0)),
        ("a slow model", model(vec![ScriptedReply::text("late")], TURN_MS + 1)),
        ("a hung tool", calls("test/endless")),
    ] {
        let fixture = with_tools(llm, MemoryStore::new()).await;
        let began = Instant::now();
        let outcome = paid(fixture.submit("t1", only_turn())).await;
        assert_took(began, TURN_MS);
        assert_eq!(outcome.guard_reason, Some(GuardReason::TurnTimeout), "{what}");
        assert!(outcome.saved && outcome.content.contains("90000 ms"), "{what}: {outcome:?}");
    }
}

/// Whichever of its operations hangs, from the claim to the last append.
#[tokio::test(start_paused = true)]
async fn c7_the_turns_deadline_fires_inside_each_operation_of_a_hung_store() {
    let held = |operation, nth| {
        let store = FaultStore::new(MemoryStore::new());
        store.plan(Some(operation), nth, Fault::Hold(Arc::new(Semaphore::new(0))));
        store
    };
    for (operation, nth) in
        [(Operation::Claim, 1), (Operation::Append, 1), (Operation::Append, 2), (Operation::Append, 3)]
    {
        let fixture = with_tools(calls("test/endless"), held(operation, nth)).await;
        let began = Instant::now();
        let outcome = paid(fixture.submit("t1", only_turn())).await;
        let took = u64::try_from(began.elapsed().as_millis()).unwrap();
        assert!((TURN_MS..=TURN_MS + SAVE_MS + 1).contains(&took), "{operation:?} {nth}: {took} ms");
        assert_eq!(outcome.guard_reason, Some(GuardReason::TurnTimeout), "{operation:?} {nth}");
    }
}

#[tokio::test(start_paused = true)]
async fn c7_a_calls_deadline_is_kept_to_the_millisecond_and_is_a_result() {
    let replies = vec![ScriptedReply::call("test/endless", serde_json::json!({})), ScriptedReply::text("went on")];
    let fixture = with_tools(model(replies, 0), MemoryStore::new()).await;
    let began = Instant::now();
    let outcome = paid(fixture.submit("t1", Limits::default())).await;
    assert_took(began, CALL_MS);
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "went on"));
    let call = &outcome.tool_transcript[0];
    assert_eq!(call.status, CallStatus::Error, "{call:?}");
    assert!(format!("{call:?}").contains("timed out after 15000 ms"), "{call:?}");
}

/// Both at one moment: the turn's deadline is reported, and the call has its one result.
#[tokio::test(start_paused = true)]
async fn c7_a_turn_and_its_call_whose_time_ends_together_end_once() {
    let limits = Limits { turn_timeout_ms: CALL_MS, tool_timeout_ms: CALL_MS, ..Limits::default() };
    let replies = vec![ScriptedReply::call("test/endless", serde_json::json!({})), ScriptedReply::Stall];
    let fixture = with_tools(model(replies, 0), MemoryStore::new()).await;
    let began = Instant::now();
    let outcome = paid(fixture.submit("t1", limits)).await;
    assert_took(began, CALL_MS);
    assert_eq!(outcome.guard_reason, Some(GuardReason::TurnTimeout));
    assert_eq!(outcome.tool_transcript.len(), 1, "{outcome:?}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbered {
    #[expect(dead_code, reason = "makes each call another one")]
    n: u32,
}

/// A turn of hours goes on while something comes, and ends soon after nothing does.
#[tokio::test(start_paused = true)]
async fn a_turn_that_makes_progress_goes_on_and_one_that_does_not_ends() {
    const QUIET_MS: u64 = 60_000;
    let limits = Limits {
        progress_timeout_ms: QUIET_MS,
        turn_timeout_ms: 24 * 3_600_000,
        max_steps: 100,
        max_tool_calls: 100,
        ..only_turn()
    };
    // Twenty answers, each after half of the quiet time, then none.
    let llm = ScriptedLlm::from_fn(move |request| match request.step {
        step @ 1..=20 => ScriptedReply::call("test/slow", serde_json::json!({ "n": step })),
        _ => ScriptedReply::Stall,
    });
    let slow = |_: Numbered, invocation: Invocation| async move {
        let progress = invocation.progress();
        for done in 0..4 {
            tokio::time::sleep(Duration::from_millis(QUIET_MS / 2)).await;
            progress.tell(f64::from(done), None, None);
        }
        Ok(ToolOutput::text("slow"))
    };
    let (rooms, feed) = (Rooms::default(), Feed::new(Vec::new()));
    let store = MemoryStore::new();
    let tree = start(TreeSpec {
        sessions: sessions::child(&rooms, &feed, SessionRules::default()),
        servers: crate::tools::DesiredServers::default(),
        further: Vec::new(),
        rooms,
        feed,
        store: Arc::clone(&store) as Arc<dyn SessionStore>,
        llm: Arc::new(llm),
        retry: RetryPolicy::default(),
        tools: vec![Arc::new(tool("test/slow", "Takes its time.", slow))],
        policy: Policy { mode: Some(bob_messages::permission::PermissionMode::Auto), ..Policy::default() },
    });
    let fixture = Fixture { tree: tree.await.unwrap(), store };
    let began = Instant::now();
    let outcome = paid(fixture.submit("t1", limits)).await;
    assert_eq!(outcome.guard_reason, Some(GuardReason::NoProgress), "{outcome:?}");
    assert!(outcome.content.contains("no progress for 60000 ms"), "{}", outcome.content);
    assert_eq!(outcome.tool_transcript.len(), 20);
    let (took, worked) = (u64::try_from(began.elapsed().as_millis()).unwrap(), 20 * 2 * QUIET_MS);
    let quiet = worked + QUIET_MS..=worked + QUIET_MS + QUIET_MS / 8 + SAVE_MS;
    assert!(quiet.contains(&took), "{took} ms");
}
