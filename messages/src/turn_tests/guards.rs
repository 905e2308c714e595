//! The guards against a count made by hand: whatever a model asks for, the turn ends
//! where somebody with a pencil would have ended it, and not one call earlier.
//!
//! The pencil follows the contract and not the code: "a tool error, timeout or denial counts one, a success resets; the
//! second in a row ends the turn once that step's results are in". It keeps all results of the turn and looks for a row.

use super::chance::limits;
use super::world::{Question, World, answer, input, model};
use crate::chat::{CallStatus, GuardReason};
use crate::limits::Limits;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn_config::TurnConfig;
use proptest::prelude::*;
use std::sync::Arc;

/// A call: which tool, with which argument, and whether it succeeds if it runs.
type Planned = (usize, u8, bool);

const TOOLS: [&str; 3] = ["local__read", "local__write", "local__deny"];
const TOKENS: u64 = 15;
/// What a token costs, by the price of the world's model.
const NANOS_A_TOKEN: u64 = 1_000;

#[derive(Debug, Default, PartialEq)]
struct Counted {
    model_calls: u32,
    dispatched: u32,
    tripped: Option<GuardReason>,
}

/// The longest row of failures among results, in the order of their calls; `true` is a success.
fn longest_row_of_failures(results: &[bool]) -> usize {
    results.split(|succeeded| *succeeded).map(<[bool]>::len).max().unwrap_or(0)
}

/// Counts with a pencil. An empty list of calls is the final answer.
fn by_hand(limits: &Limits, replies: &[Vec<Planned>]) -> Counted {
    let mut counted = Counted::default();
    let (mut taken, mut in_a_row) = (0, 0);
    let mut results = Vec::new();
    let mut before = None;
    for reply in replies {
        let tokens = u64::from(counted.model_calls) * TOKENS;
        counted.tripped = if longest_row_of_failures(&results) >= limits.max_consecutive_errors as usize {
            Some(GuardReason::MaxConsecutiveErrors)
        } else if counted.model_calls == limits.max_steps {
            Some(GuardReason::MaxSteps)
        } else if limits.max_total_tokens > 0 && tokens >= limits.max_total_tokens {
            Some(GuardReason::MaxTotalTokens)
        } else if !limits.max_cost.is_zero() && tokens * NANOS_A_TOKEN >= limits.max_cost.nanos() {
            Some(GuardReason::MaxCost)
        } else {
            None
        };
        if counted.tripped.is_some() {
            return counted;
        }
        counted.model_calls += 1;
        if reply.is_empty() {
            return counted;
        }
        for (tool, argument, succeeds) in reply {
            in_a_row = if before == Some((tool, argument)) { in_a_row + 1 } else { 1 };
            if taken == limits.max_tool_calls {
                counted.tripped = Some(GuardReason::MaxToolCalls);
            } else if in_a_row > limits.max_identical_calls {
                counted.tripped = Some(GuardReason::MaxIdenticalCalls);
            }
            if counted.tripped.is_some() {
                break;
            }
            before = Some((tool, argument));
            taken += 1;
            let denied = TOOLS[*tool] == "local__deny";
            counted.dispatched += u32::from(!denied);
            results.push(*succeeds && !denied);
        }
        if counted.tripped.is_some() {
            return counted;
        }
    }
    counted
}

fn by_machine(limits: Limits, replies: &[Vec<Planned>]) -> Counted {
    let mut world = World::new(TurnConfig::new(model()));
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Start { input: Arc::new(input(1, "go", limits)), turn_config });
    world.settle();
    let mut plan: Vec<Planned> = Vec::new();
    let mut counted = Counted::default();
    for reply in replies {
        if !world.questions.iter().any(|question| matches!(question, Question::Infer(..))) {
            break;
        }
        counted.model_calls += 1;
        plan.extend(reply);
        let arguments: Vec<_> = reply.iter().map(|(_, argument, _)| format!("{{\"a\":{argument}}}")).collect();
        let calls: Vec<_> =
            reply.iter().zip(&arguments).map(|((tool, ..), argument)| (TOOLS[*tool], argument.as_str())).collect();
        world.llm(Ok(answer(if calls.is_empty() { "done" } else { "" }, &calls)));
        while let Some(id) = world.questions.iter().find_map(|question| match question {
            Question::Call(_, call) | Question::Ran(_, call) => Some(call.id.to_string()),
            _ => None,
        }) {
            let number: usize = id.trim_start_matches('c').parse().expect("ids are numbers");
            let status = if plan[number - 1].2 { CallStatus::Ok } else { CallStatus::Error };
            world.tool(&id, status, "done");
        }
    }
    counted.dispatched = u32::try_from(world.dispatched.len()).expect("few calls");
    counted.tripped = world.news.iter().find_map(|news| match news {
        TurnNews::Finished { outcome, .. } => {
            assert_eq!(outcome.steps, counted.model_calls, "the outcome tells the steps");
            outcome.guard_reason
        }
        _ => None,
    });
    counted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_guard_trips_at_exactly_its_limit(
        limits in limits(),
        mut replies in proptest::collection::vec(
            proptest::collection::vec((0_usize..3, 0_u8..2, proptest::bool::weighted(0.7)), 1..5), 0..6),
    ) {
        replies.push(Vec::new());
        prop_assert_eq!(by_machine(limits, &replies), by_hand(&limits, &replies));
    }
}

/// What becomes of one step with these results, and of the step behind it.
fn tripped_after(steps: &[&[bool]]) -> Option<GuardReason> {
    let limits = Limits { max_tool_calls: 50, max_identical_calls: 50, ..Limits::default() };
    let calls = |results: &&[bool]| results.iter().map(|succeeds| (0, 0, *succeeds)).collect();
    let mut replies: Vec<Vec<Planned>> = steps.iter().map(calls).collect();
    replies.push(Vec::new());
    by_machine(limits, &replies).tripped
}

#[test]
fn the_second_failure_in_a_row_ends_the_turn_once_the_results_of_its_step_are_in() {
    let trips = Some(GuardReason::MaxConsecutiveErrors);
    assert_eq!(tripped_after(&[&[false, false, true]]), trips, "a success behind them comes too late");
    assert_eq!(tripped_after(&[&[true, false, false]]), trips);
    assert_eq!(tripped_after(&[&[false], &[false, true]]), trips, "also across steps");
    assert_eq!(tripped_after(&[&[false, true, false]]), None, "no two in a row");
    assert_eq!(tripped_after(&[&[true, false], &[true, false], &[true]]), None);
}
