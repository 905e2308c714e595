use super::facts::ModelFacts;
use super::port::Resolution;
use crate::llm::LlmPort;
use bob_messages::ids::ModelName;
use bob_messages::models::{ModelBook, ModelEntry, Needs, ProviderStanding};
use std::collections::BTreeSet;
use std::sync::Arc;

const ALTERNATIVES: usize = 3;

pub(super) fn resolve(book: &ModelBook, port: &dyn LlmPort, facts: &ModelFacts, model: &ModelName) -> Resolution {
    if model.is_selector() {
        return match selected(book, model) {
            Ok(model) => resolve(book, port, facts, &model),
            Err(why) => Resolution::Unmapped { why, alternatives: Vec::new() },
        };
    }
    let can = match port.capabilities(model) {
        Ok(can) => can,
        Err(error) => {
            return Resolution::Unmapped { why: error.message, alternatives: nearest(book, model) };
        }
    };
    let known = facts.get(model);
    let mut overrides = facts.settings.overrides.get(model.provider()).cloned().unwrap_or_default();
    let price = facts.settings.prices.get(model);
    overrides.extend(price.map(|_configured| "price".to_owned()));
    if known.is_none() {
        overrides.push("not in the catalogue".to_owned());
    }
    let entry = known.unwrap_or_else(|| {
        let (name, abilities) = (model.clone(), BTreeSet::new());
        Arc::new(ModelEntry { name, context_tokens: None, max_output_tokens: None, price: None, abilities })
    });
    if overrides.is_empty() {
        return Resolution::Mapped(entry);
    }
    let entry = ModelEntry {
        context_tokens: Some(can.context_tokens),
        price: price.cloned().or_else(|| entry.price.clone()),
        ..(*entry).clone()
    };
    Resolution::MappedWithOverrides { entry: Arc::new(entry), overrides }
}

pub(super) fn selected(book: &ModelBook, name: &ModelName) -> Result<ModelName, String> {
    let selector = book.selector(name).map_err(|error| error.to_string())?;
    let selection = bob_messages::models::select(book, &selector, &Needs::default());
    selection.model.ok_or_else(|| format!("{name}: {}", selection.why))
}

/// The models that can be run here, those first whose names are most like this one.
pub(super) fn nearest(book: &ModelBook, model: &ModelName) -> Vec<ModelName> {
    let wanted = tail(model);
    let ready = book.entries().iter().filter(|entry| *book.standing(entry.name.provider()) == ProviderStanding::Ready);
    let mut ready: Vec<(f64, &ModelName)> =
        ready.map(|entry| (strsim::jaro_winkler(&wanted, &tail(&entry.name)), &entry.name)).collect();
    ready.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| a.cmp(b)));
    ready.into_iter().take(ALTERNATIVES).map(|(_, name)| name.clone()).collect()
}

/// The name of a model without its provider, and without what a reseller puts before it.
fn tail(model: &ModelName) -> String {
    let name = model.model();
    name.rsplit('/').next().unwrap_or(name).to_lowercase()
}
