//! A machine that has lost what it needs tells its caller so, whatever it was doing.

use super::world::{Question, World, answer, input, model, output_schema};
use crate::chat::{CallStatus, FinishReason, Usage};
use crate::condense::Summary;
use crate::error::AgentError;
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::llm::LlmAnswer;
use crate::outcome::TurnOutcome;
use crate::submission::TurnNews;
use crate::tools::{ToolOutput, ToolReturn};
use crate::turn::TurnMessage;
use crate::turn::state::State;
use crate::turn_config::{CondenseRules, TurnConfig};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a machine can lose while its session is there.
#[derive(Debug, Clone, Copy)]
enum Lost {
    TurnConfig,
    Frame,
}

/// A turn of three calls, a summary and an answer with a schema.
fn world() -> (World, TurnMessage) {
    let condense = Some(CondenseRules { target_percent: 40, ..CondenseRules::default() });
    let mut world = World::new(TurnConfig { condense, ..TurnConfig::new(model()) });
    world.capabilities.context_tokens = 2_000;
    let input = input(1, &"many words ".repeat(40), Limits { max_identical_calls: 9, ..Limits::default() });
    let input = Arc::new(TurnInput { output_schema: Some(output_schema()), ..input });
    let start = TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) };
    (world, start)
}

/// What follows from the oldest question; `None` when it needs no answer.
fn reply(world: &mut World, calls: &mut u32) -> Option<TurnMessage> {
    match world.questions.remove(0) {
        Question::Infer(ticket, request) => {
            *calls += 1;
            let tokens = request.bytes() as u64 / 4;
            let usage = Some(Usage { input_tokens: tokens, total_tokens: tokens, ..Usage::default() });
            let reply = match *calls {
                1..=3 => answer("", &[("local__read", "{}")]),
                _ => answer(r#"{"ok": true}"#, &[]),
            };
            Some(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(LlmAnswer { usage, ..reply })) })
        }
        Question::Condense(ticket, _) => {
            let summary = Summary { text: "they said a lot".into(), usage: None };
            Some(TurnMessage::Condensed { ticket, result: Ok(Arc::new(summary)) })
        }
        call @ (Question::Call(..) | Question::Ran(..)) => {
            let output = ToolOutput::text("notes ".repeat(600));
            call.returned(ToolReturn { status: CallStatus::Ok, output, duration_ms: 1 })
        }
        question => world.works(&question),
    }
}

/// The outcome of a turn that loses something before the message of this number, and the state it was in; `None` when
/// it ends before.
fn outcome(lost: Lost, at: usize) -> Option<(&'static str, TurnOutcome)> {
    let (mut world, start) = world();
    world.say(start);
    let (mut messages, mut calls, mut before) = (1, 0, None);
    while !world.questions.is_empty() {
        let Some(message) = reply(&mut world, &mut calls) else { continue };
        if messages == at {
            before = Some(name(&world.turn.state));
            match lost {
                Lost::TurnConfig => world.turn.turn_config = None,
                Lost::Frame => world.turn.frame = None,
            }
        }
        messages += 1;
        world.say(message);
    }
    let ends = world.news.iter().filter_map(|news| match news {
        TurnNews::Finished { outcome, .. } => Some((**outcome).clone()),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    let [end] = ends.as_slice() else { panic!("{lost:?} at message {at} in {before:?}: {ends:?}") };
    assert!(world.turn.is_idle(), "{lost:?} at message {at} in {before:?}: {:?}", world.turn.state);
    before.map(|before| (before, end.clone()))
}

fn name(state: &State) -> &'static str {
    match state {
        State::Idle => "Idle",
        State::Load { .. } => "Load",
        State::Start(_) => "Start",
        State::BuildPrompt => "BuildPrompt",
        State::Condense(_) => "Condense",
        State::ReselectSkills(_) => "ReselectSkills",
        State::LlmInfer { .. } => "LlmInfer",
        State::ParseAction(_) => "ParseAction",
        State::CallTool(_) => "CallTool",
        State::AtLimit(_) => "AtLimit",
        State::Done(_) => "Done",
    }
}

#[test]
fn a_turn_that_loses_what_it_needs_ends_in_an_internal_error() {
    let (mut passed, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for lost in [Lost::TurnConfig, Lost::Frame] {
        for at in 1.. {
            let Some((before, outcome)) = outcome(lost, at) else { break };
            passed.insert(before);
            if outcome.finish_reason == FinishReason::Error {
                assert!(matches!(outcome.error, Some(AgentError::Internal(_))), "{outcome:?}");
                assert!(outcome.saved, "the end is in the journal");
                failed.insert(format!("{lost:?} in {before}"));
            }
        }
    }
    let all = ["BuildPrompt", "CallTool", "Condense", "Done", "LlmInfer", "Load", "ParseAction", "Start"];
    assert_eq!(passed, BTreeSet::from(all));
    let needed = [
        "TurnConfig in BuildPrompt",
        "TurnConfig in CallTool",
        "TurnConfig in Condense",
        "TurnConfig in LlmInfer",
        "TurnConfig in Start",
        "Frame in BuildPrompt",
        "Frame in CallTool",
        "Frame in Condense",
        "Frame in LlmInfer",
    ];
    assert_eq!(failed, BTreeSet::from(needed.map(str::to_owned)));
}
