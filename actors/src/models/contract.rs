//! The contract suite of a catalogue of models.

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;

use super::port::{ModelCatalogPort, Resolution};
use crate::contract::{Found, ODD_TEXTS, Suite, holds};
use bob_messages::ids::ModelName;
use bob_messages::models::{ModelEntry, ModelSelector, Needs, Preference, ProviderStanding, select};
use std::sync::Arc;

/// How many alternatives to a model are named at most.
const ALTERNATIVES: usize = 3;

/// Checks a port against the rules of all catalogues. Each rule has a port of its own, which `make` returns; it must have a
/// model that can be run.
pub async fn catalogue(make: impl Fn() -> Arc<dyn ModelCatalogPort>) -> Suite {
    let mut suite = Suite::new("catalogue of models");
    suite.rule("the list is that of the book, sorted by name, with each name once", async { listed(&*make()) }).await;
    suite.rule("the book is the one from before while nothing changes", async { kept(&*make()) }).await;
    suite.rule("the price of a model is the one in the list", async { priced(&*make()) }).await;
    suite.rule("a model of a provider that is ready is resolved as itself", async { itself(&*make()) }).await;
    suite
        .rule("a model that cannot be run has a reason, and few alternatives that can", async { away(&*make()) })
        .await;
    suite.rule("a selection is the one that the book makes", async { selected(&*make()) }).await;
    suite.rule("the time of a call changes no list", async { measured(&*make()) }).await;
    suite.rule("what is known is settled within its time", settled(make())).await;
    suite
}

fn entries(port: &dyn ModelCatalogPort) -> Result<Arc<[Arc<ModelEntry>]>, String> {
    let entries = port.list().map_err(|error| format!("no list: {error}"))?;
    holds(!entries.is_empty(), || "an empty list".to_owned())?;
    Ok(entries)
}

/// Those whose provider can be asked.
fn ready(port: &dyn ModelCatalogPort) -> Result<Vec<Arc<ModelEntry>>, String> {
    let (book, entries) = (port.book(), entries(port)?);
    let is_ready = |entry: &&Arc<ModelEntry>| *book.standing(entry.name.provider()) == ProviderStanding::Ready;
    let ready: Vec<_> = entries.iter().filter(is_ready).cloned().collect();
    holds(!ready.is_empty(), || "no model whose provider is ready".to_owned())?;
    Ok(ready)
}

/// The model that is run for this name.
fn resolved(port: &dyn ModelCatalogPort, name: &ModelName) -> Option<ModelName> {
    match port.resolve(name) {
        Resolution::Mapped(entry) | Resolution::MappedWithOverrides { entry, .. } => Some(entry.name.clone()),
        Resolution::Unmapped { .. } => None,
    }
}

fn listed(port: &dyn ModelCatalogPort) -> Found {
    let entries = entries(port)?;
    holds(*entries == *port.book().entries(), || "another list than that of the book".to_owned())?;
    let unsorted = entries.windows(2).find(|pair| pair[0].name >= pair[1].name);
    holds(unsorted.is_none(), || {
        let names = unsorted.into_iter().flatten().map(|entry| entry.name.as_str());
        format!("one after the other {}", names.collect::<Vec<_>>().join(" and "))
    })
}

fn kept(port: &dyn ModelCatalogPort) -> Found {
    let (first, second) = (port.book(), port.book());
    holds(first == second, || "two books that differ".to_owned())?;
    holds(Arc::ptr_eq(&first, &second), || "a second book, equal to the first".to_owned())
}

fn priced(port: &dyn ModelCatalogPort) -> Found {
    entries(port)?.iter().try_for_each(|entry| {
        let price = port.price(&entry.name);
        holds(price == entry.price, || format!("{price:?} for {}, and {:?} in the list", entry.name, entry.price))
    })
}

fn itself(port: &dyn ModelCatalogPort) -> Found {
    ready(port)?.iter().try_for_each(|entry| {
        let resolved = resolved(port, &entry.name);
        holds(resolved.as_ref() == Some(&entry.name), || format!("{resolved:?} for {}", entry.name))
    })
}

fn away(port: &dyn ModelCatalogPort) -> Found {
    let (book, unknown) = (port.book(), ODD_TEXTS.map(|text| ModelName::parse(&format!("no-such-provider:{text}"))));
    let not_ready = entries(port)?;
    let not_ready = not_ready.iter().filter(|entry| *book.standing(entry.name.provider()) != ProviderStanding::Ready);
    let names = not_ready.map(|entry| entry.name.clone()).chain(unknown.into_iter().flatten());
    for name in names.chain(ModelName::parse("no-such-provider:model")) {
        let Resolution::Unmapped { why, alternatives } = port.resolve(&name) else { continue };
        holds(!why.trim().is_empty(), || format!("no reason why {name} cannot be run"))?;
        holds(alternatives.len() <= ALTERNATIVES, || format!("{} alternatives to {name}", alternatives.len()))?;
        let cannot = alternatives.iter().find(|other| resolved(port, other).is_none());
        holds(cannot.is_none(), || format!("the alternative {cannot:?} to {name}, which cannot be run either"))?;
    }
    Ok(())
}

fn selected(port: &dyn ModelCatalogPort) -> Found {
    let named = ready(port)?.first().map(|entry| entry.name.clone());
    let explicit = ModelSelector { explicit: named, ..ModelSelector::default() };
    for selector in Preference::ALL.map(ModelSelector::new).into_iter().chain([explicit]) {
        let (by_port, by_book) =
            (port.select(&selector, &Needs::default()), select(&port.book(), &selector, &Needs::default()));
        holds(by_port == by_book, || format!("{by_port:?}, and of the book {by_book:?}"))?;
        let resolved = resolved(port, &selector.name());
        holds(resolved == by_book.model, || format!("{resolved:?} for {}: {by_book:?}", selector.name()))?;
    }
    Ok(())
}

fn measured(port: &dyn ModelCatalogPort) -> Found {
    let before = entries(port)?;
    let providers = before.iter().map(|entry| entry.name.provider()).chain(ODD_TEXTS);
    providers.for_each(|provider| port.took(provider, u64::MAX));
    holds(entries(port)? == before, || "another list".to_owned())
}

async fn settled(port: Arc<dyn ModelCatalogPort>) -> Found {
    port.settled().await;
    entries(&*port).map(drop)
}
