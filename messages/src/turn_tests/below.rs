//! Sub-agents that are suspended, as the machine of their caller sees them: one token, one decision handed down once, and
//! no suspended turn left behind a call that has ended.

use super::tasks::{assert_kept, beside, calls, ends, limits, outcomes, says, used};
use super::world::{World, answer, input, session_id};
use crate::agent::{Resumption, outcome_of};
use crate::approvals::Decision;
use crate::chat::{Asking, CallStatus, Delegated, FinishReason};
use crate::ids::{ResumeToken, SessionId, TurnId};
use crate::input::{ApprovalsMode, ResumeReply, TurnInput};
use crate::limits::Limits;
use crate::options::ParentTurn;
use crate::outcome::{SuspendReason, TurnOutcome};
use crate::store::Fact;
use crate::submission::TurnNews;
use crate::tools::{ToolOutput, ToolReturn};
use crate::turn::{Recover, TurnMessage};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

const ONE: &str = "{\"task\":\"one\"}";
const TWO: &str = "{\"task\":\"two\"}";

fn child_session(call: &str) -> SessionId {
    SessionId::parse(&format!("child{call}")).unwrap()
}

/// A sub-agent that is suspended.
fn suspended(call: &str, token: &str) -> ToolReturn {
    let (session, turn, token) = (child_session(call), TurnId::new(format!("of{call}")), ResumeToken::new(token));
    let output = Asking { session, turn, token, used: used() }.output(&format!("May {call} go on?"));
    ToolReturn { status: CallStatus::Ok, output, duration_ms: 1 }
}

pub(super) fn suspending(number: u32, limits: Limits) -> TurnInput {
    TurnInput { approvals: ApprovalsMode::Suspend, ..input(number, "go", limits) }
}

/// A turn whose calls of this agent run.
fn calling(tasks: &[&str]) -> World {
    let mut world = beside(4);
    says(&mut world, suspending(1, limits()));
    let tasks: Vec<_> = tasks.iter().map(|task| ("agent__inline", *task)).collect();
    calls(&mut world, &tasks);
    world
}

fn came(world: &mut World, call: &str, returned: ToolReturn) {
    super::tasks::came(world, call, returned);
}

/// The person says this to the newest token.
pub(super) fn replies(world: &mut World, submission: &str, reply: ResumeReply) {
    let token = outcomes(world).last().and_then(|last| last.token.clone()).expect("a token");
    resumes(world, submission, token, reply, None);
}

pub(super) fn resumes(
    world: &mut World,
    submission: &str,
    token: ResumeToken,
    reply: ResumeReply,
    parent: Option<Box<ParentTurn>>,
) {
    let (submission, turn_config) = (TurnId::new(submission), Arc::clone(&world.turn_config));
    world.say(TurnMessage::Resume { submission, token, reply: Box::new(reply), parent, turn_config });
    world.settle();
}

/// What was handed down, oldest first.
fn handed(world: &World) -> Vec<&Resumption> {
    world.handed.iter().collect()
}

fn given_up(world: &World) -> Vec<&SessionId> {
    let given_up = world.news.iter().filter_map(|news| match news {
        TurnNews::ChildGivenUp { child, .. } => Some(child),
        _ => None,
    });
    given_up.collect()
}

#[test]
fn a_suspended_sub_agent_suspends_its_caller_with_a_token_of_its_own() {
    let mut world = calling(&[ONE]);
    came(&mut world, "1", suspended("1", "below"));
    let outcome = outcomes(&world)[0];
    assert_eq!(outcome.finish_reason, FinishReason::Suspended);
    assert_eq!(outcome.suspend_reason, Some(SuspendReason::ApprovalRequired));
    assert_eq!(outcome.question.as_deref(), Some("May 1 go on?"));
    let token = outcome.token.clone().unwrap();
    assert_eq!((token.session(), token == ResumeToken::new("below")), (Some(session_id()), false));
    assert_eq!(outcome.delegated.as_deref(), Some(&used()), "what it used so far");
    assert_kept(&world);

    replies(&mut world, "r1", ResumeReply::Decision(Decision::AllowOnce));
    let [resumption] = handed(&world)[..] else { panic!("handed down once") };
    assert_eq!(resumption.decision, Decision::AllowOnce);
    assert_eq!((&resumption.child.session, &resumption.child.token), (&child_session("1"), &ResumeToken::new("below")));
    assert_eq!((resumption.submission.as_str(), resumption.parent.call.as_str()), ("r1-c00000001", "c00000001"));
    assert!(resumption.limits.max_steps < limits().max_steps, "{:?}", resumption.limits);
    ends(&mut world, "1");
    world.llm(Ok(answer("done", &[])));
    let outcome = outcomes(&world)[1];
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "done"));
    assert_eq!(outcome.delegated.as_deref(), Some(&used()), "its outcome has all of it, and counts once");
    assert_eq!(outcome.tool_transcript[0].result, "found");
    assert_eq!(given_up(&world), Vec::<&SessionId>::new());
    assert_kept(&world);
    resumes(&mut world, "r2", token, ResumeReply::Decision(Decision::AllowOnce), None);
    assert!(matches!(world.news.last(), Some(TurnNews::Refused { .. })), "a token is good for one answer");
}

#[test]
fn a_sub_agent_that_fails_before_it_goes_on_stays_on_the_bill() {
    let mut world = calling(&[ONE]);
    came(&mut world, "1", suspended("1", "below"));
    replies(&mut world, "r1", ResumeReply::Decision(Decision::AllowOnce));
    // Its journal could not be read, so its outcome knows nothing of its turn.
    let nothing = Delegated { sessions: 1, ..Delegated::default() };
    let output = ToolOutput { delegated: Some(Box::new(nothing)), ..ToolOutput::error("it failed") };
    came(&mut world, "1", ToolReturn { status: CallStatus::Error, output, duration_ms: 1 });
    world.llm(Ok(answer("done", &[])));
    assert_eq!(outcomes(&world)[1].delegated.as_deref(), Some(&used()));
    assert_kept(&world);
}

#[test]
fn every_decision_reaches_the_sub_agent_as_it_was_made() {
    let reason = || "not today".to_owned();
    let edit = Decision::Edit { arguments: serde_json::json!({"a": 1}) };
    for (reply, expected) in [
        (ResumeReply::Decision(Decision::AllowSession), Decision::AllowSession),
        (ResumeReply::Decision(Decision::AllowAlways), Decision::AllowAlways),
        (ResumeReply::Decision(edit.clone()), edit),
        (ResumeReply::Decision(Decision::Deny { reason: reason() }), Decision::Deny { reason: reason() }),
        (ResumeReply::Decision(Decision::DenyAlways { reason: reason() }), Decision::DenyAlways { reason: reason() }),
        (ResumeReply::Answer(reason()), Decision::Deny { reason: reason() }),
    ] {
        let mut world = calling(&[ONE]);
        came(&mut world, "1", suspended("1", "below"));
        replies(&mut world, "r1", reply);
        assert_eq!(handed(&world).iter().map(|one| &one.decision).collect::<Vec<_>>(), [&expected]);
        assert_eq!(world.memory.len(), 0, "what it means beyond the call is for the sub-agent to say");
        assert_kept(&world);
    }
}

#[test]
fn a_sub_agent_that_asks_again_suspends_its_caller_again() {
    let mut world = calling(&[ONE]);
    came(&mut world, "1", suspended("1", "first"));
    let first = outcomes(&world)[0].token.clone();
    replies(&mut world, "r1", ResumeReply::Decision(Decision::AllowOnce));
    came(&mut world, "1", suspended("1", "second"));
    assert_ne!(outcomes(&world)[1].token, first);
    replies(&mut world, "r2", ResumeReply::Decision(Decision::AllowOnce));
    let tokens: Vec<_> = handed(&world).iter().map(|one| one.child.token.as_str()).collect();
    assert_eq!(tokens, ["first", "second"]);
    ends(&mut world, "1");
    world.llm(Ok(answer("done", &[])));
    assert_eq!(outcomes(&world)[2].delegated.as_deref(), Some(&used()));
    assert_kept(&world);
}

#[test]
fn of_two_that_are_suspended_each_has_its_token_and_the_other_calls_end_first() {
    let mut world = calling(&[ONE, TWO, ONE]);
    came(&mut world, "2", suspended("2", "two"));
    came(&mut world, "1", suspended("1", "one"));
    assert_eq!(outcomes(&world).len(), 0, "the third one is at work");
    ends(&mut world, "3");
    assert_eq!(outcomes(&world)[0].question.as_deref(), Some("May 1 go on?"));
    assert_eq!(outcomes(&world)[0].delegated.as_deref().unwrap().sessions, 3);
    replies(&mut world, "r1", ResumeReply::Decision(Decision::AllowOnce));
    ends(&mut world, "1");
    assert_eq!(outcomes(&world)[1].question.as_deref(), Some("May 2 go on?"));
    replies(&mut world, "r2", ResumeReply::Decision(Decision::Deny { reason: String::new() }));
    let all: Vec<_> = handed(&world).iter().map(|one| (one.child.token.as_str(), one.submission.as_str())).collect();
    assert_eq!(all, [("one", "r1-c00000001"), ("two", "r2-c00000002")]);
    ends(&mut world, "2");
    world.llm(Ok(answer("done", &[])));
    let outcome = outcomes(&world)[2];
    let all = Delegated { sessions: 3, steps: 6, tool_calls: 3, ..*outcome.delegated.as_deref().unwrap() };
    assert_eq!(outcome.delegated.as_deref(), Some(&all));
    assert_kept(&world);
}

#[test]
fn what_a_suspended_sub_agent_may_use_is_held_for_it() {
    let mut world = beside(1);
    says(&mut world, suspending(1, limits()));
    calls(&mut world, &[("agent__inline", ONE), ("agent__inline", TWO)]);
    came(&mut world, "1", suspended("1", "one"));
    // Its place is free, its budget is not.
    ends(&mut world, "2");
    let steps: Vec<u32> = world.terms.iter().map(|terms| terms.limits.max_steps).collect();
    assert!(steps.len() == 2 && steps.iter().sum::<u32>() < limits().max_steps, "{steps:?}");
}

#[test]
fn a_decision_is_handed_down_again_after_a_crash_under_the_same_submission() {
    for recover in [None, Some(Recover::Continue)] {
        let mut world = calling(&[ONE]);
        came(&mut world, "1", suspended("1", "below"));
        replies(&mut world, "r1", ResumeReply::Decision(Decision::AllowOnce));
        world.crash();
        match recover {
            Some(recover) => {
                let turn_config = Arc::clone(&world.turn_config);
                world.say(TurnMessage::Wake { turn_config, recover });
                world.settle();
            }
            // Another program finishes the turn.
            None => {
                let config = TurnConfig { on_restart: OnRestart::Resume, ..(*world.turn_config).clone() };
                world.turn_config = Arc::new(config);
                says(&mut world, TurnInput { turn: TurnId::new("r1"), ..suspending(1, limits()) });
            }
        }
        let submissions: Vec<_> = handed(&world).iter().map(|one| one.submission.as_str()).collect();
        assert_eq!(submissions, ["r1-c00000001", "r1-c00000001"], "{recover:?}");
        ends(&mut world, "1");
        world.llm(Ok(answer("done", &[])));
        assert_eq!(outcomes(&world).last().map(|last| last.content.as_str()), Some("done"));
        assert_kept(&world);
    }
}

#[test]
fn a_suspension_that_a_crash_lost_is_asked_for_again() {
    let mut world = calling(&[ONE]);
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    world.settle();
    came(&mut world, "1", suspended("1", "below"));
    assert_eq!(outcomes(&world)[0].finish_reason, FinishReason::Suspended);
    // So is one whose outcome was lost.
    let asked = world.stored.iter().position(|record| matches!(record.fact, Fact::Waits { .. })).unwrap();
    world.stored.truncate(asked + 1);
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    world.settle();
    assert_eq!(outcomes(&world)[1].question.as_deref(), Some("May 1 go on?"));
    replies(&mut world, "r1", ResumeReply::Decision(Decision::AllowOnce));
    assert_eq!(handed(&world).len(), 1);
}

#[test]
fn another_input_gives_the_sub_agent_up_once_that_is_durable() {
    let mut world = calling(&[ONE]);
    came(&mut world, "1", suspended("1", "below"));
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Start { input: Arc::new(input(2, "next", limits())), turn_config });
    assert_eq!(given_up(&world), Vec::<&SessionId>::new(), "not before it is durable");
    world.settle();
    assert_eq!(given_up(&world), [&child_session("1")]);
    let session = world.folded();
    let closed = session.history.iter().map(|message| format!("{message:?}")).collect::<Vec<_>>().join("\n");
    assert!(closed.contains("the turn ended while the agent waited for a person"), "{closed}");
    assert_eq!(handed(&world).len(), 0);
    world.llm(Ok(answer("done", &[])));
    assert_kept(&world);
    // A program that is killed before the sub-agent was told tells it again.
    world.crash();
    world.news.clear();
    says(&mut world, input(3, "again", limits()));
    assert_eq!(given_up(&world)[0], &child_session("1"));
    for number in 4..7 {
        world.llm(Ok(answer("done", &[])));
        says(&mut world, input(number, "again", limits()));
    }
    assert_eq!(world.folded().given_up.len(), 0, "it is not told for ever");
    assert_kept(&world);
}

#[test]
fn a_turn_that_is_stopped_or_closed_gives_up_those_that_wait_and_counts_what_they_used() {
    let waits = |world: &mut World| {
        came(world, "1", suspended("1", "one"));
        came(world, "2", suspended("2", "two"));
        replies(world, "r1", ResumeReply::Decision(Decision::AllowOnce));
    };
    let mut stopped = calling(&[ONE, TWO]);
    waits(&mut stopped);
    stopped.say(TurnMessage::Stopped { reason: crate::outcome::EndReason::Cancelled, submission: None });
    stopped.settle();
    let mut closed = calling(&[ONE, TWO]);
    waits(&mut closed);
    closed.crash();
    says(&mut closed, input(2, "what happened?", limits()));
    for call in ["1", "2"] {
        came(&mut closed, call, ToolReturn::note(CallStatus::Unknown, "outcome unknown"));
    }
    for world in [stopped, closed] {
        let mut told = given_up(&world);
        told.sort();
        told.dedup();
        assert_eq!(told, [&child_session("1"), &child_session("2")]);
        let counted = world.stored.iter().filter_map(|record| match &record.fact {
            Fact::Result(result) => result.output.delegated.as_deref(),
            _ => None,
        });
        assert_eq!(counted.collect::<Vec<_>>(), [&used(), &used()]);
        assert_eq!(world.turn.session(), Some(&world.folded()));
    }
}

#[test]
fn agents_in_the_background_do_not_suspend() {
    let mut world = beside(4);
    says(&mut world, suspending(1, limits()));
    calls(&mut world, &[("agent__ends", ONE)]);
    let delegated = world.stored.iter().find_map(|record| match &record.fact {
        Fact::Intent { task: Some(task), .. } => Some(task.input.approvals),
        _ => None,
    });
    assert_eq!(delegated, Some(ApprovalsMode::Deny));
}

#[test]
fn only_a_call_of_an_agent_asks_for_one_below() {
    let mut world = beside(4);
    says(&mut world, suspending(1, limits()));
    calls(&mut world, &[("local__read", "{}")]);
    came(&mut world, "1", suspended("1", "below"));
    assert_eq!(outcomes(&world)[0].suspend_reason, Some(SuspendReason::ExternalWait));
}

#[test]
fn a_wait_of_an_older_journal_is_one_for_something_outside() {
    let old = serde_json::json!({"kind": "waits", "body": {"call": "c1", "what": "the build"}});
    let read: Fact = serde_json::from_value(old.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), old);
}

#[test]
fn a_sub_agent_that_failed_is_told_where_an_earlier_program_may_have_left_something_below_it() {
    let failed = |delegated: Option<Delegated>| {
        let output = ToolOutput { delegated: delegated.map(Box::new), ..ToolOutput::error("it failed") };
        ToolReturn { status: CallStatus::Error, output, duration_ms: 1 }
    };
    for (returned, known) in [(failed(Some(used())), 1), (failed(None), 0)] {
        let mut world = calling(&[ONE]);
        came(&mut world, "1", returned);
        assert_eq!(world.folded().given_up.len(), known, "one that never began has nothing below it");
        world.llm(Ok(answer("done", &[])));
        assert_eq!(given_up(&world).len(), known, "the turn has ended");
        world.crash();
        world.news.clear();
        says(&mut world, input(2, "next", limits()));
        assert_eq!(given_up(&world).len(), known, "the journal was read");
        for number in 3..6 {
            world.llm(Ok(answer("done", &[])));
            says(&mut world, input(number, "again", limits()));
        }
        assert_eq!(world.folded().given_up.len(), 0, "it is not told for ever");
        assert_kept(&world);
    }
}

#[test]
fn a_suspension_that_the_store_did_not_accept_asks_nothing() {
    let outcome = |saved| TurnOutcome {
        saved,
        suspend_reason: Some(SuspendReason::ApprovalRequired),
        token: Some(ResumeToken::new("below")),
        ..TurnOutcome::bare(child_session("1"), TurnId::new("of1"), FinishReason::Suspended, "")
    };
    assert!(Asking::of(&outcome_of("reader", &outcome(true))).is_some());
    let output = outcome_of("reader", &outcome(false));
    assert!(Asking::of(&output).is_none() && output.is_error, "{output:?}");
    assert!(output.plain().contains("the store did not accept that"), "{output:?}");
}
