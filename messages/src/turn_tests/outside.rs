//! A call whose result comes from outside: it is not run again, and the reply to the turn's token is its result.

use super::world::World;
use crate::approvals::Decision;
use crate::chat::{CallStatus, FinishReason};
use crate::event::AgentEvent;
use crate::ids::TurnId;
use crate::input::{ApprovalsMode, ResumeReply};
use crate::outcome::{SuspendReason, TurnOutcome};
use crate::replay::replay;
use crate::submission::TurnNews;
use crate::tools::{ToolOutput, ToolReturn};
use crate::turn::tests::stories::{Setup, native, told};
use crate::turn::{Recover, TurnMessage};
use std::sync::Arc;

fn world(calls: &str) -> World {
    told(Setup { approvals: ApprovalsMode::Suspend, ..native() }, &["user go", calls])
}

/// The call whose id ends so comes back without its result.
fn waits(world: &mut World, id: &str, what: &str) {
    let output = ToolOutput::waits_for(what);
    let returned = world.returns(id, ToolReturn { status: CallStatus::Ok, output, duration_ms: 1 });
    world.say(returned);
    world.settle();
}

/// Somebody replies to the token, under which name; the machine is a new one.
fn replies(world: &mut World, name: &str, reply: ResumeReply) {
    let token = last(world).token.clone().expect("it is suspended");
    world.crash();
    let (submission, turn_config) = (TurnId::new(name), Arc::clone(&world.turn_config));
    world.say(TurnMessage::Resume { submission, token, reply: Box::new(reply), parent: None, turn_config });
    world.settle();
}

fn last(world: &World) -> &TurnOutcome {
    let outcomes = world.news.iter().rev().find_map(|news| match news {
        TurnNews::Finished { outcome, .. } => Some(&**outcome),
        _ => None,
    });
    outcomes.expect("a run has ended")
}

#[track_caller]
fn assert_waits_for(world: &World, what: &str) {
    let outcome = last(world);
    assert_eq!(
        (outcome.finish_reason, outcome.suspend_reason),
        (FinishReason::Suspended, Some(SuspendReason::ExternalWait))
    );
    assert_eq!(outcome.question.as_deref(), Some(what));
}

#[track_caller]
fn assert_replayed(world: &World) {
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

#[test]
fn the_reply_to_the_token_is_the_result_of_the_call() {
    let mut world = world("calls local__write {\"a\":1}; local__read {}");
    // The call behind it has run before anybody is told.
    waits(&mut world, "1", "the build of tonight");
    world.tool("2", CallStatus::Ok, "notes");
    assert_waits_for(&world, "the build of tonight");
    let answer = ResumeReply::Answer("it is green".into());
    replies(&mut world, "reply", answer);
    assert_eq!(world.dispatched, ["c00000001", "c00000002"], "nothing runs twice");
    let told = world.events.iter().filter_map(|told| match &told.event {
        AgentEvent::ToolCompleted { result, .. } => Some((result.call.as_str(), result.output.plain())),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [("c00000002", "notes".into()), ("c00000001", "it is green".into())]);
    world.llm(Ok(super::world::answer("all is well", &[])));
    let results: Vec<_> =
        last(&world).tool_transcript.iter().map(|entry| (entry.status, entry.result.clone())).collect();
    assert_eq!(results, [(CallStatus::Ok, "it is green".to_owned()), (CallStatus::Ok, "notes".to_owned())]);
    assert_eq!((last(&world).content.as_str(), last(&world).turn_id.as_str()), ("all is well", "t1"));
    assert_replayed(&world);
}

#[test]
fn each_of_several_waits_has_a_token_of_its_own_and_decides_nothing() {
    let mut world = world("calls local__write {\"a\":1}; local__idem {}; local__ask {}");
    waits(&mut world, "1", "the mill");
    waits(&mut world, "2", "the smith");
    assert_waits_for(&world, "the mill");
    let records = world.stored.len();
    replies(&mut world, "odd", ResumeReply::Decision(Decision::AllowOnce));
    let is_refused =
        |news: &TurnNews| matches!(news, TurnNews::Refused { submission, .. } if submission.as_str() == "odd");
    assert!(world.news.iter().any(is_refused), "a decision is no result");
    assert_eq!(world.stored.len(), records);
    replies(&mut world, "one", ResumeReply::Answer("flour".into()));
    assert_waits_for(&world, "the smith");
    replies(&mut world, "two", ResumeReply::Answer("nails".into()));
    // Now the person is asked, who said nothing so far.
    assert_eq!(last(&world).suspend_reason, Some(SuspendReason::ApprovalRequired));
    replies(&mut world, "three", ResumeReply::Decision(Decision::AllowOnce));
    assert_eq!(world.dispatched, ["c00000001", "c00000002", "c00000003"]);
    world.tool("3", CallStatus::Ok, "built");
    world.llm(Ok(super::world::answer("a house", &[])));
    let results: Vec<_> = last(&world).tool_transcript.iter().map(|entry| entry.result.clone()).collect();
    assert_eq!(results, ["flour", "nails", "built"]);
    assert_replayed(&world);
}

#[test]
fn a_crash_before_the_run_has_ended_keeps_what_is_waited_for() {
    let mut world = world("calls local__write {\"a\":1}; local__read {}");
    waits(&mut world, "1", "the mill");
    world.crash();
    world.say(TurnMessage::Wake { turn_config: Arc::clone(&world.turn_config), recover: Recover::Continue });
    world.settle();
    // What only reads runs again, and nothing else does.
    assert_eq!(world.dispatched, ["c00000001", "c00000002", "c00000002"]);
    world.tool("2", CallStatus::Ok, "notes");
    assert_waits_for(&world, "the mill");
}

#[test]
fn whoever_goes_on_to_something_else_leaves_the_result_unknown() {
    let mut world = world("calls local__write {\"a\":1}");
    waits(&mut world, "1", "the mill");
    let input = super::world::input(7, "never mind", crate::limits::Limits::default());
    world.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&world.turn_config) });
    world.settle();
    world.llm(Ok(super::world::answer("fine", &[])));
    assert_eq!((last(&world).content.as_str(), last(&world).turn_id.as_str()), ("fine", "t7"));
    let history = world.folded().history;
    let result = history.iter().find_map(|message| match &**message {
        crate::chat::Message::Tool { result } => Some((result.status, result.output.plain())),
        _ => None,
    });
    let (status, text) = result.expect("the call has its result");
    assert!(status == CallStatus::Unknown && text.contains("outcome unknown"), "{status:?} {text}");
    assert_replayed(&world);
}

#[test]
fn a_failure_waits_for_nothing() {
    let mut world = world("calls local__write {\"a\":1}");
    let output = ToolOutput { waits_for: Some("nothing".into()), ..ToolOutput::error("no such mill") };
    let returned = world.returns("1", ToolReturn { status: CallStatus::Error, output, duration_ms: 1 });
    world.say(returned);
    world.settle();
    world.llm(Ok(super::world::answer("it failed", &[])));
    assert_eq!(last(&world).tool_transcript[0].result, "no such mill");
    let kept = world.folded().history;
    let text = serde_json::to_string(&kept).unwrap();
    assert!(!text.contains("waits_for"), "{text}");
}
