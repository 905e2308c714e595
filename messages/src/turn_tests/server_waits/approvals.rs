//! A call that its server has taken may need an approval when it goes on: its tool is another one by now, or a lasting
//! yes was taken back. Nothing is sent before a person has said yes.

use super::*;
use crate::approvals::Decision;

/// A call that was approved, and which its server has taken; its tool is another one by now.
fn changed(takes: impl Fn(&mut World, &str)) -> World {
    let mut world = world("calls mcp/far/ask {\"a\":1}");
    resumes(&mut world, "yes", ResumeReply::Decision(Decision::AllowOnce));
    takes(&mut world, "1");
    world.tool_changes += 1;
    world
}

#[track_caller]
fn assert_asks(world: &World) {
    let outcome = last(world);
    assert_eq!(
        (outcome.finish_reason, outcome.suspend_reason),
        (FinishReason::Suspended, Some(SuspendReason::ApprovalRequired))
    );
    assert_eq!(outcome.question.as_deref(), Some("May mcp/far/ask run with {\"a\":1}?"));
}

#[test]
fn a_reply_to_a_form_waits_for_the_approval_of_a_tool_that_has_changed() {
    let mut world = changed(asks);
    replies(&mut world, "form", "{\"name\": \"Ada\"}");
    assert_asks(&world);
    resumes(&mut world, "again", ResumeReply::Decision(Decision::AllowOnce));
    assert_eq!(world.dispatched, ["c00000001", "c00000001 goes on with {\"name\": \"Ada\"}"]);
    world.tool("1", CallStatus::Ok, "42");
    assert_ends(&mut world, CallStatus::Ok, "42");
}

#[test]
fn an_answer_in_place_of_the_decision_is_no_yes() {
    let mut world = changed(asks);
    replies(&mut world, "form", "{\"name\": \"Ada\"}");
    assert_asks(&world);
    replies(&mut world, "again", "{\"name\": \"Ada\"}");
    assert_eq!(world.dispatched, ["c00000001"], "it is not sent");
    let denied = "outcome unknown: the tool server had taken the call, which was given up: denied: \
                  {\"name\": \"Ada\"}";
    assert_ends(&mut world, CallStatus::Unknown, denied);
}

#[test]
fn a_crash_under_the_question_asks_it_again() {
    for takes in [asks, is_task_still] {
        let mut world = changed(takes);
        replies(&mut world, "form", "");
        assert_asks(&world);
        // The question is durable, and the suspension is not.
        world.stored.pop();
        world.dispatched.clear();
        wakes(&mut world);
        assert_asks(&world);
        assert_eq!(world.dispatched, [""; 0]);
        assert_replayed(&world);
    }
}

/// The call has become a task, and has no result in its time.
fn is_task_still(world: &mut World, id: &str) {
    is_task(world, id);
    is_task(world, id);
}

#[test]
fn a_task_that_a_person_denies_is_given_up() {
    let mut world = changed(is_task_still);
    replies(&mut world, "form", "");
    assert_asks(&world);
    resumes(&mut world, "no", ResumeReply::Decision(Decision::Deny { reason: "not now".into() }));
    assert_eq!(world.dispatched, ["c00000001", "c00000001 is followed", "mcp/far/ask is given up"]);
    let denied = "outcome unknown: the tool server had taken the call, which was given up: denied: not now";
    assert_ends(&mut world, CallStatus::Unknown, denied);
}

#[test]
fn a_text_for_a_task_that_is_asked_about_is_a_no() {
    let mut world = changed(is_task_still);
    replies(&mut world, "form", "");
    replies(&mut world, "text", "it is 43");
    assert_eq!(world.dispatched, ["c00000001", "c00000001 is followed", "mcp/far/ask is given up"]);
    let denied = "outcome unknown: the tool server had taken the call, which was given up: denied: it is 43";
    assert_ends(&mut world, CallStatus::Unknown, denied);
}
