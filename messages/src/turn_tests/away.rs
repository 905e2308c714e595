//! A store that is away while a call waits for its record: what else is asked of the session does not wait with it.

use super::world::{Question, World, answer, input, model};
use crate::chat::{CallStatus, ContentPart};
use crate::error::AgentError;
use crate::ids::{RequestId, Ticket, TurnId};
use crate::input::Steer;
use crate::limits::Limits;
use crate::store::StoreError;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn_config::TurnConfig;
use std::sync::Arc;

fn start(world: &mut World, number: u32) {
    let input = Arc::new(input(number, &format!("message {number}"), Limits::default()));
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
}

/// Answers all but appends, of which the last is returned.
fn settled(world: &mut World) -> Option<Ticket> {
    let is_quick = |question: &Question| question.is_quick() && !matches!(question, Question::Append(..));
    while let Some(at) = world.questions.iter().position(is_quick) {
        let question = world.questions.remove(at);
        if let Some(message) = world.works(&question) {
            world.say(message);
        }
    }
    world.questions.iter().rev().find_map(|question| match question {
        Question::Append(ticket, ..) => Some(*ticket),
        _ => None,
    })
}

/// The append that is open fails, and another one follows.
fn fails(world: &mut World, error: StoreError) {
    let ticket = settled(world).expect("an append is open");
    world.questions.retain(|question| !matches!(question, Question::Append(..)));
    world.say(TurnMessage::Saved { ticket, result: Err(error) });
    assert!(settled(world).is_some(), "it is sent again");
}

fn away() -> StoreError {
    StoreError::Away("no answer".to_owned())
}

/// A turn with a call whose record cannot be stored, and an input behind it.
fn recording() -> World {
    let mut world = World::new(TurnConfig::new(model()));
    start(&mut world, 1);
    world.settle();
    start(&mut world, 2);
    world.settle();
    let infers = |question: &Question| matches!(question, Question::Infer(..));
    let at = world.questions.iter().position(infers).unwrap();
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    let called = answer("", &[("local__write", "{}")]);
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(called)) });
    fails(&mut world, away());
    world
}

fn runs(world: &World) -> bool {
    world.questions.iter().any(|question| matches!(question, Question::Call(..)))
}

/// The store is back.
fn goes_on(mut world: World) {
    world.settle();
    assert!(runs(&world), "the call runs");
    world.tool("c00000001", CallStatus::Ok, "written");
    world.settle();
    world.llm(Ok(answer("well", &[])));
    world.settle();
    let first = TurnId::new("t1");
    let ended = |news: &TurnNews| matches!(news, TurnNews::Finished { submission, outcome } if *submission == first && outcome.saved);
    assert_eq!(world.news.iter().filter(|news| ended(news)).count(), 1);
}

#[test]
fn what_is_in_doubt_while_the_store_is_away_ends_no_attempts() {
    let mut world = recording();
    for attempt in 0..20 {
        let in_doubt = StoreError::InDoubt("the connection broke".to_owned());
        fails(&mut world, if attempt % 3 == 2 { away() } else { in_doubt });
    }
    assert!(!runs(&world));
    goes_on(world);
}

#[test]
fn a_steer_message_is_in_doubt_at_the_next_failure() {
    let mut world = recording();
    let (request_id, parts) = (RequestId::new("r"), vec![ContentPart::text("and quickly")]);
    let steer = Box::new(Steer { request_id: request_id.clone(), submission: None, parts });
    world.say(TurnMessage::Steered { steer });
    fails(&mut world, away());
    let told = world.news.iter().find_map(|news| match news {
        TurnNews::Steered { request_id: of, result } if *of == request_id => Some(result.clone()),
        _ => None,
    });
    assert!(matches!(told, Some(Err(AgentError::Store(StoreError::InDoubt(_))))), "{told:?}");
    goes_on(world);
}

#[test]
fn the_cancellation_of_an_input_that_waits_is_told_at_once() {
    let mut world = recording();
    let second = TurnId::new("t2");
    world.say(TurnMessage::Withdrawn { submission: second.clone() });
    let told = |news: &&TurnNews| matches!(news, TurnNews::Finished { submission, outcome } if *submission == second && !outcome.saved);
    assert_eq!(world.news.iter().filter(told).count(), 1, "{:?}", world.news);
    goes_on(world);
}
