//! An answer of the model that the end of its turn interrupts: what readers saw of it is kept.

use super::world::{Question, World, answer, input, model};
use crate::chat::{CallStatus, ContentPart, FinishReason, Message};
use crate::event::{AgentEvent, rebuild};
use crate::ids::{RequestId, Ticket};
use crate::input::Steer;
use crate::limits::Limits;
use crate::outcome::EndReason;
use crate::replay::replay;
use crate::store::{Ended, Fact};
use crate::submission::TurnNews;
use crate::turn::{Recover, TurnMessage};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

fn world() -> World {
    World::new(TurnConfig::new(model()))
}

fn start(world: &mut World, number: u32) {
    let input = Arc::new(input(number, &format!("message {number}"), Limits::default()));
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
    world.settle();
}

fn asked(world: &World) -> Ticket {
    let asked = world.questions.iter().find_map(|question| match question {
        Question::Infer(ticket, _) => Some(*ticket),
        _ => None,
    });
    asked.expect("the model is asked")
}

fn stop(world: &mut World, reason: EndReason) {
    world.say(TurnMessage::Stopped { reason, submission: None });
    world.settle();
}

fn end(world: &World) -> Ended {
    let ends = world.stored.iter().rev().find_map(|record| match &record.fact {
        Fact::Outcome(ended) => Some((**ended).clone()),
        _ => None,
    });
    ends.expect("the turn has ended")
}

fn said(message: &Message) -> &str {
    match message {
        Message::Assistant { text, .. } => text,
        other => panic!("not of the assistant: {other:?}"),
    }
}

#[test]
fn a_turn_that_is_handed_over_stays_open_and_its_next_owner_answers_it() {
    let mut world = world();
    start(&mut world, 1);
    asked(&world);
    stop(&mut world, EndReason::HandedOver);
    assert!(!world.news.iter().any(|news| matches!(news, TurnNews::Finished { .. })), "{:?}", world.news);
    assert!(world.folded().running().is_some(), "it is open in its journal");
    world.crash();
    let input = Arc::new(input(1, "message 1", Limits::default()));
    let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*world.turn_config).clone() });
    world.say(TurnMessage::Start { input, turn_config });
    world.settle();
    world.llm(Ok(answer("here", &[])));
    world.settle();
    assert_eq!((end(&world).finish_reason, end(&world).content.as_str()), (FinishReason::Final, "here"));
}

/// A turn that is left between two steps has run its calls, and its next owner goes on with the next step.
#[test]
fn a_turn_that_is_handed_over_ends_its_step_first() {
    let mut world = world();
    start(&mut world, 1);
    world.llm(Ok(answer("", &[("local__write", "{}")])));
    world.settle();
    world.say(TurnMessage::HandOver);
    assert!(!world.news.contains(&TurnNews::BetweenSteps), "the call runs");
    world.tool("c00000001", CallStatus::Ok, "written");
    world.settle();
    assert!(world.news.contains(&TurnNews::BetweenSteps));
    let infers = |world: &World| world.questions.iter().any(|question| matches!(question, Question::Infer(..)));
    assert!(!infers(&world), "no further step begins");
    stop(&mut world, EndReason::HandedOver);
    assert!(!world.news.iter().any(|news| matches!(news, TurnNews::Finished { .. })), "{:?}", world.news);
    world.crash();
    let input = Arc::new(input(1, "message 1", Limits::default()));
    let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*world.turn_config).clone() });
    world.say(TurnMessage::Start { input, turn_config });
    world.settle();
    world.llm(Ok(answer("well", &[])));
    world.settle();
    let ended = end(&world);
    assert_eq!((ended.finish_reason, ended.content.as_str()), (FinishReason::Final, "well"));
    let results: Vec<_> = world.stored.iter().filter(|record| matches!(record.fact, Fact::Result(_))).collect();
    assert!(
        matches!(&results[..], [one] if matches!(&one.fact, Fact::Result(result) if result.output.plain() == "written"))
    );
}

/// An input that waits behind the turn that ends is left as well.
#[test]
fn no_waiting_turn_begins_in_a_process_that_hands_over() {
    let mut world = world();
    start(&mut world, 1);
    start(&mut world, 2);
    world.say(TurnMessage::HandOver);
    world.llm(Ok(answer("here", &[])));
    world.settle();
    assert_eq!(end(&world).content, "here");
    assert!(world.news.contains(&TurnNews::BetweenSteps));
    let infers = |world: &World| world.questions.iter().any(|question| matches!(question, Question::Infer(..)));
    assert!(!infers(&world) && world.folded().running().is_none(), "it waits");
    stop(&mut world, EndReason::HandedOver);
    world.crash();
    start(&mut world, 2);
    world.llm(Ok(answer("there", &[])));
    world.settle();
    assert_eq!(end(&world).content, "there");
}

#[test]
fn an_input_that_no_journal_has_is_refused_and_not_left_to_another_process() {
    for came_before in [false, true] {
        let mut world = world();
        let turn_config = Arc::clone(&world.turn_config);
        if came_before {
            world.say(TurnMessage::Wake { turn_config: Arc::clone(&turn_config), recover: Recover::Continue });
        }
        // Its session is not read when the runtime ends.
        let input = Arc::new(input(1, "message 1", Limits::default()));
        world.say(TurnMessage::Start { input, turn_config });
        world.say(TurnMessage::Stopped { reason: EndReason::HandedOver, submission: None });
        let refused = world.news.iter().filter_map(|news| match news {
            TurnNews::Refused { error, .. } => Some(error.is_retryable()),
            _ => None,
        });
        let expected = if came_before { Vec::new() } else { vec![true] };
        assert_eq!(refused.collect::<Vec<_>>(), expected, "an earlier actor may have stored it: {came_before}");
    }
}

#[test]
fn what_readers_saw_is_kept_for_the_caller_the_next_prompt_and_late_readers() {
    let mut world = world();
    start(&mut world, 1);
    let ticket = asked(&world);
    world.say(TurnMessage::SaidSoFar { ticket, output: "The capital of".to_owned() });
    stop(&mut world, EndReason::Cancelled);
    let ended = end(&world);
    assert_eq!((ended.finish_reason, ended.content.as_str()), (FinishReason::Cancelled, "The capital of"));
    assert!(ended.partial);
    let estimated = ended.estimated.expect("the call cost something");
    assert!(estimated.input_tokens > 0 && estimated.output_tokens == 3, "{estimated:?}");
    assert_eq!(said(world.folded().history.last().expect("a message")), "The capital of\n\n(interrupted)");

    let is_seen =
        |event: &AgentEvent| matches!(event, AgentEvent::MessageAssistant { text, .. } if text == "The capital of");
    let live = world.events.iter().find(|event| is_seen(&event.event)).expect("live readers are told").clone();
    let session = world.folded().id;
    let late = rebuild(&session, &world.stored).into_iter().find(|event| is_seen(&event.event));
    assert_eq!(late.expect("late readers are told, too").event, live.event, "the same text by the same id");
    replay(&world.stored).expect("the journal replays");
}

#[test]
fn of_an_answer_without_text_the_cost_is_kept() {
    for seen in [None, Some("  \n")] {
        let mut world = world();
        start(&mut world, 1);
        let ticket = asked(&world);
        if let Some(output) = seen.map(str::to_owned) {
            world.say(TurnMessage::SaidSoFar { ticket, output });
        }
        stop(&mut world, EndReason::Cancelled);
        let ended = end(&world);
        assert!(!ended.partial && ended.estimated.is_some_and(|cost| cost.output_tokens == 0), "{ended:?}");
        assert_eq!(ended.content, "Cancelled before there was an answer.");
        replay(&world.stored).expect("the journal replays");
    }
}

#[test]
fn a_late_word_of_another_question_is_not_kept() {
    let mut world = world();
    start(&mut world, 1);
    let Ticket(asked) = asked(&world);
    world.say(TurnMessage::SaidSoFar { ticket: Ticket(asked + 7), output: "not of this turn".to_owned() });
    stop(&mut world, EndReason::TurnTimeout);
    let ended = end(&world);
    assert!(!ended.partial && ended.content.starts_with("Stopped: the turn took longer"), "{ended:?}");
}

#[test]
fn text_beside_calls_is_in_the_conversation_once() {
    let mut world = world();
    start(&mut world, 1);
    world.llm(Ok(answer("Step 1.", &[("local__read", "{}")])));
    world.settle();
    let call = world.folded().open.and_then(|open| open.step).map(|step| step.calls[0].call.id.clone());
    world.tool(call.expect("a call runs").as_str(), CallStatus::Ok, "done");
    world.settle();
    asked(&world);
    stop(&mut world, EndReason::Cancelled);
    let history = world.folded().history;
    let times =
        history.iter().filter(|message| matches!(&***message, Message::Assistant { text, .. } if text == "Step 1."));
    assert_eq!(times.count(), 1, "{history:?}");
}

/// The last words of the turn would otherwise stand as its answer.
#[test]
fn what_was_said_into_a_turn_and_not_read_is_behind_its_last_words() {
    let mut world = world();
    start(&mut world, 1);
    asked(&world);
    let request_id = RequestId::new("said");
    let steer = Steer { request_id, submission: None, parts: vec![ContentPart::text("also this")] };
    world.say(TurnMessage::Steered { steer: Box::new(steer) });
    world.settle();
    stop(&mut world, EndReason::Cancelled);
    let history = world.folded().history;
    let roles: Vec<_> = history.iter().map(|message| matches!(&**message, Message::User { .. })).collect();
    assert_eq!(roles, [true, false, true], "{history:?}");
    assert_eq!(said(&history[1]), "Cancelled before there was an answer.");
    replay(&world.stored).expect("the journal replays");
}
