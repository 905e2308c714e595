//! What an earlier actor answered as ended and the store did not confirm: it does not go on when the journal is read.

use super::world::{Question, World, answer, input, model};
use crate::chat::FinishReason;
use crate::event::{AgentEvent, StepEvent};
use crate::ids::{RequestId, TurnId};
use crate::limits::Limits;
use crate::options::{Configuring, SessionChange};
use crate::outcome::EndReason;
use crate::replay::replay;
use crate::store::{Fact, StoreError};
use crate::submission::TurnNews;
use crate::turn::{Recover, TurnMessage};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

fn id(number: u32) -> TurnId {
    TurnId::new(format!("t{number}"))
}

fn start(world: &mut World, number: u32) {
    let input = Arc::new(input(number, "go", Limits::default()));
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
}

fn wake(world: &mut World) {
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
}

fn ended(world: &mut World, number: u32, reason: EndReason) {
    world.say(TurnMessage::Ended { submission: id(number), reason });
}

/// So many inputs, of which the first one's turn runs.
fn running(on_restart: OnRestart, inputs: u32) -> World {
    let mut world = World::new(TurnConfig { on_restart, ..TurnConfig::new(model()) });
    for number in 1..=inputs {
        start(&mut world, number);
        world.settle();
    }
    world
}

/// The actor is stopped, and the store takes nothing of that.
fn stopped(on_restart: OnRestart, inputs: u32, reason: EndReason) -> World {
    let mut world = running(on_restart, inputs);
    world.say(TurnMessage::Stopped { reason, submission: Some(id(1)) });
    world.crash();
    (world.news, world.events) = (Vec::new(), Vec::new());
    world
}

/// Runs all turns to their ends. Returns how often the model was asked.
fn run_all(world: &mut World) -> u32 {
    let mut asked = 0;
    world.settle();
    while world.questions.iter().any(|asked| matches!(asked, Question::Infer(..))) {
        asked += 1;
        world.llm(Ok(answer("done", &[])));
    }
    asked
}

/// A change of the options, under this name.
fn configure(world: &mut World, name: &str) {
    let change = SessionChange::Patch(Box::default());
    let asked = Arc::new(Configuring { request_id: RequestId::new(name), change });
    world.say(TurnMessage::Configure { asked, turn_config: Arc::clone(&world.turn_config) });
}

/// The machine writes the journal again, from the journal alone.
fn assert_replayed(world: &World, case: &str) {
    let replayed = replay(&world.stored).map(|same| same.records);
    assert_eq!(replayed, Ok(world.stored.len()), "{case}: {:#?}", world.stored);
}

/// The outcomes in the journal.
fn kept(world: &World) -> Vec<(TurnId, FinishReason)> {
    let outcome = |record: &Arc<crate::store::Record>| match &record.fact {
        Fact::Outcome(ended) => Some((record.turn.clone()?, ended.finish_reason)),
        _another => None,
    };
    world.stored.iter().filter_map(outcome).collect()
}

fn begun(world: &World, number: u32) -> bool {
    world.stored.iter().any(|record| matches!(record.fact, Fact::Started { .. }) && record.turn == Some(id(number)))
}

fn is_not_open(world: &World, number: u32) -> bool {
    world.news.contains(&TurnNews::NotOpen { submission: id(number) })
}

#[test]
fn a_turn_that_was_answered_as_ended_is_closed_before_anything_goes_on() {
    for on_restart in [OnRestart::Report, OnRestart::Resume] {
        for (reason, finish_reason) in
            [(EndReason::Cancelled, FinishReason::Cancelled), (EndReason::TurnTimeout, FinishReason::GuardExceeded)]
        {
            for inputs in [1, 2] {
                let mut world = stopped(on_restart, inputs, reason);
                ended(&mut world, 1, reason);
                if inputs == 2 {
                    wake(&mut world);
                }
                start(&mut world, 2);
                let case = format!("{on_restart:?}, {reason:?}, {inputs} inputs");
                assert_eq!(run_all(&mut world), 1, "{case}: only the second input runs");
                assert_eq!(kept(&world), [(id(1), finish_reason), (id(2), FinishReason::Final)], "{case}");
                let tripped = |event: &StepEvent| matches!(event.event, AgentEvent::GuardTripped { .. });
                assert!(!world.events.iter().any(tripped), "{case}: that was told");
                assert_replayed(&world, &case);
            }
        }
    }
}

#[test]
fn an_input_whose_withdrawal_was_not_kept_does_not_begin() {
    let mut world = running(OnRestart::Report, 2);
    world.say(TurnMessage::Withdrawn { submission: id(2) });
    world.crash();
    ended(&mut world, 2, EndReason::Cancelled);
    wake(&mut world);
    start(&mut world, 1);
    assert_eq!(run_all(&mut world), 1);
    assert_eq!((kept(&world), begun(&world, 2)), (vec![(id(1), FinishReason::Final)], false));
    assert_replayed(&world, "withdrawn");
}

/// The turn that goes on has a call of which it is not known whether it ran.
#[test]
fn an_input_that_was_withdrawn_is_closed_before_the_doubts_of_the_turn_that_goes_on() {
    let mut world = running(OnRestart::Report, 1);
    world.llm(Ok(answer("", &[("local_write", "{}")])));
    for number in [2, 3] {
        start(&mut world, number);
        world.settle();
        world.say(TurnMessage::Withdrawn { submission: id(number) });
    }
    world.crash();
    for number in [2, 3] {
        ended(&mut world, number, EndReason::Cancelled);
    }
    wake(&mut world);
    start(&mut world, 1);
    assert_eq!(run_all(&mut world), 1);
    let kinds: Vec<_> = world.stored.iter().map(|record| matches!(record.fact, Fact::Withdrawn)).collect();
    assert_eq!(kinds.iter().filter(|is_withdrawn| **is_withdrawn).count(), 2);
    assert_eq!(kept(&world), [(id(1), FinishReason::Final)]);
    assert_replayed(&world, "withdrawn before a doubt");
}

/// A session whose journal was read for a change alone is left as it is, apart from what had ended.
#[test]
fn a_change_of_options_begins_nothing_although_a_turn_is_closed_with_it() {
    for is_told_first in [true, false] {
        let mut world = stopped(OnRestart::Resume, 2, EndReason::Cancelled);
        if is_told_first {
            ended(&mut world, 1, EndReason::Cancelled);
        }
        configure(&mut world, "c1");
        if !is_told_first {
            world.settle();
            ended(&mut world, 1, EndReason::Cancelled);
        }
        let case = format!("told of the end first: {is_told_first}");
        assert_eq!(run_all(&mut world), 0, "{case}");
        assert_eq!((kept(&world), begun(&world, 2)), (vec![(id(1), FinishReason::Cancelled)], false), "{case}");
        configure(&mut world, "c2");
        assert_eq!(run_all(&mut world), 0, "{case}");
        start(&mut world, 3);
        assert_eq!(run_all(&mut world), 2, "{case}: what waited begins with an input");
        assert!(begun(&world, 2) && begun(&world, 3), "{case}");
        assert_replayed(&world, &case);
    }
}

#[test]
fn what_the_journal_has_as_ended_or_never_had_is_reported_and_may_come_again() {
    let mut world = running(OnRestart::Resume, 1);
    assert_eq!(run_all(&mut world), 1);
    world.crash();
    ended(&mut world, 1, EndReason::Cancelled);
    ended(&mut world, 2, EndReason::Cancelled);
    start(&mut world, 2);
    assert_eq!(run_all(&mut world), 1);
    assert!(is_not_open(&world, 1) && is_not_open(&world, 2), "{:?}", world.news);
    assert_eq!(kept(&world), [(id(1), FinishReason::Final), (id(2), FinishReason::Final)]);
    assert_replayed(&world, "not open");
}

#[test]
fn it_is_known_until_the_journal_can_be_read() {
    let mut world = stopped(OnRestart::Resume, 1, EndReason::Cancelled);
    ended(&mut world, 1, EndReason::Cancelled);
    start(&mut world, 2);
    let Some(Question::Claim(ticket, _)) = world.questions.pop() else { panic!("the journal is read") };
    world.say(TurnMessage::Loaded { ticket, result: Err(StoreError::Unavailable("it is away".into())) });
    assert!(world.turn.is_idle());
    start(&mut world, 3);
    assert_eq!(run_all(&mut world), 1);
    assert_eq!(kept(&world), [(id(1), FinishReason::Cancelled), (id(3), FinishReason::Final)]);
    assert_replayed(&world, "known until then");
}

/// The actor that closes the turn loses the session to another owner, and reads it again.
#[test]
fn it_is_known_until_its_end_is_durable() {
    let mut world = stopped(OnRestart::Resume, 1, EndReason::Cancelled);
    ended(&mut world, 1, EndReason::Cancelled);
    start(&mut world, 2);
    while let Some(at) = world.questions.iter().position(Question::is_quick) {
        let question = world.questions.remove(at);
        let message = match &question {
            Question::Append(ticket, ..) => {
                Some(TurnMessage::Saved { ticket: *ticket, result: Err(StoreError::Fenced { epoch: 9 }) })
            }
            question => world.works(question),
        };
        message.into_iter().for_each(|message| world.say(message));
    }
    assert_eq!(kept(&world), []);
    start(&mut world, 3);
    assert_eq!(run_all(&mut world), 1);
    assert_eq!(kept(&world), [(id(1), FinishReason::Cancelled), (id(3), FinishReason::Final)]);
    assert_replayed(&world, "known until then");
}

/// What was said of it while a sub-agent asked a person is no longer true.
#[test]
fn a_turn_begins_without_the_questions_below_the_one_before() {
    let mut world = running(OnRestart::Report, 1);
    world.say(TurnMessage::AskedBelow { asking: true });
    run_all(&mut world);
    start(&mut world, 2);
    world.settle();
    assert!(!world.turn.asked_below);
}
