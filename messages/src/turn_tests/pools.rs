//! An input that waits binds the session to no pool of machines.

use super::world::{Question, World, answer, input, model};
use crate::error::AgentError;
use crate::ids::{PoolName, RequestId, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::options::{Change, Configuring, OptionsPatch, SessionChange, SessionOptions};
use crate::replay::replay;
use crate::session_state::pool_of;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn::tests::world::session_id;
use crate::turn_config::TurnConfig;
use std::sync::Arc;

fn gpu() -> PoolName {
    PoolName::parse("gpu").unwrap()
}

fn start(world: &mut World, number: u32, pool: Option<PoolName>) {
    let options = Some(Arc::new(SessionOptions { pool, ..SessionOptions::default() }));
    let input = Arc::new(TurnInput { options, ..input(number, "go", Limits::default()) });
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
    world.settle();
}

/// Whether the input was refused, to be sent again.
fn is_busy(world: &World, number: u32) -> bool {
    let turn = TurnId::new(format!("t{number}"));
    let refused = |news: &TurnNews| matches!(news, TurnNews::Refused { submission, error: AgentError::Busy { .. } } if *submission == turn);
    world.news.iter().any(refused)
}

fn run_all(world: &mut World) {
    while world.questions.iter().any(|asked| matches!(asked, Question::Infer(..))) {
        world.llm(Ok(answer("done", &[])));
    }
}

#[test]
fn an_input_that_names_another_pool_binds_an_idle_session_and_does_not_wait_behind_a_turn() {
    let mut world = World::new(TurnConfig::new(model()));
    start(&mut world, 1, None);
    start(&mut world, 2, Some(gpu()));
    assert!(is_busy(&world, 2));
    run_all(&mut world);
    assert_eq!(pool_of(&session_id(), &world.stored), None);
    start(&mut world, 3, Some(gpu()));
    assert_eq!(pool_of(&session_id(), &world.stored), Some(gpu()));
    // One that names its pool waits, and one that names none stays in it.
    start(&mut world, 4, Some(gpu()));
    start(&mut world, 5, None);
    run_all(&mut world);
    assert!(!is_busy(&world, 3) && !is_busy(&world, 4) && !is_busy(&world, 5));
    assert_eq!(world.turn.session().unwrap().options.pool, Some(gpu()));
    // So does one that finds the session idle.
    start(&mut world, 6, None);
    assert_eq!(pool_of(&session_id(), &world.stored), Some(gpu()));
    run_all(&mut world);
    assert_eq!(world.turn.session().unwrap().options.pool, Some(gpu()));
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

#[test]
fn a_change_moves_the_session_and_an_input_that_waits_does_not_move_it_back() {
    let mut world = World::new(TurnConfig::new(model()));
    start(&mut world, 1, Some(gpu()));
    start(&mut world, 2, Some(gpu()));
    let patch = OptionsPatch { pool: Change::Clear, ..OptionsPatch::default() };
    let change = SessionChange::Patch(Box::new(patch));
    let asked = Arc::new(Configuring { request_id: RequestId::new("c"), change });
    world.say(TurnMessage::Configure { asked, turn_config: Arc::clone(&world.turn_config) });
    world.settle();
    assert_eq!(pool_of(&session_id(), &world.stored), None, "at once");
    run_all(&mut world);
    assert_eq!(world.turn.session().unwrap().turns, 2);
    assert_eq!(world.turn.session().unwrap().options.pool, None);
}

#[test]
fn an_input_that_was_withdrawn_bound_the_session_to_nothing() {
    let mut world = World::new(TurnConfig::new(model()));
    start(&mut world, 1, Some(gpu()));
    start(&mut world, 2, None);
    world.say(TurnMessage::Withdrawn { submission: TurnId::new("t2") });
    world.settle();
    run_all(&mut world);
    assert_eq!(pool_of(&session_id(), &world.stored), Some(gpu()));
    assert_eq!(world.turn.session().unwrap().options.pool, Some(gpu()));
}
