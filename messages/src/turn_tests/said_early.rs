//! Messages and parts that come when no model has been asked: how many are taken, and what cannot be an answer.

use super::world::{Question, World, answer, input, model};
use crate::chat::ContentPart;
use crate::error::AgentError;
use crate::ids::{RequestId, TurnId};
use crate::input::{Steer, TurnInput};
use crate::limits::Limits;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn_config::TurnConfig;
use std::sync::Arc;

fn start(world: &mut World, number: u32, parts: Vec<ContentPart>) {
    let input = Arc::new(TurnInput { parts, ..input(number, "go", Limits::default()) });
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
}

fn text() -> Vec<ContentPart> {
    vec![ContentPart::text("go")]
}

/// Says so many messages into the turn. Returns how many of them were not refused.
fn steered(world: &mut World, many: u32) -> usize {
    let before = world.news.len();
    for _ in 0..many {
        let request_id = RequestId::new(format!("r{}", world.now));
        let steer = Steer { request_id, submission: None, parts: text() };
        world.say(TurnMessage::Steered { steer: Box::new(steer) });
    }
    let refused = world.news[before..].iter().filter(|news| matches!(news, TurnNews::Steered { result: Err(_), .. }));
    many as usize - refused.count()
}

fn ask(world: &mut World) {
    world.llm(Ok(answer("", &[("ask_user", "{\"question\":\"which?\"}")])));
    world.settle();
}

#[test]
fn as_many_messages_wait_for_the_first_prompt_as_for_any_other() {
    let mut world = World::new(TurnConfig::new(model()));
    start(&mut world, 1, text());
    let at = world.questions.iter().position(|asked| matches!(asked, Question::Claim(..))).expect("it is read");
    let claim = world.questions.remove(at);
    let loaded = world.works(&claim).expect("it is there");
    world.say(loaded);
    assert_eq!(steered(&mut world, 12), 8, "the turn is being prepared");
    world.settle();
    assert_eq!(steered(&mut world, 12), 8, "the model was asked with the first ones");
    world.llm(Ok(answer("one", &[])));
    assert_eq!(steered(&mut world, 12), 8, "and again");
    world.settle();
    assert_eq!(*world.turn.session().expect("it was read"), world.folded());
}

#[test]
fn a_picture_is_no_answer_to_a_question_and_is_refused_by_name() {
    let picture = || ContentPart::Image { mime_type: "image/png".into(), data: "AAAA".into() };
    let blob = ContentPart::Resource { uri: "a".into(), mime_type: None, text: None, blob: Some("AAAA".into()) };
    for (part, kind) in [(picture(), "image"), (blob, "resource")] {
        let parts = vec![ContentPart::text("this one"), part];
        let mut world = World::new(TurnConfig::new(model()));
        start(&mut world, 1, text());
        world.settle();
        // One waits behind the question, one comes after it.
        start(&mut world, 2, parts.clone());
        world.settle();
        ask(&mut world);
        start(&mut world, 3, parts);
        world.settle();
        let refused = |number: u32| {
            let of = TurnId::new(format!("t{number}"));
            world.news.iter().find_map(|news| match news {
                TurnNews::Finished { submission, outcome } if *submission == of => outcome.error.clone(),
                TurnNews::Refused { submission, error } if *submission == of => Some(error.clone()),
                _ => None,
            })
        };
        for number in [2, 3] {
            let error = refused(number);
            let is_named = matches!(&error, Some(AgentError::Invalid(text)) if text.contains(kind));
            assert!(is_named, "{number}: {error:?}");
        }
        start(&mut world, 4, text());
        world.settle();
        world.llm(Ok(answer("thanks", &[])));
        let last = world.turn.session().and_then(|session| session.last.clone()).expect("it has ended");
        assert_eq!((last.content.as_str(), last.turn_id.as_str()), ("thanks", "t1"));
    }
}
