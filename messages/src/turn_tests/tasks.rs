//! Sub-agents that work in the background, as the machine and its fold see them: who waits for them, who is told of their
//! end, and on whose bill they are.

use super::world::{Question, World, answer, input, model};
use crate::agent::Agent;
use crate::chat::{CallStatus, Delegated, FinishReason, Usage};
use crate::cost::Cost;
use crate::input::{ApprovalsMode, TurnInput};
use crate::limits::Limits;
use crate::options::OnParentEnd;
use crate::outcome::TurnOutcome;
use crate::replay::replay;
use crate::store::Fact;
use crate::submission::TurnNews;
use crate::tools::{ToolOutput, ToolReturn};
use crate::turn::{Recover, TurnMessage};
use crate::turn_config::TurnConfig;
use std::sync::Arc;

pub(super) const TASK: &str = "{\"task\":\"search\"}";
pub(super) const ASKS: &str = "{\"task\":\"c00000001\",\"wait_ms\":60000}";

pub(super) fn limits() -> Limits {
    Limits { max_steps: 100, max_tool_calls: 100, max_consecutive_errors: 50, ..Limits::default() }
}

/// A world with an agent of each kind, of which this many may work beside each other.
pub(super) fn beside(max_parallel_subagents: usize) -> World {
    let agents = [
        Agent::new("outlives").in_background(OnParentEnd::Continue),
        Agent::new("ends").in_background(OnParentEnd::Cancel),
        Agent::new("inline"),
    ];
    World::new(TurnConfig { subagents: Arc::new(agents), max_parallel_subagents, ..TurnConfig::new(model()) })
}

pub(super) fn world() -> World {
    beside(4)
}

pub(super) fn says(world: &mut World, input: TurnInput) {
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Start { input: Arc::new(input), turn_config });
    world.settle();
}

pub(super) fn asked(world: &mut World, number: u32, text: &str) {
    says(world, input(number, text, limits()));
}

pub(super) fn calls(world: &mut World, calls: &[(&str, &str)]) {
    world.llm(Ok(answer("", calls)));
}

pub(super) fn used() -> Delegated {
    let usage = Usage { input_tokens: 20, output_tokens: 10, total_tokens: 30, ..Usage::default() };
    Delegated { sessions: 1, steps: 2, tool_calls: 1, usage, cost: Cost::from_nanos(500) }
}

/// The child of the call whose id ends so has ended.
pub(super) fn ends(world: &mut World, call: &str) {
    let output = ToolOutput { delegated: Some(Box::new(used())), ..ToolOutput::text("found") };
    came(world, call, ToolReturn { status: CallStatus::Ok, output, duration_ms: 1 });
}

pub(super) fn came(world: &mut World, call: &str, returned: ToolReturn) {
    let message = world.returns(call, returned);
    world.say(message);
    world.settle();
}

pub(super) fn outcomes(world: &World) -> Vec<&TurnOutcome> {
    let outcomes = world.news.iter().filter_map(|news| match news {
        TurnNews::Finished { outcome, .. } => Some(&**outcome),
        _ => None,
    });
    outcomes.collect()
}

/// How many children were told that their turn ends.
pub(super) fn told_of_the_end(world: &World) -> usize {
    let told = world.news.iter().map(|news| match news {
        TurnNews::TasksEnd { children } => children.len(),
        _ => 0,
    });
    told.sum()
}

pub(super) fn count(world: &World, how: &str) -> usize {
    world.dispatched.iter().filter(|asked| asked.ends_with(how)).count()
}

pub(super) fn infers(world: &World) -> bool {
    world.questions.iter().any(|question| matches!(question, Question::Infer(..)))
}

pub(super) fn tasks(world: &World) -> usize {
    world.turn.session().map_or(0, |session| session.tasks.iter().count())
}

/// The session is the fold of its journal, and a replay writes the same one.
#[track_caller]
pub(super) fn assert_kept(world: &World) {
    assert_eq!(world.turn.session(), Some(&world.folded()));
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

/// A turn that has begun a task and waits for a person.
pub(super) fn suspended() -> World {
    let mut world = world();
    says(&mut world, TurnInput { approvals: ApprovalsMode::Suspend, ..input(1, "go", limits()) });
    calls(&mut world, &[("agent__outlives", TASK)]);
    calls(&mut world, &[("local__ask", "{}")]);
    assert_eq!(outcomes(&world)[0].finish_reason, FinishReason::Suspended);
    world
}

/// A turn that asks a person at its limits.
pub(super) fn asking(number: u32, limits: Limits) -> TurnInput {
    TurnInput { approvals: ApprovalsMode::Wait, asks_at_limits: true, ..input(number, "go", limits) }
}

#[test]
fn a_turn_that_is_given_up_ends_its_tasks_and_the_next_one_waits_for_none() {
    let mut world = suspended();
    assert_eq!(told_of_the_end(&world), 0, "it goes on while the turn is suspended");
    asked(&mut world, 2, "next");
    assert_eq!((told_of_the_end(&world), tasks(&world)), (1, 0));
    world.llm(Ok(answer("done", &[])));
    let last = outcomes(&world).pop().unwrap();
    assert_eq!((last.finish_reason, last.content.as_str()), (FinishReason::Final, "done"));
    assert_kept(&world);
}

#[test]
fn so_does_one_that_is_given_up_by_an_input_that_waited() {
    let mut world = world();
    says(&mut world, TurnInput { approvals: ApprovalsMode::Suspend, ..input(1, "go", limits()) });
    calls(&mut world, &[("agent__outlives", TASK)]);
    asked(&mut world, 2, "next");
    calls(&mut world, &[("local__ask", "{}")]);
    world.llm(Ok(answer("done", &[])));
    assert_eq!(told_of_the_end(&world), 1);
    let how: Vec<_> = outcomes(&world).iter().map(|outcome| outcome.finish_reason).collect();
    assert_eq!(how, [FinishReason::Suspended, FinishReason::Final]);
}

#[test]
fn tasks_count_for_how_many_agents_work_beside_each_other_until_they_have_ended() {
    for more in ["ends", "inline"] {
        let mut world = beside(2);
        asked(&mut world, 1, "go");
        let (ends_, more) = ("agent__ends", format!("agent__{more}"));
        calls(
            &mut world,
            &[(ends_, TASK), (ends_, "{\"task\":\"more\"}"), (&more, TASK), (&more, "{\"task\":\"more\"}")],
        );
        let at_work =
            |world: &World| world.questions.iter().filter(|question| matches!(question, Question::Call(..))).count();
        assert_eq!(at_work(&world), 2, "{more}");
        ends(&mut world, "1");
        assert_eq!(at_work(&world), 2, "{more}");
        ends(&mut world, "2");
        assert_eq!(at_work(&world), 2, "{more}");
        assert_kept(&world);
        ends(&mut world, "3");
        ends(&mut world, "4");
        world.llm(Ok(answer("done", &[])));
        assert_eq!(outcomes(&world)[0].delegated.as_deref().unwrap().sessions, 4, "{more}");
        assert_kept(&world);
    }
}

#[test]
fn a_call_that_is_given_no_child_takes_no_place() {
    for agent in ["agent__inline", "agent__ends"] {
        let mut world = beside(1);
        // One of two model calls is left, and an agent has at most half of it.
        says(&mut world, input(1, "go", Limits { max_steps: 2, ..limits() }));
        let asks = world.questions.iter().position(|question| matches!(question, Question::Infer(..))).unwrap();
        let Question::Infer(ticket, _) = world.questions.remove(asks) else { unreachable!() };
        let asked = answer("", &[(agent, TASK), (agent, "{\"task\":\"more\"}")]);
        world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(asked)) });
        while let Some(at) = world.questions.iter().rposition(Question::is_quick) {
            // The second call is judged before the first one.
            let question = world.questions.remove(at);
            let message = world.works(&question);
            message.into_iter().for_each(|message| world.say(message));
        }
        assert!(infers(&world), "{agent}: the second call has its result, too");
        assert_kept(&world);
    }
}

#[test]
fn a_call_behind_a_decision_that_suspends_begins_all_the_same() {
    let mut world = world();
    says(&mut world, TurnInput { approvals: ApprovalsMode::Suspend, ..input(1, "go", limits()) });
    calls(&mut world, &[("local__ask", "{}"), ("agent__inline", TASK)]);
    ends(&mut world, "2");
    assert_eq!(outcomes(&world)[0].finish_reason, FinishReason::Suspended);
}

#[test]
fn the_end_of_a_task_that_is_waited_for_answers_the_question_about_no_progress() {
    let mut world = world();
    says(&mut world, asking(1, Limits { progress_timeout_ms: 1_000, ..limits() }));
    calls(&mut world, &[("agent__ends", TASK)]);
    calls(&mut world, &[("agent__result", ASKS)]);
    world.say(TurnMessage::Quiet);
    world.settle();
    ends(&mut world, "1");
    let decided = world.stored.iter().filter(|record| matches!(record.fact, Fact::LimitDecided { goes_on: true, .. }));
    assert_eq!(decided.count(), 1);
    assert_kept(&world);
}

#[test]
fn children_end_only_for_an_answer_that_is_in_the_journal() {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__ends", TASK)]);
    let at = world.questions.iter().position(|question| matches!(question, Question::Infer(..))).unwrap();
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("done", &[]))) });
    let is_answer = |fact: &Fact| matches!(fact, Fact::Answered(answered) if answered.text == "done");
    assert_eq!(told_of_the_end(&world), 0);
    world.settle();
    assert!(world.stored.iter().any(|record| is_answer(&record.fact)));
    assert_eq!(told_of_the_end(&world), 1);
    ends(&mut world, "1");
    assert_eq!(outcomes(&world)[0].content, "done");
    assert_kept(&world);
}

#[test]
fn a_turn_that_is_closed_reads_its_children_and_has_none_work_again() {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__ends", TASK), ("agent__ends", TASK), ("agent__inline", TASK)]);
    world.crash();
    world.dispatched.clear();
    asked(&mut world, 2, "what happened?");
    assert_eq!((count(&world, "works"), count(&world, "is read")), (0, 3), "{:?}", world.dispatched);
    let not_ended = || ToolReturn::note(CallStatus::Unknown, "outcome unknown: the agent has not ended");
    ends(&mut world, "1");
    came(&mut world, "2", not_ended());
    came(&mut world, "3", not_ended());
    let orphans = world.news.iter().filter(|news| matches!(news, TurnNews::Orphaned { .. })).count();
    assert_eq!(orphans, 2, "those that have not ended");
    world.llm(Ok(answer("a crash", &[])));
    let all = outcomes(&world);
    assert_eq!(all.last().map(|last| last.content.as_str()), Some("a crash"));
    let closed = world.folded();
    assert!(closed.tasks.is_empty());
    let counted = world.stored.iter().filter_map(|record| match &record.fact {
        Fact::Result(result) => result.output.delegated.as_deref(),
        _ => None,
    });
    assert_eq!(counted.collect::<Vec<_>>(), [&used()], "what one used before the crash is on the bill");
    assert_eq!(world.turn.session(), Some(&world.folded()));
}

#[test]
fn a_task_that_had_not_ended_with_its_turn_is_given_up_in_the_next_program() {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__ends", TASK), ("agent__outlives", TASK)]);
    world.say(TurnMessage::Stopped { reason: crate::outcome::EndReason::TurnTimeout, submission: None });
    world.settle();
    world.crash();
    world.news.clear();
    asked(&mut world, 2, "next");
    let given_up = world.news.iter().filter(|news| matches!(news, TurnNews::ChildGivenUp { .. }));
    assert!(given_up.count() > 0, "the one that ends with its turn");
    let session = world.folded();
    assert_eq!((session.given_up.len(), session.tasks.iter().count()), (1, 1), "the other one goes on");
}

#[test]
fn an_outcome_that_is_read_for_a_call_that_has_none_begins_no_task() {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__outlives", TASK)]);
    let intent = world.stored.iter().position(|record| matches!(record.fact, Fact::Intent { .. })).unwrap();
    world.stored.truncate(intent + 1);
    world.crash();
    world.dispatched.clear();
    asked(&mut world, 2, "what happened?");
    ends(&mut world, "1");
    world.llm(Ok(answer("a crash", &[])));
    assert_eq!((tasks(&world), count(&world, "works"), infers(&world)), (0, 0, false));
    assert_kept(&world);
}

#[test]
fn a_known_task_that_is_refused_for_now_is_asked_for_again_later() {
    let mut world = world();
    asked(&mut world, 1, "go");
    calls(&mut world, &[("agent__outlives", TASK)]);
    world.llm(Ok(answer("it works", &[])));
    world.crash();
    world.dispatched.clear();
    asked(&mut world, 2, "and now?");
    assert_eq!(count(&world, "works"), 1);
    came(&mut world, "1", ToolReturn::note(CallStatus::Unknown, "not now"));
    assert_eq!(tasks(&world), 1);
    let task = world.turn.session().unwrap().tasks.iter().next().unwrap();
    assert!(task.result.is_none(), "it may be at work elsewhere");
    world.llm(Ok(answer("nothing", &[])));
    assert_eq!(count(&world, "works"), 2);
    ends(&mut world, "1");
    world.llm(Ok(answer("read", &[])));
    assert_eq!(outcomes(&world).last().unwrap().delegated.as_deref(), Some(&used()));
}

#[test]
fn a_call_in_doubt_that_is_not_made_again_leaves_no_child_at_work() {
    for agent in ["inline", "ends"] {
        let mut world = world();
        asked(&mut world, 1, "go");
        calls(&mut world, &[(&format!("agent__{agent}"), TASK)]);
        let intent = world.stored.iter().position(|record| matches!(record.fact, Fact::Intent { .. })).unwrap();
        world.stored.truncate(intent + 1);
        world.crash();
        // One tool is away, the other one is no longer allowed.
        world.tool_changes += 1;
        let turn_config = Arc::clone(&world.turn_config);
        world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
        world.settle();
        let orphans = world.news.iter().filter(|news| matches!(news, TurnNews::Orphaned { .. })).count();
        assert_eq!(orphans, 1, "{agent}");
        assert_kept(&world);
    }
}
