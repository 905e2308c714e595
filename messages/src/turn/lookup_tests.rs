//! A session that lives long keeps a bounded part of its journal, and forgets nothing that somebody may ask for.

use super::{Effect, TurnMessage};
use crate::error::AgentError;
use crate::ids::{RequestId, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::outcome::{EndReason, TurnOutcome};
use crate::store::StoreError;
use crate::submission::TurnNews;
use crate::turn::tests::world::{Question, World, answer, input, model, paired};
use crate::turn_config::TurnConfig;
use std::sync::Arc;

fn say(world: &mut World, number: u32, request: u32) {
    let request_id = Some(RequestId::new(format!("r{request}")));
    let input = TurnInput { request_id, ..input(number, "go", Limits::default()) };
    world.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&world.turn_config) });
    world.settle();
}

fn told(world: &World, number: u32) -> &TurnOutcome {
    let submission = TurnId::new(format!("t{number}"));
    let told = world.news.iter().find_map(|news| match news {
        TurnNews::Finished { submission: of, outcome } if *of == submission => Some(&**outcome),
        _ => None,
    });
    told.expect("it is told")
}

/// A session of forty turns, each a request with a name and a call.
fn long() -> World {
    let mut world = World::new(TurnConfig { max_history_messages: 8, ..TurnConfig::new(model()) });
    for number in 1..=40 {
        say(&mut world, number, number);
        world.llm(Ok(answer("", &[("local__read", "{}")])));
        world.tool(&format!("{number:08}"), crate::chat::CallStatus::Ok, "notes");
        world.llm(Ok(answer(&format!("answer {number}"), &[])));
        assert_eq!(told(&world, number).content, format!("answer {number}"));
    }
    world
}

#[test]
fn a_long_session_keeps_what_a_prompt_can_use() {
    let world = long();
    let session = world.turn.session().expect("it was read");
    assert!(session.history.len() <= 8, "{} messages", session.history.len());
    assert_eq!(paired(&session.history), Ok(()));
    assert_eq!(session.answered.len(), 2);
    assert_eq!(*session, world.folded(), "a session that is rebuilt is the same");
}

#[test]
fn an_old_request_is_told_its_first_outcome_and_runs_nothing() {
    let mut world = long();
    let records = world.stored.len();
    say(&mut world, 41, 3);
    assert_eq!(told(&world, 41), told(&world, 3), "the first outcome again");
    assert_eq!((world.stored.len(), world.questions.len()), (records, 0), "nothing is asked and nothing written");
    // The session goes on as before.
    say(&mut world, 42, 42);
    world.llm(Ok(answer("on we go", &[])));
    assert_eq!(told(&world, 42).content, "on we go");
    assert_eq!(world.turn.session(), Some(&world.folded()));
}

#[test]
fn an_old_request_is_told_after_a_restart_as_well() {
    let mut world = long();
    world.crash();
    say(&mut world, 41, 3);
    assert_eq!(told(&world, 41), told(&world, 3));
}

#[test]
fn while_a_turn_runs_an_old_request_is_asked_to_come_again() {
    let mut world = long();
    say(&mut world, 41, 41);
    say(&mut world, 42, 3);
    let refused = world.news.iter().any(|news| {
        matches!(news, TurnNews::Refused { submission, error: AgentError::Busy { .. } } if submission.as_str() == "t42")
    });
    assert!(refused, "{:?}", world.news.last());
    world.llm(Ok(answer("done", &[])));
    say(&mut world, 43, 3);
    assert_eq!(told(&world, 43), told(&world, 3));
}

#[test]
fn what_the_store_did_not_take_stands_between_nobody_and_an_old_outcome() {
    let mut world = long();
    say(&mut world, 41, 41);
    let at = world.questions.iter().position(|asked| matches!(asked, Question::Infer(..))).expect("the model is asked");
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("done", &[]))) });
    while let Some(question) = world.questions.pop() {
        world.say(match question {
            Question::Own(message) => message,
            Question::Append(ticket, ..) => {
                TurnMessage::Saved { ticket, result: Err(StoreError::Unavailable("the disk is full".into())) }
            }
            other => panic!("{other:?}"),
        });
    }
    let unsaved = told(&world, 41);
    assert!(!unsaved.saved);
    assert_eq!(unsaved.unsaved.as_deref(), Some(&StoreError::Unavailable("the disk is full".into())));
    // The disk has room again; whoever comes while that is not known is asked to come again.
    say(&mut world, 42, 3);
    say(&mut world, 43, 3);
    assert_eq!(told(&world, 43), told(&world, 3));
}

#[test]
fn a_session_that_could_not_be_read_once_more_is_released_when_its_actor_goes() {
    let mut world = long();
    let owned = world.turn.outbox.epoch;
    let request_id = Some(RequestId::new("r3"));
    let input = Arc::new(TurnInput { request_id, ..input(41, "go", Limits::default()) });
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
    let Some(Question::Claim(ticket, true)) = world.questions.pop() else { panic!("the journal is read again") };
    world.say(TurnMessage::Loaded { ticket, result: Err(StoreError::Unavailable("no disk".into())) });
    assert!(world.news.iter().any(|news| matches!(news, TurnNews::Refused { .. })));
    let left = world.turn.apply(world.now, TurnMessage::Stopped { reason: EndReason::Passivated, submission: None });
    assert!(left.iter().any(|effect| matches!(effect, Effect::Release { epoch, .. } if *epoch == owned)), "{left:?}");
}
