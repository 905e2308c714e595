//! The end of the runtime, as the machine of a session with tasks sees it: their results begin no turns, and are left to
//! the next program.

use super::tasks::{TASK, asked, assert_kept, calls, ends, infers, outcomes, suspended, tasks, world};
use super::world::{World, answer};
use crate::agent::is_result;
use crate::chat::CallStatus;
use crate::outcome::EndReason;
use crate::store::Fact;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;

/// How many turns the results of tasks have begun.
fn brought(world: &World) -> usize {
    let brought = world.stored.iter().filter(|record| matches!(&record.fact, Fact::Input(input) if is_result(input)));
    brought.count()
}

/// A turn that has begun two tasks that outlive it, and is about to answer.
fn two_at_work() -> World {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__outlives", TASK), ("agent__outlives", "{\"task\":\"more\"}")]);
    assert!(infers(&world));
    world
}

#[test]
fn a_result_that_comes_while_the_runtime_ends_begins_its_turn_in_the_next_program() {
    for before_the_answer in [2, 1, 0] {
        let mut world = two_at_work();
        let results = ["1", "2"];
        for call in &results[..before_the_answer] {
            ends(&mut world, call);
        }
        world.say(TurnMessage::Draining);
        world.llm(Ok(answer("they work", &[])));
        for call in &results[before_the_answer..] {
            ends(&mut world, call);
        }
        assert_eq!((outcomes(&world).len(), brought(&world)), (1, 0), "{before_the_answer}");
        assert!(!infers(&world), "{before_the_answer}: no turn begins");
        assert_kept(&world);

        world.crash();
        asked(&mut world, 2, "and now?");
        for turn in ["first", "second", "now"] {
            world.llm(Ok(answer(turn, &[])));
        }
        assert_eq!((outcomes(&world).len(), brought(&world), tasks(&world)), (4, 2, 0), "{before_the_answer}");
        assert_kept(&world);
    }
}

/// A child that worked on here would be of a session that another process continues.
#[test]
fn a_turn_with_tasks_at_work_is_not_left_between_two_steps() {
    let mut world = two_at_work();
    world.say(TurnMessage::HandOver);
    let reads = |world: &mut World, call: &str| {
        calls(world, &[("local__read", "{}")]);
        world.tool(call, CallStatus::Ok, "read");
        world.settle();
    };
    reads(&mut world, "c00000003");
    assert!(infers(&world), "it goes on");
    for call in ["1", "2"] {
        ends(&mut world, call);
    }
    reads(&mut world, "c00000004");
    assert!(!infers(&world) && world.news.contains(&TurnNews::BetweenSteps));
    world.say(TurnMessage::Stopped { reason: EndReason::HandedOver, submission: None });
    world.settle();
    assert_kept(&world);
}

#[test]
fn an_actor_that_starts_while_the_runtime_ends_begins_none_either() {
    let mut world = two_at_work();
    ends(&mut world, "1");
    world.llm(Ok(answer("one works", &[])));
    assert_eq!(brought(&world), 1, "nothing ends yet");
    world.llm(Ok(answer("read", &[])));
    world.crash();
    world.say(TurnMessage::Draining);
    asked(&mut world, 2, "and now?");
    ends(&mut world, "2");
    world.llm(Ok(answer("nothing", &[])));
    assert_eq!((outcomes(&world).len(), brought(&world), infers(&world)), (3, 1, false));
    assert_kept(&world);
}

#[test]
fn an_input_that_waits_still_has_its_turn_while_the_runtime_ends() {
    let mut world = two_at_work();
    ends(&mut world, "1");
    asked(&mut world, 2, "next");
    world.say(TurnMessage::Draining);
    world.llm(Ok(answer("one works", &[])));
    assert!(infers(&world), "it was accepted before");
    world.llm(Ok(answer("done", &[])));
    assert_eq!((outcomes(&world).len(), brought(&world)), (2, 0));
    assert_kept(&world);
}

#[test]
fn a_task_of_a_suspended_turn_that_ends_then_is_read_when_the_turn_goes_on() {
    let mut world = suspended();
    world.say(TurnMessage::Draining);
    ends(&mut world, "1");
    assert_eq!((brought(&world), tasks(&world)), (0, 1));
    assert_kept(&world);
}
