//! What was told live and what the journal tells afterwards are the same events.

use super::{AgentEvent, CallState, rebuild};
use crate::session::ApprovalsMode;
use crate::turn::Limits;
use crate::turn::story_tests::{Setup, native, told};

/// The event as the journal can know it; `None` for one that is only live.
fn known(event: &AgentEvent) -> Option<AgentEvent> {
    let mut event = event.clone();
    match &mut event {
        AgentEvent::PromptBuilt { .. }
        | AgentEvent::LlmRequested { .. }
        | AgentEvent::LlmStreamChunk { .. }
        | AgentEvent::LlmRetried { .. }
        | AgentEvent::ActorRestarted { .. }
        | AgentEvent::HistoryCondensed { .. }
        | AgentEvent::SkillsSelected { .. }
        | AgentEvent::McpProcessStarted { .. }
        | AgentEvent::McpProcessStopped { .. } => return None,
        AgentEvent::ToolCalled { state, title, kind, .. } => {
            if *state != CallState::Proposed {
                return None;
            }
            (*title, *kind) = (String::new(), Default::default());
        }
        AgentEvent::TurnStarted { tools, servers, .. } => (*tools, *servers) = (Vec::new(), Vec::new()),
        AgentEvent::LlmCompleted { .. }
        | AgentEvent::LlmFailed { .. }
        | AgentEvent::ActionParsed { .. }
        | AgentEvent::ActionMalformed { .. }
        | AgentEvent::ToolCompleted { .. }
        | AgentEvent::ApprovalRequested { .. }
        | AgentEvent::ApprovalDecided { .. }
        | AgentEvent::GuardTripped { .. }
        | AgentEvent::TurnFinished { .. } => {}
    }
    Some(event)
}

#[track_caller]
fn same(setup: Setup, steps: &[&str]) -> usize {
    let world = told(setup, steps);
    let live: Vec<_> = world.events.iter().filter_map(known).collect();
    let rebuilt = rebuild(&world.folded().id, &world.stored);
    let events: Vec<_> = rebuilt.iter().map(|envelope| envelope.event.clone()).collect();
    assert_eq!(live, events, "{steps:?}");
    let mut expected = 0;
    for envelope in &rebuilt {
        expected = if matches!(envelope.event, AgentEvent::TurnStarted { .. }) { 1 } else { expected + 1 };
        assert_eq!(envelope.seq, expected, "numbered by one in each run");
    }
    events.len()
}

#[test]
fn the_rebuilt_events_are_the_live_ones() {
    let asks = || Setup { approvals: ApprovalsMode::Suspend, ..native() };
    let waits = || Setup { approvals: ApprovalsMode::Wait, ..native() };
    let short = Setup { limits: Limits { max_steps: 1, ..Limits::default() }, ..native() };
    let few = Setup { limits: Limits { max_tool_calls: 1, ..Limits::default() }, ..native() };
    let mut all = same(native(), &["user hi", "llm hello", "user and", "llm again"]);
    all += same(native(), &["user go", "calls local__read {}; local__write {}", "ok 1 a", "ok 2 b", "llm done"]);
    all += same(
        native(),
        &["user go", "calls local__deny {}", "llm so", "user more", "calls local__bad {}; local__deny {}"],
    );
    all += same(short, &["user go", "calls local__read {}", "ok 1 a"]);
    all += same(few, &["user go", "calls local__read {}; local__read {\"a\":1}", "ok 1 a"]);
    all += same(waits(), &["user go", "calls local__ask {}", "approve s-c00000001", "ok 1 done", "llm fine"]);
    all += same(waits(), &["user go", "calls local__ask {}", "deny s-c00000001", "llm fine"]);
    let (ask, yes) = ("calls local__ask {}", "approve s-c00000001");
    all += same(waits(), &["user go", ask, "drift", yes, "approve s-c00000001.2", "ok 1 done", "llm fine"]);
    all += same(waits(), &["user go", ask, "approve-all s-c00000001", "ok 1 done", ask, "ok 2 done", "llm fine"]);
    all += same(asks(), &["user go", "calls local__ask {}", "resume s~secret1-5 allow", "ok 1 done", "llm fine"]);
    all += same(asks(), &["user go", "calls local__ask {}", "resume s~secret1-5 no", "llm fine"]);
    all += same(asks(), &["user go", "calls local__ask {}", "user never mind", "llm well"]);
    all += same(native(), &["user go", "calls ask_user {\"question\":\"which?\"}", "user red", "llm red then"]);
    all += same(native(), &["user go", "calls local__read {}", "steer and hurry", "ok 1 a", "llm done"]);
    all += same(native(), &["user go", "steer wait", "llm done", "llm waited"]);
    all += same(native(), &["user go", "llm-fails"]);
    all += same(native(), &["user go", "calls local__write {}", "stop turn_timeout"]);
    all += same(native(), &["user go", "calls local__read {}", "stop cancelled"]);
    assert!(all > 100, "{all} events");
}

#[test]
fn a_reply_that_is_no_action_is_told_with_the_complaint() {
    let mut setup = native();
    setup.brief.tool_mode = crate::llm::ToolModeChoice::Json;
    same(setup.clone(), &["user hi", "llm hello", r#"llm {"type":"final","content":"hello"}"#]);
    same(setup, &["user hi", "llm hello", "llm hello again"]);
}

#[test]
fn any_beginning_of_a_journal_tells_the_beginning_of_its_events() {
    let steps = ["user go", "calls local__read {}; local__write {}", "ok 1 a", "ok 2 b", "llm done"];
    let world = told(native(), &steps);
    let all = rebuild(&world.folded().id, &world.stored);
    for until in 0..world.stored.len() {
        let some = rebuild(&world.folded().id, &world.stored[..until]);
        assert_eq!(some, all[..some.len()], "{until}");
    }
}
