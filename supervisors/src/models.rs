//! The actor that refreshes the catalogue of models, as a child of the root.

use crate::children::ChildSpec;
use bob_actors::models::{ModelFacts, ModelsActor, ModelsArguments};
use bob_actors::rooms::Rooms;
use std::sync::Arc;

/// The child that asks the source of these facts again; `None` for a catalogue that is built in. One that dies too often
/// leaves the catalogue as it is, until that is too old.
pub fn child(rooms: &Rooms, facts: Option<&Arc<ModelFacts>>) -> Option<ChildSpec> {
    let facts = facts.filter(|facts| facts.is_refreshed())?;
    let arguments = ModelsArguments { facts: Arc::clone(facts), profiles: rooms.profiles.clone() };
    Some(ChildSpec::server("models", rooms.models.clone(), move || (ModelsActor, arguments.clone())))
}
