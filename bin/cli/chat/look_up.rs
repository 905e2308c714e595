//! Completion data: sessions of the store, models of the configuration, tool servers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bob::AgentRuntime;
use bob::model::catalogue::{Catalogue, ModelCatalogPort, ProviderStanding};
use bob::sessions::SessionFilter;
use bob_config::Config;
use tokio::runtime::Handle;

use super::helper::{LookUp, Wanted};
use super::mentions;
use super::own_commands::OwnCommands;
use crate::runtime::OpenRuntime;

/// How many sessions are offered.
const MOST_SESSIONS: usize = 50;

/// Timeout of a look-up in the store.
const WAIT: Duration = Duration::from_millis(500);

pub(super) fn of(opened: &OpenRuntime, config: &Config, own: &OwnCommands, folder: PathBuf) -> LookUp {
    let (runtime, handle) = (opened.runtime.clone(), Handle::current());
    let (models, own) = (models(config, &opened.catalogue), own.clone());
    Arc::new(move |wanted, prefix| match wanted {
        Wanted::Session => {
            let filter =
                SessionFilter { prefix: Some(prefix.to_owned()), limit: MOST_SESSIONS, ..SessionFilter::default() };
            let page = handle.block_on(async { tokio::time::timeout(WAIT, runtime.sessions(filter, None)).await });
            let Ok(Ok(page)) = page else { return Vec::new() };
            page.sessions
                .iter()
                .filter(|summary| summary.parent.is_none())
                .map(|summary| summary.session.to_string())
                .collect()
        }
        Wanted::Model => models.iter().filter(|model| model.starts_with(prefix)).cloned().collect(),
        Wanted::File => mentions::completions(prefix, &folder),
        Wanted::Own => {
            let names = own.listed().into_iter().map(|(name, _)| name.trim_start_matches('/').to_owned());
            names.filter(|name| name.starts_with(prefix)).collect()
        }
        Wanted::Server => {
            let ids = runtime.servers().into_iter().map(|server| server.id.to_string());
            ids.filter(|id| id.starts_with(prefix)).collect()
        }
    })
}

/// The models and selectors the configuration names, the beginnings of the models of its providers, and the models of the
/// catalogue that can be run.
pub(super) fn models(config: &Config, catalogue: &Catalogue) -> BTreeSet<String> {
    let book = catalogue.book();
    let runs = book.entries().iter().filter(|entry| *book.standing(entry.name.provider()) == ProviderStanding::Ready);
    let runs = runs.map(|entry| entry.name.to_string());
    let selectors = config.models.keys().map(|name| format!("select:{name}"));
    let named = std::iter::once(&config.runtime.default_model).chain(&config.llm.fallback).chain(config.prices.keys());
    let providers = config.providers.keys().map(|provider| format!("{provider}:"));
    named.cloned().chain(providers).chain(selectors).chain(runs).filter(|model| !model.is_empty()).collect()
}
