//! On whose bill a task is, and what is left for the turn that its result begins.

use super::tasks::{
    ASKS, TASK, asked, asking, assert_kept, calls, ends, infers, limits, outcomes, says, tasks, used, world,
};
use super::world::{World, answer, input};
use crate::approvals::Decision;
use crate::chat::{CallStatus, GuardReason};
use crate::cost::Cost;
use crate::ids::TurnId;
use crate::limits::Limits;
use crate::llm::LlmAnswer;
use crate::turn::TurnMessage;

#[test]
fn the_turn_that_a_result_begins_costs_what_it_used_itself() {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__outlives", TASK)]);
    world.llm(Ok(answer("it works", &[])));
    ends(&mut world, "1");
    world.llm(Ok(LlmAnswer { cost: Some(Cost::from_nanos(70)), ..answer("it is done", &[]) }));
    let all = outcomes(&world);
    assert_eq!((all[0].delegated.as_deref(), all[1].delegated.as_deref()), (None, Some(&used())));
    assert_eq!(all[1].cost, Cost::from_nanos(70));
    assert_kept(&world);
}

#[test]
fn a_task_that_has_ended_in_its_turn_is_on_no_other_bill() {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__outlives", TASK)]);
    ends(&mut world, "1");
    world.llm(Ok(answer("it works", &[])));
    world.llm(Ok(answer("it was done", &[])));
    let all = outcomes(&world);
    assert_eq!((all[0].delegated.as_deref(), all[1].delegated.as_deref()), (Some(&used()), None));
    assert_kept(&world);
}

#[test]
fn a_result_that_a_later_turn_has_read_does_not_come_again_and_is_on_its_bill() {
    for before in [false, true] {
        let mut world = world();
        asked(&mut world, 1, "go");
        calls(&mut world, &[("agent__outlives", TASK)]);
        world.llm(Ok(answer("it works", &[])));
        asked(&mut world, 2, "and now?");
        if before {
            ends(&mut world, "1");
        }
        calls(&mut world, &[("agent__result", ASKS)]);
        if !before {
            ends(&mut world, "1");
        }
        world.llm(Ok(answer("done", &[])));
        assert!(!infers(&world) && tasks(&world) == 0, "nothing begins by itself");
        let all = outcomes(&world);
        assert_eq!((all.len(), all[1].delegated.as_deref()), (2, Some(&used())));
        assert_kept(&world);
    }
}

#[test]
fn a_result_that_the_model_did_not_get_was_not_read() {
    let mut world = world();
    says(&mut world, input(1, "go", Limits { max_tool_calls: 3, ..limits() }));
    calls(&mut world, &[("agent__outlives", TASK)]);
    ends(&mut world, "1");
    calls(&mut world, &[("local__read", "{}"), ("agent__result", ASKS)]);
    world.tool("2", CallStatus::Ok, "seen");
    assert_eq!(outcomes(&world)[0].guard_reason, Some(GuardReason::MaxToolCalls));
    assert!(infers(&world), "its result is brought");
    assert_kept(&world);
}

#[test]
fn what_a_task_used_counts_beyond_a_limit_that_a_person_raised() {
    let mut world = world();
    says(&mut world, asking(1, Limits { max_steps: 4, ..limits() }));
    calls(&mut world, &[("agent__ends", TASK)]);
    for number in 2..=4 {
        calls(&mut world, &[("local__read", "{}")]);
        world.tool(&number.to_string(), CallStatus::Ok, "seen");
    }
    let open = world.turn.session().and_then(|session| session.open.as_ref()).unwrap();
    let approval = open.at_limit.as_ref().expect("a person is asked").question.clone();
    world.say(TurnMessage::Decided { approval, decision: Box::new(Decision::AllowOnce), asker: None });
    world.settle();
    ends(&mut world, "1");
    let open = world.turn.session().and_then(|session| session.open.as_ref()).unwrap();
    assert_eq!(open.spent.below.steps, used().steps);
    assert_kept(&world);
}

#[test]
fn a_task_keeps_nothing_of_what_its_caller_was_asked_but_the_terms() {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__outlives", TASK)]);
    let task = world.turn.session().unwrap().tasks.iter().next().unwrap();
    assert_eq!((&task.caller.turn, task.caller.parts.len()), (&TurnId::new("t1"), 0));
}

#[test]
fn a_turn_that_a_result_begins_has_what_the_turn_before_has_left() {
    let begin = |tasks: usize, limits: Limits| {
        let mut world = world();
        says(&mut world, input(1, "go", limits));
        calls(&mut world, &vec![("agent__outlives", TASK); tasks]);
        world.llm(Ok(answer("it works", &[])));
        ends(&mut world, "1");
        world
    };
    let brought = |world: &World| world.turn.session().unwrap().open.as_ref().unwrap().input.limits;
    // Two of 12 steps and one of eight calls are used.
    let strict = Limits { max_total_tokens: 1_030, ..Limits::default() };
    let one = brought(&begin(1, strict));
    assert_eq!((one.max_steps, one.max_tool_calls, one.max_total_tokens), (10, 7, 1_000));
    let of_two = brought(&begin(2, strict));
    assert_eq!((of_two.max_steps, of_two.max_tool_calls, of_two.max_total_tokens), (5, 3, 500));
    // One step at least, so that the result is read.
    let mut world = begin(1, Limits { max_steps: 4, ..strict });
    assert_eq!(brought(&world).max_steps, 3, "two are used by the task");
    calls(&mut world, &[("agent__outlives", TASK)]);
    let last = outcomes(&world).pop().unwrap();
    assert_eq!((last.guard_reason, tasks(&world)), (Some(GuardReason::MaxSteps), 0), "{last:?}");
    assert_kept(&world);
}
