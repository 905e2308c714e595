//! What was told live and what the journal tells afterwards are the same events.

use super::{AgentEvent, CallState, Envelope, StepEvent, rebuild};
use crate::input::ApprovalsMode;
use crate::limits::Limits;
use crate::store::{Fact, Reasoning, Record};
use crate::turn::tests::stories::{Setup, native, told};
use proptest::prelude::*;
use std::sync::Arc;

/// The event as the journal can know it; `None` for one that is only live.
fn known(told: &StepEvent) -> Option<StepEvent> {
    let mut told = told.clone();
    match &mut told.event {
        AgentEvent::PromptBuilt { .. }
        | AgentEvent::LlmRequested { .. }
        | AgentEvent::LlmStreamChunk { .. }
        | AgentEvent::LlmRetried { .. }
        | AgentEvent::ActorRestarted { .. }
        | AgentEvent::HistoryCondensed { .. }
        | AgentEvent::LimitAsked { .. }
        | AgentEvent::ModelSelected { .. }
        | AgentEvent::SkillsSelected { .. }
        | AgentEvent::SkillsReselected { .. }
        | AgentEvent::McpProcessStarted { .. }
        | AgentEvent::McpProcessStopped { .. } => return None,
        AgentEvent::ToolCalled { state, .. } => {
            if *state != CallState::Proposed {
                return None;
            }
        }
        AgentEvent::TurnStarted { tools, servers, .. } => (*tools, *servers) = (Vec::new(), Vec::new()),
        AgentEvent::MessageUser { .. }
        | AgentEvent::MessageAssistant { .. }
        | AgentEvent::LlmCompleted { .. }
        | AgentEvent::LlmFailed { .. }
        | AgentEvent::ActionParsed { .. }
        | AgentEvent::ActionMalformed { .. }
        | AgentEvent::ToolCompleted { .. }
        | AgentEvent::ApprovalRequested { .. }
        | AgentEvent::ApprovalDecided { .. }
        | AgentEvent::GuardTripped { .. }
        | AgentEvent::TurnFinished { .. } => {}
    }
    Some(told)
}

#[track_caller]
fn same(setup: Setup, steps: &[&str]) -> usize {
    let world = told(setup, steps);
    let live: Vec<_> = world.events.iter().filter_map(known).collect();
    let rebuilt = rebuild(&world.folded().id, &world.stored);
    let told = |envelope: &Envelope| StepEvent { step: envelope.step, event: envelope.event.clone() };
    let events: Vec<_> = rebuilt.iter().map(told).collect();
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
    all += same(native(), &["user go", "steer one", "steer two", "beside so | local__read {}", "ok 1 a", "llm done"]);
    all += same(native(), &["user go", "thinks hm | hello", "user more", "thinks again | bye"]);
    all += same(asks(), &["user go", "beside may I | local__ask {}", "resume s~secret1-5 no", "thinks hm | fine"]);
    all += same(Setup { structured: true, ..native() }, &["user go", "thinks hm | {\"ok\":true}"]);
    all += same(native(), &["user go", "llm-fails"]);
    all += same(native(), &["user go", "calls local__write {}", "stop turn_timeout"]);
    all += same(native(), &["user go", "calls local__read {}", "stop cancelled"]);
    assert!(all > 100, "{all} events");
}

/// What is said in a turn: steps in which words stand beside a call, things said into it, and thoughts at its end.
fn turn() -> impl Strategy<Value = Vec<(String, bool, bool)>> {
    proptest::collection::vec(("[a-zäö☃]{0,12}", any::<bool>(), any::<bool>()), 0..4)
}

proptest! {
    #[test]
    fn whatever_is_said_in_a_turn_is_rebuilt_as_it_was_told(turns in proptest::collection::vec(turn(), 1..4)) {
        let (mut steps, mut calls, mut said) = (Vec::new(), 0, 0);
        for (turn, rounds) in turns.iter().enumerate() {
            steps.push(format!("user turn {turn}"));
            for (text, before, within) in rounds {
                calls += 1;
                if *before {
                    said += 1;
                    steps.push(format!("steer before {said}"));
                }
                steps.push(format!("beside {text} | local__read {{\"n\":{calls}}}"));
                if *within {
                    said += 1;
                    steps.push(format!("steer within {said}"));
                }
                steps.push(format!("ok {calls} done"));
            }
            steps.push(format!("thinks of {turn} | bye {turn}"));
        }
        let steps: Vec<_> = steps.iter().map(String::as_str).collect();
        same(native(), &steps);
        let world = told(native(), &steps);
        let rebuilt = rebuild(&world.folded().id, &world.stored);
        let heard = rebuilt.iter().filter(|envelope| matches!(envelope.event, AgentEvent::MessageUser { .. })).count();
        prop_assert_eq!(heard, turns.len() + said);
    }
}

#[test]
fn thoughts_are_kept_up_to_a_bound_and_it_is_said_how_much_was_left_out() {
    let much = "ä☃".repeat(Reasoning::MOST_BYTES);
    let step = format!("thinks {much} | hello");
    let world = told(native(), &["user go", &step]);
    let rebuilt = rebuild(&world.folded().id, &world.stored);
    let kept = rebuilt.iter().find_map(|envelope| match &envelope.event {
        AgentEvent::MessageAssistant { reasoning, .. } => reasoning.clone(),
        _another => None,
    });
    let kept = kept.expect("it is kept");
    assert!(kept.text.len() <= Reasoning::MOST_BYTES && kept.text.len() > Reasoning::MOST_BYTES - 4);
    assert!(much.starts_with(&kept.text));
    assert_eq!(kept.text.len() as u64 + kept.left_out_bytes, much.len() as u64);
    assert_eq!(Reasoning::of(""), None);
    same(native(), &["user go", &step]);
}

#[test]
fn a_journal_of_an_older_program_tells_what_it_has() {
    let world = told(native(), &["user go", "beside so | local__read {}", "ok 1 a", "thinks hm | done"]);
    let older = world.stored.iter().map(|record| {
        let mut record = Record::clone(record);
        if let Fact::Answered(answered) = &mut record.fact {
            (answered.tools, answered.reasoning) = (Vec::new(), None);
        }
        let mut line = serde_json::to_value(&record).unwrap();
        assert!(line["body"].get("tools").is_none() && line["body"].get("reasoning").is_none(), "{line}");
        Arc::new(serde_json::from_value(line.take()).unwrap())
    });
    let older: Vec<Arc<Record>> = older.collect();
    let rebuilt = rebuild(&world.folded().id, &older);
    assert_eq!(rebuilt.len(), rebuild(&world.folded().id, &world.stored).len());
    assert!(rebuilt.iter().any(|envelope| matches!(&envelope.event,
        AgentEvent::ToolCalled { title, kind, .. } if title.is_empty() && kind.is_other())));
    assert!(rebuilt.iter().any(|envelope| matches!(&envelope.event,
        AgentEvent::MessageAssistant { text, reasoning: None, .. } if text == "done")));
}

#[test]
fn a_reply_that_is_no_action_is_told_with_the_complaint() {
    let mut setup = native();
    setup.turn_config.tool_mode = crate::llm::ToolModeChoice::Json;
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
