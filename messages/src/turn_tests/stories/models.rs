//! Stories of turns whose model is selected.

use super::*;
use crate::event::AgentEvent;
use crate::ids::ModelName;
use crate::models::{Listing, ModelBook, ModelEntry, ModelPrice, ModelSelector, Preference, Rate, Requirement};
use crate::store::Fact;

fn name(name: &str) -> ModelName {
    ModelName::parse(name).unwrap()
}

fn entry(model: &str, price: f64, abilities: &[Requirement]) -> ModelEntry {
    ModelEntry {
        name: name(model),
        context_tokens: None,
        max_output_tokens: None,
        price: Some(ModelPrice::usd(Rate::from_amount(price), Rate::from_amount(price))),
        abilities: abilities.iter().copied().collect(),
    }
}

fn book() -> ModelBook {
    let mut book = ModelBook::of([entry("a:blind", 0.1, &[]), entry("b:seeing", 1.0, &[Requirement::Vision])]);
    book.aliases.insert("cheap".into(), ModelSelector::new(Preference::CostFirst));
    book
}

/// The default is the alias `cheap` of this book.
fn selecting(book: ModelBook) -> Setup {
    let mut setup = native();
    setup.turn_config.default_model = name("select:cheap");
    setup.turn_config.models = Some(Arc::new(book));
    setup
}

/// The models of the turns, and why.
fn started(world: &World) -> Vec<(String, String)> {
    let started = world.stored.iter().filter_map(|record| match &record.fact {
        Fact::Started { model, selected } => {
            Some((model.to_string(), selected.as_ref().map(|selected| selected.why.clone()).unwrap_or_default()))
        }
        _ => None,
    });
    started.collect()
}

fn error_of(world: &World) -> String {
    let error = world.news.iter().find_map(|news| match news {
        TurnNews::Finished { outcome, .. } => outcome.error.clone(),
        _ => None,
    });
    error.map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_model_is_selected_when_the_turn_begins_and_the_event_says_why() {
    let world = told(selecting(book()), &["user go", "llm hello"]);
    assert_eq!(started(&world)[0].0, "a:blind");
    let why = &started(&world)[0].1;
    assert!(why.starts_with("first of 2 candidates by cost_first: about 0.0003"), "{why}");
    let kinds: Vec<&AgentEvent> = world.events.iter().map(|event| &event.event).collect();
    let at = kinds
        .iter()
        .position(|event| matches!(event, AgentEvent::TurnStarted { model, .. } if *model == name("a:blind")));
    let after = &kinds[at.expect("it began") + 1..];
    let selected = after.iter().find(|event| matches!(event, AgentEvent::ModelSelected { .. })).expect("it says why");
    let AgentEvent::ModelSelected { selector, model, ranked, candidates, .. } = selected else { unreachable!() };
    assert_eq!((selector, model.as_ref(), *candidates), (&name("select:cheap"), Some(&name("a:blind")), 2));
    assert_eq!(ranked[1].model, name("b:seeing"));
}

#[test]
fn what_is_in_the_request_is_required_of_the_model() {
    let mut told = Teller::new(selecting(book()));
    let part = crate::chat::ContentPart::Image { mime_type: "image/png".into(), data: "AAAA".into() };
    let mut seen = (*told.next_input("look")).clone();
    seen.parts.push(part);
    told.world.capabilities.images = true;
    let turn_config = Arc::clone(&told.world.turn_config);
    told.say(TurnMessage::Start { input: Arc::new(seen), turn_config });
    assert_eq!(started(&told.world)[0].0, "b:seeing");
}

#[test]
fn a_turn_that_is_taken_up_again_keeps_its_model() {
    let mut told = Teller::new(selecting(book()));
    told.step("user go");
    // Now the other one would be selected.
    let mut other = book();
    other.providers.remove("a");
    let turn_config = TurnConfig { models: Some(Arc::new(other)), ..(*told.world.turn_config).clone() };
    told.world.turn_config = Arc::new(turn_config);
    told.step("crash");
    told.step("llm hello");
    told.step("user again");
    let models: Vec<_> = started(&told.world).into_iter().map(|(model, _)| model).collect();
    assert_eq!(models, ["a:blind", "b:seeing"]);
}

#[test]
fn a_closed_catalogue_refuses_a_selector_and_no_explicit_model() {
    let closed = ModelBook { listing: Listing::Closed("no answer for 25 h".into()), ..book() };
    let world = told(selecting(closed.clone()), &["user go"]);
    let expected = "select:cheap: the catalogue of models is not available: no answer for 25 h";
    assert!(error_of(&world).contains(expected), "{}", error_of(&world));
    assert!(world.dispatched.is_empty());

    let mut explicit = selecting(closed);
    explicit.turn_config.default_model = super::super::world::model();
    let world = told(explicit, &["user go", "llm hello"]);
    assert_eq!(error_of(&world), "");

    let mut unknown = selecting(book());
    unknown.turn_config.default_model = name("select:best");
    let error = error_of(&told(unknown, &["user go"]));
    assert!(error.contains("no [models.best] is configured for select:best; there is cheap"), "{error}");

    let mut none = selecting(book());
    none.turn_config.models = None;
    let error = error_of(&told(none, &["user go"]));
    assert!(error.contains("this runtime has no catalogue of models"), "{error}");
}

#[test]
fn a_replay_selects_nothing() {
    let world = told(selecting(book()), &["user go", "llm hello", "user again", "llm bye"]);
    let replayed = crate::replay::replay(&world.stored).expect("it is explained");
    assert_eq!(replayed.outcomes, 2);
    let closed = ModelBook { listing: Listing::Closed("no answer".into()), ..book() };
    let refused = told(selecting(closed), &["user go"]);
    assert!(matches!(crate::replay::replay(&refused.stored), Ok(replayed) if replayed.outcomes == 1));
}
