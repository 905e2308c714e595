//! Sub-agents that are suspended, as their own machine sees it: only their caller resumes them, or has them closed.

use super::below::{replies, resumes, suspending};
use super::tasks::{assert_kept, beside, calls, infers, limits, outcomes, says};
use super::world::{Question, World, answer};
use crate::approvals::Decision;
use crate::chat::{CallStatus, FinishReason};
use crate::error::AgentError;
use crate::ids::{CallId, SessionId, TurnId};
use crate::input::{ResumeReply, TurnInput};
use crate::limits::Limits;
use crate::options::{ParentTurn, SessionOptions};
use crate::outcome::EndReason;
use crate::store::StoreError;
use crate::submission::TurnNews;
use crate::tools::{AgentLine, ToolOutput, ToolReturn};
use crate::turn::{Recover, TurnMessage};
use std::sync::Arc;

/// A sub-agent in a line of them.
pub(super) fn child_of(line: &[&str]) -> ParentTurn {
    let agents = line.iter().map(|name| (*name).to_owned()).collect();
    ParentTurn {
        session: SessionId::parse("above").unwrap(),
        turn: TurnId::new("t0"),
        call: CallId::new("c00000001"),
        depth: 1,
        line: Some(Arc::new(AgentLine { agents, levels: 3 })),
        on_parent_end: None,
    }
}

/// The session of a sub-agent that waits for a person.
fn asking() -> World {
    let mut world = beside(4);
    let options = SessionOptions { parent: Some(child_of(&["plan", "read"])), ..SessionOptions::default() };
    let limits = Limits { suspend_timeout_ms: 1_000, ..limits() };
    says(&mut world, TurnInput { options: Some(Arc::new(options)), ..suspending(1, limits) });
    calls(&mut world, &[("local__ask", "{}")]);
    world
}

fn refusals(world: &World) -> Vec<String> {
    let refused = world.news.iter().filter_map(|news| match news {
        TurnNews::Refused { error: AgentError::Invalid(text), .. } => Some(text.clone()),
        _ => None,
    });
    refused.collect()
}

#[test]
fn a_sub_agent_names_the_agents_and_is_resumed_by_its_caller_only() {
    let mut world = asking();
    let outcome = outcomes(&world)[0].clone();
    assert_eq!(outcome.finish_reason, FinishReason::Suspended);
    let question = outcome.question.unwrap();
    assert_eq!(question, "May local/ask run with {}? (asked by the agent plan > read)");
    let token = outcome.token.unwrap();
    resumes(&mut world, "r1", token.clone(), ResumeReply::Decision(Decision::AllowOnce), None);
    assert!(refusals(&world)[0].contains("works for a call of another one"), "{:?}", refusals(&world));
    // The caller's token expires, and its own does not.
    world.now += 1_000_000;
    let parent = || Some(Box::new(child_of(&["plan", "read"])));
    resumes(&mut world, "r2", token.clone(), ResumeReply::Decision(Decision::AllowOnce), parent());
    let call =
        world.returns("1", ToolReturn { status: CallStatus::Ok, output: ToolOutput::text("yes"), duration_ms: 1 });
    world.say(call);
    world.settle();
    // The caller may have crashed, and asks again.
    resumes(&mut world, "r2", token.clone(), ResumeReply::Decision(Decision::AllowOnce), parent());
    world.llm(Ok(answer("done", &[])));
    resumes(&mut world, "r2", token, ResumeReply::Decision(Decision::AllowOnce), parent());
    let ends: Vec<_> = outcomes(&world).iter().skip(1).map(|outcome| outcome.content.clone()).collect();
    assert_eq!(ends, ["done", "done"], "told to each that asks");
    assert_eq!(world.dispatched.iter().filter(|call| *call == "c00000001").count(), 1);
    assert_kept(&world);
}

#[test]
fn a_turn_in_a_sub_agents_session_that_a_person_began_is_resumed_by_its_own_token() {
    let mut world = asking();
    says(&mut world, suspending(2, limits()));
    calls(&mut world, &[("local__ask", "{}")]);
    replies(&mut world, "r1", ResumeReply::Decision(Decision::Deny { reason: String::new() }));
    assert_eq!((refusals(&world).len(), infers(&world)), (0, true));
}

#[test]
fn a_sub_agent_that_is_given_up_is_closed_where_it_is_suspended() {
    let given_up = |world: &mut World, turn: &str| {
        let turn_config = Arc::clone(&world.turn_config);
        world.say(TurnMessage::GivenUp { turn: TurnId::new(turn), turn_config });
        world.settle();
    };
    for is_live in [true, false] {
        let mut world = asking();
        if !is_live {
            world.crash();
        }
        given_up(&mut world, "t9");
        assert!(world.folded().open.is_some(), "another turn is meant");
        if !is_live {
            world.crash();
        }
        given_up(&mut world, "t1");
        let session = world.folded();
        assert_eq!((session.open.is_none(), session.turns), (true, 1), "live: {is_live}");
        assert_eq!(session.last.as_ref().unwrap().finish_reason, FinishReason::Cancelled);
        assert!(!world.dispatched.contains(&"c00000001".to_owned()), "what it would do is not done");
        assert_kept(&world);
    }
    // One that runs is left alone: its caller cancels it.
    let mut world = asking();
    let token = outcomes(&world)[0].token.clone().unwrap();
    let parent = Some(Box::new(child_of(&["plan", "read"])));
    resumes(&mut world, "r1", token, ResumeReply::Decision(Decision::Deny { reason: String::new() }), parent);
    given_up(&mut world, "t1");
    assert!(infers(&world));
}

#[test]
fn a_sub_agent_whose_caller_is_cancelled_before_it_took_the_decision_is_closed() {
    let mut world = asking();
    let token = outcomes(&world)[0].token.clone().unwrap();
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake {
        turn_config: Arc::clone(&turn_config),
        recover: Recover::Close(EndReason::Cancelled),
    });
    let parent = Some(Box::new(child_of(&["plan", "read"])));
    let reply = Box::new(ResumeReply::Decision(Decision::AllowOnce));
    world.say(TurnMessage::Resume { submission: TurnId::new("r1"), token, reply, parent, turn_config });
    world.settle();
    let last = outcomes(&world).pop().unwrap();
    assert_eq!((last.finish_reason, last.steps), (FinishReason::Cancelled, 1), "its caller counts what it used");
    assert!(world.folded().open.is_none());
    assert!(!world.dispatched.contains(&"c00000001".to_owned()));
}

#[test]
fn a_sub_agent_that_a_program_left_open_is_closed_when_its_call_has_ended() {
    let mut world = beside(4);
    let options = SessionOptions { parent: Some(child_of(&["plan", "read"])), ..SessionOptions::default() };
    says(&mut world, TurnInput { options: Some(Arc::new(options)), ..suspending(1, limits()) });
    // The next program had not made the call again when the turn of the caller ended.
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::GivenUp { turn: TurnId::new("t1"), turn_config });
    world.settle();
    let session = world.folded();
    assert!(session.open.is_none(), "no caller is left that would resume it");
    assert_eq!(session.last.as_ref().unwrap().finish_reason, FinishReason::Cancelled);
    assert_kept(&world);
}

/// How many times it was reported that a turn whose call has ended is closed.
fn closed(world: &World) -> usize {
    world.news.iter().filter(|news| matches!(news, TurnNews::Closed)).count()
}

fn give_up(world: &mut World, turn: &str) {
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::GivenUp { turn: TurnId::new(turn), turn_config });
}

#[test]
fn that_a_turn_is_given_up_is_answered_in_every_state() {
    // One that runs again, and one of a person in its session.
    let mut world = asking();
    let token = outcomes(&world)[0].token.clone().unwrap();
    let parent = Some(Box::new(child_of(&["plan", "read"])));
    resumes(&mut world, "r1", token, ResumeReply::Decision(Decision::Deny { reason: String::new() }), parent);
    for (turn, times) in [("t1", 1), ("t9", 2)] {
        give_up(&mut world, turn);
        assert_eq!(closed(&world), times, "{turn}");
    }
    // Each state that it goes through to its end.
    let at = world.questions.iter().position(|asked| matches!(asked, Question::Infer(..))).unwrap();
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("done", &[]))) });
    let mut times = closed(&world);
    while let Some(at) = world.questions.iter().position(Question::is_quick) {
        give_up(&mut world, "t1");
        times += 1;
        assert_eq!(closed(&world), times, "{:?}", world.turn);
        let question = world.questions.remove(at);
        let message = world.works(&question);
        message.into_iter().for_each(|message| world.say(message));
    }
    assert_eq!(outcomes(&world).last().unwrap().content, "done");
    assert_kept(&world);
}

#[test]
fn a_turn_that_is_given_up_while_its_suspension_is_written_is_closed_behind_it() {
    let mut world = beside(4);
    let options = SessionOptions { parent: Some(child_of(&["plan", "read"])), ..SessionOptions::default() };
    says(&mut world, TurnInput { options: Some(Arc::new(options)), ..suspending(1, limits()) });
    let at = world.questions.iter().position(|asked| matches!(asked, Question::Infer(..))).unwrap();
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("", &[("local__ask", "{}")]))) });
    while world.turn.session().unwrap().open.as_ref().is_none_or(|open| open.suspended.is_none()) {
        let at = world.questions.iter().position(Question::is_quick).expect("it comes to its suspension");
        let question = world.questions.remove(at);
        let message = world.works(&question);
        message.into_iter().for_each(|message| world.say(message));
    }
    give_up(&mut world, "t1");
    assert_eq!((closed(&world), outcomes(&world).len()), (0, 0), "its suspension is not durable");
    world.settle();
    assert_eq!((closed(&world), outcomes(&world)[0].finish_reason), (1, FinishReason::Suspended));
    let session = world.folded();
    assert_eq!((session.open.is_none(), session.turns), (true, 1));
    assert_kept(&world);
}

#[test]
fn a_turn_that_is_given_up_in_a_journal_that_cannot_be_read_is_not_waited_for() {
    let mut world = asking();
    world.crash();
    give_up(&mut world, "t1");
    let at = world.questions.iter().position(|asked| matches!(asked, Question::Claim(..))).unwrap();
    let Question::Claim(ticket, _) = world.questions.remove(at) else { unreachable!() };
    let result = Err(StoreError::Unavailable("the disk is away".into()));
    world.say(TurnMessage::Loaded { ticket, result });
    assert_eq!(closed(&world), 1);
    assert!(world.folded().open.is_some(), "its caller says it again");
}
