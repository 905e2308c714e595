//! What is told once is true for good: a caller who may send again finds nothing of the first time in the journal, and
//! what has run is not run again for whoever sends it a second time.

use super::world::{Question, World, answer, input, model};
use crate::chat::{ContentPart, FinishReason};
use crate::error::AgentError;
use crate::ids::{RequestId, TurnId};
use crate::input::{Steer, TurnInput};
use crate::limits::Limits;
use crate::outcome::TurnOutcome;
use crate::store::{Fact, StoreError};
use crate::submission::TurnNews;
use crate::turn::{Recover, TurnMessage};
use crate::turn_config::TurnConfig;
use std::sync::Arc;

fn world() -> World {
    World::new(TurnConfig::new(model()))
}

fn id(number: u32) -> TurnId {
    TurnId::new(format!("t{number}"))
}

fn start(world: &mut World, number: u32) {
    let input = Arc::new(input(number, &format!("message {number}"), Limits::default()));
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
}

fn full() -> StoreError {
    StoreError::Unavailable("the disk is full".into())
}

/// Answers everything but the model, with a store that fails so.
fn settle_failing(world: &mut World, error: &StoreError) {
    while let Some(at) = world.questions.iter().position(Question::is_quick) {
        let question = world.questions.remove(at);
        let message = match &question {
            Question::Append(ticket, ..) => Some(TurnMessage::Saved { ticket: *ticket, result: Err(error.clone()) }),
            question => world.works(question),
        };
        message.into_iter().for_each(|message| world.say(message));
    }
}

/// The model answers, and what follows from that meets a store that fails so.
fn llm_failing(world: &mut World, text: &str, error: &StoreError) {
    let at = world.questions.iter().position(|asked| matches!(asked, Question::Infer(..))).expect("the model is asked");
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer(text, &[]))) });
    settle_failing(world, error);
}

/// Every turn that runs is answered, until none does.
fn run_all(world: &mut World) {
    world.settle();
    while world.questions.iter().any(|asked| matches!(asked, Question::Infer(..))) {
        world.llm(Ok(answer("done", &[])));
    }
}

/// How often the turn of this input began, as the journal has it.
fn begun(world: &World, number: u32) -> usize {
    let is_it = |record: &&Arc<crate::store::Record>| {
        matches!(record.fact, Fact::Started { .. }) && record.turn == Some(id(number))
    };
    world.stored.iter().filter(is_it).count()
}

/// What was told of an input: its outcomes and refusals, in order.
fn told(world: &World, number: u32) -> Vec<Result<TurnOutcome, AgentError>> {
    let of = id(number);
    let mut told = Vec::new();
    for news in &world.news {
        match news {
            TurnNews::Finished { submission, outcome } if *submission == of => told.push(Ok((**outcome).clone())),
            TurnNews::Refused { submission, error } if *submission == of => told.push(Err(error.clone())),
            _ => {}
        }
    }
    told
}

/// The error that was told of an input.
fn error(world: &World, number: u32) -> AgentError {
    let told = told(world, number);
    assert_eq!(told.len(), 1, "{told:?}");
    match told.into_iter().next() {
        Some(Ok(outcome)) => outcome.error.expect("it failed"),
        Some(Err(error)) => error,
        None => unreachable!(),
    }
}

/// One turn runs, two inputs wait behind it, and the turn ends.
fn two_wait() -> World {
    let mut world = world();
    for number in 1..=3 {
        start(&mut world, number);
        world.settle();
    }
    world
}

#[test]
fn an_accepted_input_whose_turn_cannot_begin_is_told_that_it_is_kept() {
    let mut world = two_wait();
    llm_failing(&mut world, "one", &full());
    assert!(told(&world, 1).len() == 1);
    for number in [2, 3] {
        let error = error(&world, number);
        assert!(!error.is_retryable(), "{number} is in the journal and runs with the next message: {error:?}");
    }
    // What is kept runs with the next message, each once.
    start(&mut world, 4);
    run_all(&mut world);
    assert_eq!([2, 3, 4].map(|number| begun(&world, number)), [1, 1, 1]);
}

#[test]
fn an_input_that_ended_two_turns_ago_is_not_run_again_for_who_sends_it_again() {
    let mut world = world();
    start(&mut world, 1);
    start(&mut world, 2);
    run_all(&mut world);
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    start(&mut world, 1);
    start(&mut world, 2);
    run_all(&mut world);
    assert_eq!([1, 2].map(|number| begun(&world, number)), [1, 1]);
    for number in [1, 2] {
        let told = told(&world, number);
        assert_eq!(told.len(), 2, "once by each actor");
        assert_eq!(told[0], told[1], "the same outcome");
    }
}

#[test]
fn an_input_that_was_withdrawn_is_not_run_for_who_sends_it_again() {
    let mut world = two_wait();
    world.say(TurnMessage::Withdrawn { submission: id(2) });
    run_all(&mut world);
    assert_eq!(told(&world, 2).len(), 1);
    world.crash();
    start(&mut world, 2);
    run_all(&mut world);
    assert_eq!(begun(&world, 2), 0, "it was taken out");
    let told = told(&world, 2);
    assert_eq!(told[0], told[1]);
    assert_eq!(told[1].as_ref().map(|outcome| outcome.finish_reason), Ok(FinishReason::Cancelled));
}

#[test]
fn a_turn_begins_when_the_store_is_back() {
    let mut world = two_wait();
    let at = world.questions.iter().position(|asked| matches!(asked, Question::Infer(..))).expect("the model is asked");
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("one", &[]))) });
    for _ in 0..4 {
        // The outcome of the first turn, then the beginning of the second, three times.
        while let Some(at) = world.questions.iter().position(|asked| matches!(asked, Question::Own(_))) {
            let Question::Own(message) = world.questions.remove(at) else { unreachable!() };
            world.say(message);
        }
        let is_append = |asked: &Question| matches!(asked, Question::Append(..));
        let at = world.questions.iter().position(is_append).expect("the store is asked");
        let Question::Append(ticket, ..) = world.questions.remove(at) else { unreachable!() };
        world.say(TurnMessage::Saved { ticket, result: Err(full()) });
    }
    run_all(&mut world);
    for number in [2, 3] {
        assert_eq!(told(&world, number).len(), 1);
        assert!(told(&world, number)[0].as_ref().is_ok_and(|outcome| outcome.saved && outcome.error.is_none()));
        assert_eq!(begun(&world, number), 1);
    }
}

#[test]
fn an_input_that_is_certainly_not_kept_may_be_sent_again() {
    let mut world = world();
    start(&mut world, 1);
    settle_failing(&mut world, &full());
    assert!(error(&world, 1).is_retryable(), "at once, and nothing is kept");
    assert_eq!(world.stored.len(), 0);
    assert!(world.turn.is_idle());
}

#[test]
fn an_input_in_doubt_is_asked_about_by_its_records() {
    for is_stored in [false, true] {
        let mut world = world();
        start(&mut world, 1);
        let doubt = StoreError::InDoubt("no answer".into());
        // The first answer is lost, whether it was stored or not.
        loop {
            let at = world.questions.iter().position(Question::is_quick).expect("the input is to be kept");
            let question = world.questions.remove(at);
            let Question::Append(ticket, append, _) = &question else {
                let message = world.works(&question);
                message.into_iter().for_each(|message| world.say(message));
                continue;
            };
            if is_stored {
                world.store(append).expect("it is stored");
            }
            world.say(TurnMessage::Saved { ticket: *ticket, result: Err(doubt.clone()) });
            break;
        }
        run_all(&mut world);
        assert_eq!(begun(&world, 1), 1, "stored: {is_stored}");
        assert!(told(&world, 1)[0].as_ref().is_ok_and(|outcome| outcome.saved));
    }
}

#[test]
fn an_input_that_stays_in_doubt_may_not_be_sent_again() {
    let mut world = world();
    start(&mut world, 1);
    settle_failing(&mut world, &StoreError::InDoubt("no answer".into()));
    let error = error(&world, 1);
    assert!(!error.is_retryable() && matches!(error, AgentError::Store(StoreError::InDoubt(_))), "{error:?}");
}

/// Its actor died after it had accepted the input, and the next one cannot read the journal.
#[test]
fn an_input_that_was_said_to_an_actor_before_may_not_be_sent_again() {
    let mut world = world();
    start(&mut world, 1);
    world.settle();
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    start(&mut world, 1);
    let Some(Question::Claim(ticket, _)) = world.questions.pop() else { panic!("the journal is read") };
    world.say(TurnMessage::Loaded { ticket, result: Err(full()) });
    assert!(!error(&world, 1).is_retryable());
}

#[test]
fn what_was_said_into_a_turn_and_is_not_stored_yet_may_not_be_said_again() {
    let mut world = world();
    start(&mut world, 1);
    world.settle();
    let parts = vec![ContentPart::text("and this")];
    let steer = Steer { request_id: RequestId::new("r"), submission: None, parts };
    world.say(TurnMessage::Steered { steer: Box::new(steer) });
    settle_failing(&mut world, &full());
    let steered = world.news.iter().find_map(|news| match news {
        TurnNews::Steered { result, .. } => Some(result.clone()),
        _ => None,
    });
    let Some(Err(error)) = steered else { panic!("it is not known to be kept: {steered:?}") };
    assert!(!error.is_retryable(), "the turn has taken it: {error:?}");
}

/// A turn that failed and could not be saved is open in its journal, where `--finish` goes on with it.
#[test]
fn a_turn_whose_end_is_not_saved_may_not_be_sent_again() {
    let mut world = world();
    start(&mut world, 1);
    world.settle();
    let at = world.questions.iter().position(|asked| matches!(asked, Question::Infer(..))).expect("the model is asked");
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    let down = crate::llm::LlmError::new(crate::llm::LlmErrorKind::Unavailable, "the provider is down");
    world.say(TurnMessage::ParseAction { ticket, result: Err(down) });
    settle_failing(&mut world, &full());
    let told = told(&world, 1);
    let Some(Ok(outcome)) = told.first() else { panic!("{told:?}") };
    assert!(outcome.error.as_ref().is_some_and(AgentError::is_retryable) && !outcome.saved);
    assert!(!outcome.is_retryable());
    assert!(TurnOutcome { saved: true, ..outcome.clone() }.is_retryable());
}

/// The runtime names a request after its turn when its caller gives it no name; repeated, it is the same request.
#[test]
fn the_name_that_the_runtime_gave_a_request_is_known_as_long_as_the_submission_is() {
    let mut world = world();
    let named = |number: u32, request: u32| {
        let request_id = Some(RequestId::new(format!("t{request}")));
        Arc::new(TurnInput { request_id, ..input(number, "go", Limits::default()) })
    };
    for number in 1..=70 {
        world.say(TurnMessage::Start { input: named(number, number), turn_config: Arc::clone(&world.turn_config) });
        run_all(&mut world);
    }
    let session = world.turn.session().expect("it was read");
    assert!(session.answered.is_empty(), "such names are not kept for ever");
    assert_eq!(*session, world.folded());
    world.say(TurnMessage::Start { input: named(71, 10), turn_config: Arc::clone(&world.turn_config) });
    run_all(&mut world);
    assert_eq!(begun(&world, 71), 0);
    assert_eq!(told(&world, 71), told(&world, 10));
    // Longer than that it is not known.
    world.say(TurnMessage::Start { input: named(72, 3), turn_config: Arc::clone(&world.turn_config) });
    run_all(&mut world);
    assert_eq!(begun(&world, 72), 1);
}

/// What has ended is not refused as if it had not run because something else runs.
#[test]
fn what_has_ended_and_comes_again_while_a_turn_runs_is_answered_behind_it() {
    let mut world = world();
    start(&mut world, 1);
    start(&mut world, 2);
    run_all(&mut world);
    start(&mut world, 3);
    world.settle();
    start(&mut world, 1);
    world.settle();
    assert_eq!(told(&world, 1).len(), 1, "not yet");
    run_all(&mut world);
    assert_eq!((told(&world, 1).len(), begun(&world, 1)), (2, 1));
    assert_eq!(told(&world, 1)[0], told(&world, 1)[1]);
    assert_eq!(told(&world, 3).len(), 1);
}

/// The actor before may have taken it, and what it wrote may still come to the store.
#[test]
fn what_was_said_to_an_actor_before_is_not_told_to_be_no_part_of_the_turn() {
    for is_again in [false, true] {
        let mut world = world();
        if is_again {
            let turn_config = Arc::clone(&world.turn_config);
            world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
        }
        start(&mut world, 1);
        let parts = vec![ContentPart::text("and this")];
        let steer = Steer { request_id: RequestId::new("r"), submission: None, parts };
        world.say(TurnMessage::Steered { steer: Box::new(steer) });
        let Some(Question::Claim(ticket, _)) = world.questions.pop() else { panic!("the journal is read") };
        world.say(TurnMessage::Loaded { ticket, result: Err(full()) });
        let told = world.news.iter().find_map(|news| match news {
            TurnNews::Steered { result, .. } => Some(result.clone()),
            _ => None,
        });
        match told {
            Some(Ok(false)) => assert!(!is_again),
            Some(Err(error)) => assert!(is_again && !error.is_retryable()),
            told => panic!("{told:?}"),
        }
    }
}

/// The supervisor reads the end of the first run when the second one has begun: what that shares is not released by it.
#[test]
fn what_goes_on_with_a_suspended_turn_lists_its_tools_under_another_name() {
    let mut world = world();
    start(&mut world, 1);
    world.settle();
    start(&mut world, 2);
    world.settle();
    world.llm(Ok(answer("", &[("ask_user", "{\"question\":\"which?\"}")])));
    run_all(&mut world);
    let finished: Vec<&TurnId> = world
        .news
        .iter()
        .filter_map(|news| match news {
            TurnNews::Finished { submission, .. } => Some(submission),
            _another => None,
        })
        .collect();
    assert_eq!((world.listed.as_slice(), finished), (&[id(1), id(2)][..], vec![&id(1), &id(2)]));
    assert_eq!(begun(&world, 2), 0, "the second message went on with the turn of the first");
}
