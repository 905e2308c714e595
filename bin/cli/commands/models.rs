//! `models`: the catalogue of models, what can be run of it here, and what a selector selects. Starts nothing; asks the
//! source of the catalogue, if what is kept of its answer is too old.

use std::collections::BTreeSet;
use std::sync::Arc;

use bob::ModelName;
use bob::model::catalogue::{
    Catalogue, ModelBook, ModelCatalogPort, ModelEntry, ModelFacts, ModelPrice, Needs, ProviderStanding, Ranked,
    Requirement, Resolution, Selection, Source, formats,
};
use bob::model::server::ModelServers;
use bob_config::Config;
use bob_config::assemble::{model, model_facts};
use serde_json::{Value, json};

use crate::arguments::ModelsAction;
use crate::exit::{Exit, Failure};
use crate::terminal::print;
use crate::terminal::spending::grouped;

/// Performs an action on the catalogue of a configuration.
/// Errors: for a name that is none, when the catalogue is not available, and when stdout cannot be written.
pub(crate) async fn models(action: &ModelsAction, config: &Config) -> Result<Exit, Failure> {
    let facts = model_facts(config);
    let catalogue = || opened(config, Arc::clone(&facts));
    match action {
        ModelsAction::List { require, all, json } => {
            let required = require.iter().map(|name| ability(name)).collect::<Result<BTreeSet<_>, _>>()?;
            let catalogue = catalogue().await?;
            list(&catalogue, &required, *all, *json)
        }
        ModelsAction::Show { name, json } => {
            let name = ModelName::parse(name).map_err(|error| Failure::usage(error.to_string()))?;
            let catalogue = catalogue().await?;
            show(&catalogue, &name, *json)
        }
        ModelsAction::Select { name, tokens, json } => {
            let catalogue = catalogue().await?;
            select(&catalogue, name, *tokens, *json)
        }
        ModelsAction::Refresh { json } => refresh(&facts, *json).await,
    }
}

/// The catalogue; its source is asked first, if nothing else is known.
async fn opened(config: &Config, facts: Arc<ModelFacts>) -> Result<Arc<Catalogue>, Failure> {
    if facts.closed().is_some() {
        // What comes of it is said where it matters.
        let _answered_or_not = facts.refresh().await;
    }
    let environment = |name: &str| std::env::var(name).ok();
    let port = model(config, &environment, ModelServers::default())?;
    Ok(Catalogue::new(facts, port))
}

fn ability(name: &str) -> Result<Requirement, Failure> {
    let known = || Requirement::ALL.map(Requirement::as_str).join(", ");
    Requirement::parse(name).ok_or_else(|| Failure::usage(format!("{name:?} is no ability; there is {}", known())))
}

async fn refresh(facts: &ModelFacts, as_json: bool) -> Result<Exit, Failure> {
    if *facts.source() == Source::BuiltIn {
        return Err(Failure::usage("the catalogue is built in; [models_catalog] source names another one"));
    }
    let models = facts.refresh().await;
    let source = source(facts);
    match (models, as_json) {
        (Ok(models), true) => print::json(&json!({ "source": source, "models": models }))?,
        (Ok(models), false) => print::line(&format!("{} from {source}", print::counted(models, "model")))?,
        (Err(why), _) => return Err(Failure::usage(format!("{source} gave no answer: {why}"))),
    }
    Ok(Exit::Success)
}

fn list(catalogue: &Catalogue, required: &BTreeSet<Requirement>, all: bool, as_json: bool) -> Result<Exit, Failure> {
    let book = catalogue.book();
    let entries = catalogue.list().map_err(|error| closed(&error.to_string()))?;
    let can = |entry: &&Arc<ModelEntry>| required.is_subset(&entry.abilities);
    let shown = |entry: &&Arc<ModelEntry>| all || refusal(&book, entry).is_none();
    let entries: Vec<&Arc<ModelEntry>> = entries.iter().filter(can).filter(shown).collect();
    if as_json {
        let models: Vec<Value> = entries.iter().map(|entry| described(entry, refusal(&book, entry))).collect();
        print::json(&json!({ "source": source(catalogue.facts()), "models": models }))?;
        return Ok(Exit::Success);
    }
    let width = entries.iter().map(|entry| entry.name.as_str().len()).max().unwrap_or(0);
    for entry in &entries {
        let context = entry.context_tokens.map_or_else(|| "-".to_owned(), |tokens| grouped(tokens.into()));
        let [input, output] = prices(entry.price.as_ref());
        let why = refusal(&book, entry).map(|why| format!("  ({why})")).unwrap_or_default();
        let can = abilities(entry);
        let row = format!("{:<width$}  {context:>10}  {input:>8}  {output:>8}  {can}{why}", entry.name.as_str());
        print::line(row.trim_end())?;
    }
    match entries.is_empty() {
        true => print::note("no model of the catalogue fits and can be run here; --all shows the others, too"),
        false => print::note("[context in tokens; USD for a million tokens of prompts, and of answers]"),
    }
    Ok(Exit::Success)
}

fn show(catalogue: &Catalogue, name: &ModelName, as_json: bool) -> Result<Exit, Failure> {
    let resolution = catalogue.resolve(name);
    let listed = catalogue.facts().get(name);
    let (word, entry) = match &resolution {
        Resolution::Mapped(entry) => ("mapped", Some(entry)),
        Resolution::MappedWithOverrides { entry, .. } => ("mapped_with_overrides", Some(entry)),
        Resolution::Unmapped { .. } => ("unmapped", listed.as_ref()),
    };
    let exit = if matches!(resolution, Resolution::Unmapped { .. }) { Exit::Usage } else { Exit::Success };
    if as_json {
        let mut all = entry.map_or_else(|| json!({ "name": name }), |entry| described(entry, None));
        all["resolution"] = word.into();
        match &resolution {
            Resolution::Mapped(_) => {}
            Resolution::MappedWithOverrides { overrides, .. } => all["overrides"] = json!(overrides),
            Resolution::Unmapped { why, alternatives } => {
                (all["runs"], all["why"], all["alternatives"]) = (false.into(), json!(why), json!(alternatives));
            }
        }
        print::json(&all)?;
        return Ok(exit);
    }
    let mut lines = vec![("model", entry.map_or(name, |entry| &entry.name).to_string())];
    if let Some(entry) = entry {
        let tokens = |tokens: Option<u32>| tokens.map_or_else(|| "unknown".to_owned(), |tokens| grouped(tokens.into()));
        let [input, output] = prices(entry.price.as_ref());
        let currency = entry.price.as_ref().map_or("USD", |price| &*price.currency);
        lines.push(("context", tokens(entry.context_tokens)));
        lines.push(("answer", tokens(entry.max_output_tokens)));
        lines.push(("price", format!("{input} in, {output} out, {currency} for a million tokens")));
        lines.push(("can", abilities(entry)));
    }
    match &resolution {
        Resolution::Mapped(_) => lines.push(("runs", "yes".to_owned())),
        Resolution::MappedWithOverrides { overrides, .. } => {
            lines.push(("runs", format!("yes; the configuration says: {}", overrides.join(", "))));
        }
        Resolution::Unmapped { why, alternatives } => {
            lines.push(("runs", format!("no: {why}")));
            lines.extend(alternatives.iter().map(|model| ("nearest", model.to_string())));
        }
    }
    for (key, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        print::line(&format!("{key:<8} {value}"))?;
    }
    Ok(exit)
}

fn select(catalogue: &Catalogue, name: &str, tokens: u64, as_json: bool) -> Result<Exit, Failure> {
    let written = name.strip_prefix("select:").unwrap_or(name);
    let named = ModelName::parse(&format!("select:{written}")).map_err(|error| Failure::usage(error.to_string()))?;
    let selector = catalogue.book().selector(&named).map_err(|error| {
        let help =
            "a table [models.NAME] of the configuration defines one, and `cli-agent models list` lists the models";
        Failure::usage(format!("{error}; {help}"))
    })?;
    let needs = Needs { input_tokens: tokens, ..Needs::default() };
    let selection = catalogue.select(&selector, &needs);
    let exit = if selection.model.is_some() { Exit::Success } else { Exit::Usage };
    if as_json {
        print::json(&json!({ "selector": named, "conditions": selector, "selection": selection }))?;
        return Ok(exit);
    }
    let Selection { model, why, candidates, ranked, refused } = selection;
    print::line(&match &model {
        Some(model) => format!("{model}  ({why})"),
        None => format!("no model: {why}"),
    })?;
    for (at, Ranked { model, rank }) in ranked.iter().enumerate() {
        print::line(&format!("{:>4}  {model}  {rank}", at + 1))?;
    }
    if candidates > ranked.len() {
        print::line(&format!("      and {} more", candidates - ranked.len()))?;
    }
    for refusal in &refused {
        let names: Vec<&str> = refusal.models.iter().take(4).map(ModelName::as_str).collect();
        let more = if refusal.count > names.len() { ", …" } else { "" };
        print::line(&format!("   -  {} ({}): {}{more}", refusal.why, refusal.count, names.join(", ")))?;
    }
    Ok(exit)
}

fn closed(why: &str) -> Failure {
    Failure::usage(format!("the catalogue of models is not available: {why}"))
}

fn refusal(book: &ModelBook, entry: &ModelEntry) -> Option<String> {
    match book.standing(entry.name.provider()) {
        ProviderStanding::Ready => None,
        ProviderStanding::NoKey { variable } => Some(format!("no key: {variable} is not set")),
        ProviderStanding::Unknown => Some(format!("no provider {}", entry.name.provider())),
    }
}

fn described(entry: &ModelEntry, why: Option<String>) -> Value {
    let mut all = serde_json::to_value(entry).unwrap_or_default();
    all["runs"] = why.is_none().into();
    if let Some(why) = why {
        all["why"] = why.into();
    }
    all
}

fn abilities(entry: &ModelEntry) -> String {
    entry.abilities.iter().map(|ability| ability.as_str()).collect::<Vec<_>>().join(" ")
}

fn prices(price: Option<&ModelPrice>) -> [String; 2] {
    price.map_or_else(|| ["-".to_owned(), "-".to_owned()], |price| [price.input.to_string(), price.output.to_string()])
}

fn source(facts: &ModelFacts) -> String {
    match facts.source() {
        Source::File(path) => path.display().to_string(),
        Source::Url(url) => url.clone(),
        Source::BuiltIn => {
            let about: Vec<_> = formats::about_built_in().map(|(key, value)| format!("{key} {value}")).collect();
            format!("built in ({})", about.join("; "))
        }
    }
}
