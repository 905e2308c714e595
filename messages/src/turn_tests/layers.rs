//! The texts before the history, where they are read for each turn.

use super::world::{Question, World, answer, input, model};
use crate::chat::FinishReason;
use crate::error::AgentError;
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::llm::LlmRequest;
use crate::options::SessionOptions;
use crate::outcome::TurnOutcome;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn_config::{PromptLayers, TurnConfig};
use std::sync::Arc;

fn world(reads_files: bool) -> World {
    let layers = PromptLayers { instructions: "Be kind.".into(), ..PromptLayers::default() };
    World::new(TurnConfig { layers, reads_files, ..TurnConfig::new(model()) })
}

/// An input of a session in this folder, and everything up to what waits for a model or a file.
fn say(world: &mut World, number: u32, cwd: Option<&str>) {
    let options = SessionOptions { cwd: cwd.map(str::to_owned), ..SessionOptions::default() };
    let input = TurnInput { options: Some(Arc::new(options)), ..input(number, "go", Limits::default()) };
    world.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&world.turn_config) });
    let waits = |question: &Question| question.is_quick() && !matches!(question, Question::Layers(_));
    while let Some(at) = world.questions.iter().position(waits) {
        let question = world.questions.remove(at);
        if let Some(message) = world.works(&question) {
            world.say(message);
        }
    }
}

/// What the files say arrives.
fn read(world: &mut World, result: Result<&str, &str>) {
    let at = world.questions.iter().position(|question| matches!(question, Question::Layers(_)));
    let Question::Layers(ticket) = world.questions.remove(at.expect("the files are read")) else { unreachable!() };
    let layers = |memory: &str| Arc::new(PromptLayers { memory: memory.into(), ..PromptLayers::default() });
    let result = result.map(layers).map_err(|why| AgentError::Invalid(why.into()));
    world.say(TurnMessage::LayersRead { ticket, result });
    world.settle();
}

fn asked(world: &World) -> Option<&LlmRequest> {
    world.questions.iter().find_map(|question| match question {
        Question::Infer(_, request) => Some(&**request),
        _ => None,
    })
}

fn told(world: &World) -> &TurnOutcome {
    let Some(TurnNews::Finished { outcome, .. }) = world.news.last() else { panic!("{:?}", world.news.last()) };
    outcome
}

#[test]
fn each_turn_waits_for_what_its_files_say_now() {
    let mut world = world(true);
    for (number, memory) in [(1, "one"), (2, "two")] {
        say(&mut world, number, Some("/here"));
        assert!(asked(&world).is_none(), "nothing is asked before the files are read");
        read(&mut world, Ok(memory));
        assert_eq!(
            &*asked(&world).expect("the model is asked").system,
            memory,
            "the layers of the configuration itself are stood in for"
        );
        world.llm(Ok(answer("done", &[])));
        assert_eq!(told(&world).finish_reason, FinishReason::Final);
    }
}

#[test]
fn a_named_file_that_is_not_there_is_a_clear_error_of_its_turn_alone() {
    let mut world = world(true);
    say(&mut world, 1, None);
    read(&mut world, Err("prompt.files names \"SOUL.md\", and there is none"));
    let outcome = told(&world);
    assert_eq!(outcome.error, Some(AgentError::Invalid("prompt.files names \"SOUL.md\", and there is none".into())));
    assert!(outcome.saved && outcome.steps == 0, "{outcome:?}");
    say(&mut world, 2, None);
    read(&mut world, Ok("remembered"));
    world.llm(Ok(answer("done", &[])));
    assert_eq!(told(&world).finish_reason, FinishReason::Final, "the next turn finds it");
}

#[test]
fn a_session_without_files_asks_for_none() {
    let mut world = world(false);
    say(&mut world, 1, Some("/here"));
    assert_eq!(&*asked(&world).expect("the model is asked").system, "Be kind.");
}

#[test]
fn what_files_say_too_late_or_twice_changes_nothing() {
    let mut world = world(true);
    say(&mut world, 1, None);
    let ticket = world.questions.iter().find_map(|question| match question {
        Question::Layers(ticket) => Some(*ticket),
        _ => None,
    });
    read(&mut world, Ok("remembered"));
    let before = asked(&world).cloned();
    let late = TurnMessage::LayersRead { ticket: ticket.expect("the files are read"), result: Ok(Arc::default()) };
    world.say(late);
    assert_eq!(asked(&world), before.as_ref());
    world.llm(Ok(answer("done", &[])));
    assert_eq!(told(&world).finish_reason, FinishReason::Final);
}

#[test]
fn the_folder_of_a_journal_from_elsewhere_is_not_looked_into() {
    let roots: Arc<[String]> = Arc::from(["/srv".to_owned()]);
    for (cwd, looked) in [("/srv/one", Some("/srv/one")), ("/else", None), ("/srv/../else", None)] {
        let mut world =
            World::new(TurnConfig { reads_files: true, roots: Arc::clone(&roots), ..TurnConfig::new(model()) });
        say(&mut world, 1, Some(cwd));
        assert_eq!(world.turn.cwd().as_deref(), looked, "{cwd}");
    }
}
