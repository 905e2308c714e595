//! The catalogue of a runtime keeps the rules; each rule is broken by a port that is made for it.

use super::*;
use crate::contract::testing::each_rule_is_broken;
use crate::llm::{ScriptedLlm, ScriptedReply};
use crate::models::{Catalogue, CatalogueSettings, ModelFacts};
use bob_messages::models::{ModelBook, ModelPrice, Rate, Selection};
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Unsorted,
    NewBook,
    OtherPrice,
    NotItself,
    NoReason,
    OwnChoice,
    Forgets,
    NotSettled,
}

struct Faulty {
    fault: Fault,
    book: Arc<ModelBook>,
    is_forgotten: AtomicBool,
}

fn entry(name: &str, amount: f64) -> ModelEntry {
    let (name, rate) = (ModelName::parse(name).unwrap(), Rate::from_amount(amount));
    let price = Some(ModelPrice::usd(rate, rate));
    ModelEntry { name, context_tokens: None, max_output_tokens: None, price, abilities: BTreeSet::new() }
}

impl Faulty {
    fn with(fault: Fault) -> Arc<dyn ModelCatalogPort> {
        let mut book = ModelBook::of([entry("lab:large", 3.0), entry("lab:small", 1.0)]);
        if fault == Fault::Unsorted {
            let entries: Vec<_> = book.entries().iter().rev().cloned().collect();
            book.listing = bob_messages::models::Listing::Open(entries.into());
        }
        Arc::new(Self { fault, book: Arc::new(book), is_forgotten: AtomicBool::new(false) })
    }
}

impl ModelCatalogPort for Faulty {
    fn book(&self) -> Arc<ModelBook> {
        match self.fault {
            Fault::NewBook => Arc::new((*self.book).clone()),
            Fault::Forgets if self.is_forgotten.load(Ordering::SeqCst) => Arc::new(ModelBook::of([])),
            _right => Arc::clone(&self.book),
        }
    }

    fn resolve(&self, model: &ModelName) -> Resolution {
        let unmapped = |why: &str| Resolution::Unmapped { why: why.to_owned(), alternatives: Vec::new() };
        let selected = self.book.selector(model).ok().map(|selector| select(&self.book, &selector, &Needs::default()));
        let model = match selected {
            Some(Selection { model: Some(model), .. }) => model,
            Some(Selection { model: None, why, .. }) => return unmapped(&why),
            None => model.clone(),
        };
        match self.book.entries().iter().find(|entry| entry.name == model) {
            Some(_) if self.fault == Fault::NotItself => unmapped("it is away"),
            Some(entry) => Resolution::Mapped(Arc::clone(entry)),
            None if self.fault == Fault::NoReason => unmapped(" "),
            None => unmapped("it is not in the list"),
        }
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        let entry = self.book.get(model).filter(|_| self.fault != Fault::OtherPrice);
        entry.and_then(|entry| entry.price.clone())
    }

    fn select(&self, selector: &ModelSelector, needs: &Needs) -> Selection {
        let selection = select(&self.book(), selector, needs);
        match self.fault {
            Fault::OwnChoice => Selection { model: Some(ModelName::parse("lab:large").unwrap()), ..selection },
            _right => selection,
        }
    }

    fn took(&self, _: &str, _: u64) {
        self.is_forgotten.store(true, Ordering::SeqCst);
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        match self.fault {
            Fault::NotSettled => Box::pin(std::future::pending()),
            _right => Box::pin(std::future::ready(())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_a_catalogue_is_broken_by_a_port_with_its_fault() {
    catalogue(|| Faulty::with(Fault::None)).await.assert();
    let mut suites = Vec::new();
    for (rule, fault) in [
        ("the list is that of the book, sorted by name, with each name once", Fault::Unsorted),
        ("the book is the one from before while nothing changes", Fault::NewBook),
        ("the price of a model is the one in the list", Fault::OtherPrice),
        ("a model of a provider that is ready is resolved as itself", Fault::NotItself),
        ("a model that cannot be run has a reason, and few alternatives that can", Fault::NoReason),
        ("a selection is the one that the book makes", Fault::OwnChoice),
        ("the time of a call changes no list", Fault::Forgets),
        ("what is known is settled within its time", Fault::NotSettled),
    ] {
        suites.push((rule, catalogue(|| Faulty::with(fault)).await));
    }
    each_rule_is_broken(suites);
}

#[tokio::test]
async fn the_catalogue_of_a_runtime_keeps_the_rules() {
    let make = || -> Arc<dyn ModelCatalogPort> {
        let model = Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("hello")]));
        Catalogue::new(ModelFacts::open(CatalogueSettings::default()), model)
    };
    catalogue(make).await.assert();
}
