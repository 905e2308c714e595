//! A plain input that answers a question is a request of its own: its name and its labels
//! come back with the outcome, and its repetition runs nothing.

use super::world::{World, answer, input, model};
use crate::ids::{RequestId, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::options::SessionOptions;
use crate::outcome::TurnOutcome;
use crate::replay::replay;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn_config::TurnConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

fn say(world: &mut World, number: u32, name: Option<&str>) {
    let labels = name.map(|name| ("of".to_owned(), name.to_owned())).into_iter().collect();
    let input = TurnInput { request_id: name.map(RequestId::new), labels, ..input(number, "go", Limits::default()) };
    world.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&world.turn_config) });
    world.settle();
}

fn ask(world: &mut World) {
    world.llm(Ok(answer("", &[("ask_user", "{\"question\":\"which?\"}")])));
    world.settle();
}

fn told(world: &World, number: u32) -> TurnOutcome {
    let submission = TurnId::new(format!("t{number}"));
    let mut ends = world.news.iter().filter_map(|news| match news {
        TurnNews::Finished { submission: of, outcome } if *of == submission => Some(&**outcome),
        _ => None,
    });
    let told = ends.next().expect("it is told").clone();
    assert!(ends.next().is_none(), "it is told once");
    told
}

#[track_caller]
fn assert_is_of(outcome: &TurnOutcome, name: Option<&str>, content: &str) {
    let labels: BTreeMap<_, _> = name.map(|name| ("of".to_owned(), name.to_owned())).into_iter().collect();
    assert_eq!((&outcome.request_id, &outcome.labels), (&name.map(RequestId::new), &labels));
    assert_eq!((outcome.content.as_str(), outcome.turn_id.as_str()), (content, "t1"));
}

/// The question is asked by `first` and answered by `second`; repeated before and after a reload.
fn check(mut world: World) {
    world.llm(Ok(answer("blue it is", &[])));
    world.settle();
    assert_is_of(&told(&world, 2), Some("second"), "blue it is");
    for number in [3, 5] {
        say(&mut world, number, Some("second"));
        assert_eq!(told(&world, number), told(&world, 2), "the first outcome again");
        say(&mut world, number + 1, Some("first"));
        assert_is_of(&told(&world, number + 1), Some("first"), "blue it is");
        world.crash();
    }
    let asked = world.questions.len();
    assert_eq!(asked, 0, "the model is asked nothing");
}

fn asked_by_first() -> World {
    let mut world = World::new(TurnConfig::new(model()));
    say(&mut world, 1, Some("first"));
    world
}

#[test]
fn the_input_that_answers_a_question_keeps_its_name_and_labels() {
    let mut world = asked_by_first();
    ask(&mut world);
    say(&mut world, 2, Some("second"));
    check(world);
}

#[test]
fn the_input_that_waited_behind_a_question_keeps_its_name_and_labels() {
    let mut world = asked_by_first();
    say(&mut world, 2, Some("second"));
    ask(&mut world);
    check(world);
}

#[test]
fn each_question_of_a_turn_is_told_to_the_one_who_asked_last() {
    let mut world = asked_by_first();
    ask(&mut world);
    say(&mut world, 2, Some("second"));
    ask(&mut world);
    assert_is_of(&told(&world, 2), Some("second"), "");
    say(&mut world, 3, Some("second"));
    assert_eq!(told(&world, 3), told(&world, 2), "a suspended request has an outcome, too");
    say(&mut world, 4, Some("first"));
    assert_is_of(&told(&world, 4), Some("first"), "");
    // Nobody's name is put on the outcome of somebody who gave none.
    say(&mut world, 5, None);
    world.llm(Ok(answer("green", &[])));
    world.settle();
    assert_is_of(&told(&world, 5), None, "green");
    for (number, name) in [(6, "first"), (7, "second")] {
        say(&mut world, number, Some(name));
        assert_is_of(&told(&world, number), Some(name), "green");
    }
}

#[test]
fn the_name_of_a_running_answer_is_taken() {
    let mut world = asked_by_first();
    ask(&mut world);
    say(&mut world, 2, Some("second"));
    for (number, name) in [(3, "first"), (4, "second")] {
        say(&mut world, number, Some(name));
        let refused = |news: &TurnNews| matches!(news, TurnNews::Refused { submission, .. } if submission.as_str() == format!("t{number}"));
        assert!(world.news.iter().any(refused), "{name} runs");
    }
}

#[test]
fn the_options_an_answer_brings_hold_from_the_next_turn_on() {
    for waits in [true, false] {
        let mut world = asked_by_first();
        if !waits {
            ask(&mut world);
        }
        let options = Some(Arc::new(SessionOptions { agent: Some("ada".to_owned()), ..SessionOptions::default() }));
        let input = Arc::new(TurnInput { options: options.clone(), ..input(2, "blue", Limits::default()) });
        world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
        world.settle();
        if waits {
            ask(&mut world);
        }
        let session = world.folded();
        assert_eq!((&*session.options, session.waiting.len()), (&SessionOptions::default(), 0));
        world.llm(Ok(answer("blue it is", &[])));
        assert_eq!(Some(world.folded().options), options, "it waited: {waits}");
        assert_eq!(told(&world, 2).content, "blue it is");
        assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
    }
}
