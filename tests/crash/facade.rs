//! Actors of a whole runtime fail: every caller has an answer, usually the requested one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bob::model::ScriptedReply;
use bob::sessions::FinishReason;
use bob::tools::{ToolOutput, tool};
use bob::{AgentError, AgentRequest, AgentRunResult, AgentRuntime, Runtime};
use bob_drill::traps::{Edge, Fault, Target, Trap, TrapId, Traps};
use bob_messages::chat::CallStatus;
use serde_json::json;

use crate::support::runtime::{Nothing, Recorder, endless, scripted, session, trapped, within};

const SESSIONS: usize = 8;

async fn runtime(recorder: &Arc<Recorder>) -> (Runtime, Traps) {
    let quick = tool("test/quick", "Returns.", |_: Nothing, _| async move { Ok(ToolOutput::text("ok")) });
    let replies = vec![ScriptedReply::call("test/quick", json!({})), ScriptedReply::text("fine")];
    trapped(scripted(replies).tools(Arc::new(quick)).sink(recorder.clone())).await
}

/// A turn in each of the sessions at once.
async fn turns(runtime: &Runtime) -> Vec<Result<AgentRunResult, AgentError>> {
    let turns: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.run(AgentRequest::text(session(&format!("s{number}")), "go")).await })
        })
        .collect();
    let mut ended = Vec::new();
    for turn in turns {
        ended.push(within(turn).await.expect("no panic reaches whoever asked"));
    }
    ended
}

/// How many turns had a final answer.
fn finals(ended: &[Result<AgentRunResult, AgentError>]) -> usize {
    let is_final = |ended: &&Result<AgentRunResult, AgentError>| match ended {
        Ok(AgentRunResult::Finished(response)) => {
            response.finish_reason == FinishReason::Final && response.content == "fine"
        }
        Ok(_) | Err(_) => false,
    };
    ended.iter().filter(is_final).count()
}

/// Waits until a trap has triggered.
async fn triggered(traps: &Traps, trap: TrapId) {
    within(async {
        while traps.triggered(trap) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Room, edge, and whether every turn ends as if nothing had happened.
fn rooms() -> Vec<(&'static str, Edge)> {
    let at = |room, kinds: &[&'static str]| {
        kinds
            .iter()
            .flat_map(|kind| [Edge::Before(kind), Edge::After(kind)])
            .map(|edge| (room, edge))
            .collect::<Vec<_>>()
    };
    [
        at("store", &["Claim", "Append"]),
        at("llm", &["Profile", "Infer"]),
        at("tools/local", &["Check", "Call"]),
        at("sessions", &["Submit", "News"]),
        at("tools", &["Tree"]),
    ]
    .concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_a3_a_room_that_panics_under_turns_is_back_and_no_user_sees_it() {
    for fault in [Fault::Panic, Fault::Kill] {
        for (room, edge) in rooms() {
            let recorder = Recorder::new();
            let (runtime, traps) = runtime(&recorder).await;
            // A model's profile is requested once.
            let passages = if matches!(edge, Edge::Before("Profile") | Edge::After("Profile")) { 0 } else { 2 };
            let trap = Trap::new(Target::Room(room.to_owned()), edge, fault).after(passages);
            let trap = traps.arm(trap);
            // A request for the tree is answered as well.
            let (ended, _nodes) = tokio::join!(turns(&runtime), async {
                for _ in 0..4 {
                    within(runtime.tree()).await;
                }
            });
            assert_eq!(finals(&ended), SESSIONS, "{fault:?} of {room} at {edge:?}: {ended:#?}");
            let triggered = traps.triggered(trap);
            assert_eq!(triggered, 1, "{fault:?} of {room} at {edge:?}");
            traps.disarm(trap);
            let next = turns(&runtime).await;
            assert_eq!(finals(&next), SESSIONS, "{fault:?} of {room} at {edge:?}: the sessions are usable");
            assert!(runtime.ended().borrow().is_none(), "the root lives");
            recorder.assert_in_order();
            within(runtime.shutdown()).await;
        }
    }
}

/// A kill acts when a handler returns, and a machine may keep a thread from going on in the middle of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a2_an_actor_that_outlives_its_supervisor_for_a_moment_tells_of_nothing_twice() {
    for performed in [0, 1] {
        let recorder = Recorder::new();
        let (runtime, traps) = runtime(&recorder).await;
        let edge = Edge::Effect { of: "ParseAction", performed };
        let held_up = traps.arm(Trap::new(Target::Turn(session("s0")), edge, Fault::Block { ms: 300 }));
        let (ended, ()) = tokio::join!(turns(&runtime), async {
            triggered(&traps, held_up).await;
            traps.arm(Trap::new(Target::Room("sessions".to_owned()), Edge::Next, Fault::Panic));
            within(runtime.tree()).await;
        });
        assert_eq!(finals(&ended), SESSIONS, "{ended:#?}");
        assert_eq!(traps.triggered_in_all(), 2, "the supervisor died while the actor was held up");
        recorder.assert_in_order();
        within(runtime.shutdown()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_a_root_that_dies_answers_everybody_at_once() {
    let recorder = Recorder::new();
    let (runtime, traps) = trapped(scripted(vec![ScriptedReply::Stall]).sink(recorder.clone())).await;
    traps.arm(Trap::new(Target::Room("root".to_owned()), Edge::Before("Tree"), Fault::Panic));
    let (ended, ()) = tokio::join!(turns(&runtime), async {
        recorder.seen_times(SESSIONS, |event| matches!(event, bob::events::AgentEvent::LlmRequested { .. })).await;
        assert!(within(runtime.tree()).await.is_empty());
    });
    for ended in ended {
        assert!(matches!(&ended, Err(AgentError::Internal(why)) if why.contains("ended before the turn")), "{ended:?}");
    }
}

#[tokio::test]
async fn the_root_is_told_of_each_guard_that_ends_a_turn() {
    let (runtime, traps) = trapped(scripted(vec![ScriptedReply::Stall])).await;
    let passage = Trap::new(Target::Room("root".to_owned()), Edge::Before("Tripped"), Fault::Block { ms: 1 }).times(3);
    let passage = traps.arm(passage);
    for told in 1..=2 {
        let limits = bob::config::Limits { turn_timeout_ms: 20, ..bob::config::Limits::default() };
        let request = AgentRequest { limits: Some(limits), ..AgentRequest::text(session("s"), "go") };
        let ended = within(runtime.run(request)).await.unwrap();
        assert_eq!(ended.response().finish_reason, FinishReason::GuardExceeded);
        // A request for the tree reaches the root after earlier messages.
        within(runtime.tree()).await;
        assert_eq!(traps.triggered(passage), told);
    }
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_a_reply_to_a_suspended_turn_outlives_the_supervisor_it_was_said_to() {
    for edge in [Edge::Before("Resume"), Edge::After("Resume"), Edge::Before("News"), Edge::After("News")] {
        let replies = vec![ScriptedReply::call("ask_user", json!({"question": "which?"})), ScriptedReply::text("fine")];
        let recorder = Recorder::new();
        let (runtime, traps) = trapped(scripted(replies).sink(recorder.clone())).await;
        let asked = within(runtime.run(AgentRequest::text(session("s"), "go"))).await.unwrap();
        let AgentRunResult::Suspended { token, .. } = asked else { panic!("it asks: {asked:?}") };
        let trap = Trap::new(Target::Room("sessions".to_owned()), edge, Fault::Panic);
        let trap = traps.arm(trap);
        let ended = within(runtime.resume(token, bob::sessions::ResumeReply::Answer("red".to_owned()))).await;
        assert_eq!(finals(std::slice::from_ref(&ended)), 1, "{edge:?}: {ended:?}");
        // The outcome is sent within the handler, and the point after it is passed later.
        triggered(&traps, trap).await;
        within(runtime.shutdown()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_a_change_outlives_the_supervisor_it_was_sent_to_and_is_made_once() {
    for edge in [Edge::Before("Configure"), Edge::After("Configure")] {
        let (runtime, traps) = trapped(scripted(vec![ScriptedReply::text("fine")])).await;
        within(runtime.run(AgentRequest::text(session("s"), "go"))).await.unwrap();
        let before = within(runtime.records(session("s"))).await.unwrap().len();
        let trap = traps.arm(Trap::new(Target::Room("sessions".to_owned()), edge, Fault::Panic));
        let patch = bob::sessions::OptionsPatch {
            agent: bob::sessions::Change::Set("new".to_owned()),
            ..bob::sessions::OptionsPatch::default()
        };
        assert_eq!(within(runtime.configure(session("s"), patch, None)).await, Ok(()), "{edge:?}");
        triggered(&traps, trap).await;
        assert_eq!(within(runtime.records(session("s"))).await.unwrap().len(), before + 1, "{edge:?}");
        within(runtime.shutdown()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_whoever_steers_while_the_supervisor_dies_hears_that_it_is_not_known() {
    let (runtime, traps) = trapped(scripted(vec![ScriptedReply::text("fine")])).await;
    let steer = async || within(runtime.steer(session("s"), vec![bob::model::ContentPart::text("hurry")])).await;
    assert_eq!(steer().await, Ok(false), "no turn runs");
    let trap = traps.arm(Trap::new(Target::Room("sessions".to_owned()), Edge::Before("Steer"), Fault::Panic));
    let told = steer().await;
    assert!(matches!(&told, Err(AgentError::Busy { text: why, .. }) if why.contains("restarted")), "{told:?}");
    assert_eq!(traps.triggered(trap), 1, "its successor took the question");
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_an_input_that_kills_every_supervisor_is_given_up_and_the_runtime_stands() {
    let recorder = Recorder::new();
    let (runtime, traps) = runtime(&recorder).await;
    let trap = traps.arm(Trap::new(Target::Room("sessions".into()), Edge::Before("Submit"), Fault::Panic).times(3));
    let ended = within(runtime.run(AgentRequest::text(session("s"), "go"))).await;
    assert!(
        matches!(&ended, Err(AgentError::Internal(why)) if why.contains("the supervisor of the sessions died")),
        "{ended:?}"
    );
    assert_eq!(traps.triggered(trap), 3, "once, and twice again");
    assert_eq!(finals(&turns(&runtime).await), SESSIONS);
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_rooms_whose_starts_fail_are_back_after_their_delays_under_the_same_names() {
    let recorder = Recorder::new();
    let (runtime, traps) = runtime(&recorder).await;
    let begun = Instant::now();
    for room in ["llm", "tools/local"] {
        traps.arm(Trap::new(Target::Room(room.into()), Edge::Before("Starting"), Fault::Fail).times(2));
        traps.arm(Trap::new(Target::Room(room.into()), Edge::Next, Fault::Kill));
    }
    let _whatever_came_of_them = turns(&runtime).await;
    within(async {
        loop {
            let tree = runtime.tree().await;
            let is_up =
                |node: &bob::health::NodeState| serde_json::to_value(node).is_ok_and(|node| node["state"] == "running");
            if tree.iter().all(is_up)
                && tree.iter().flat_map(|node| &node.children).all(|node| node.name.starts_with('s') || is_up(node))
                && traps.armed() == 0
            {
                let names: Vec<_> = tree.iter().map(|node| node.name.as_str()).collect();
                assert_eq!(names, ["store", "llm", "tools", "sessions"]);
                let llm = &tree[1];
                assert_eq!(llm.restarts, 3, "one death and two starts that failed");
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    println!("two starts that failed, back after {:?}", begun.elapsed());
    assert_eq!(finals(&turns(&runtime).await), SESSIONS);
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_a_turn_that_is_killed_lets_go_of_its_call() {
    let (entered, let_go) = (Arc::default(), Arc::default());
    let replies = vec![ScriptedReply::call("test/endless", json!({})), ScriptedReply::text("fine")];
    let (runtime, traps) = trapped(scripted(replies).tools(Arc::new(endless(&entered, &let_go)))).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(AgentRequest::text(session("s"), "go")).await }
    });
    within(entered.notified()).await;
    traps.arm(Trap::new(Target::Turn(session("s")), Edge::Next, Fault::Kill));
    let behind = runtime.run(AgentRequest::text(session("s"), "more"));
    let (running, behind, ()) = tokio::join!(within(running), within(behind), async {
        within(let_go.notified()).await;
        // The queued turn calls the tool as well, without a waiting caller.
        within(entered.notified()).await;
        within(runtime.shutdown()).await;
    });
    let running = running.expect("no panic").expect("an outcome");
    assert_eq!(running.response().content, "fine");
    assert_eq!(running.response().tool_transcript[0].status, CallStatus::Unknown);
    behind.expect("an outcome");
}
