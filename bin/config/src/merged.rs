//! The order of reading: the files, the layers above and below them, variables, checks, conversion; complaints of all of
//! them at once.

use std::ops::Range;
use std::path::{Path, PathBuf};

use bob::model::providers::KNOWN;

use super::files::Files;
use super::layers::{Environment, FileText, Layers, Overrides};
use super::problem::Findings;
use super::read::{Read as _, Reader};
use super::source::{OfUser, Source, digest};
use super::tree::{Item, Table, Value};
use super::{Config, ConfigError, aliases, builtin, check, interpolate, keys, profile, secret, syntax, tree};

pub(super) struct Merged<'t> {
    root: Table<'t>,
    texts: &'t [FileText<'t>],
    layers: &'t Layers,
    findings: Findings,
    is_broken: bool,
    /// Keys of the user's policy that the main file replaces.
    replaced: Vec<String>,
    /// Whether any layer chooses the profile `strict`.
    is_strict: bool,
    /// Whether the model on this machine is started by built-in scripts.
    has_scripts: bool,
}

impl<'t> Merged<'t> {
    /// Merges these files, the lowest first, and what is above and below them, and hands the result on.
    pub(super) fn of<T>(
        texts: &[(&Path, &str)],
        files: &Files,
        environment: &Environment,
        overrides: &Overrides,
        then: impl FnOnce(Merged<'_>) -> T,
    ) -> T {
        let mut findings = Findings::default();
        let mut texts = FileText::stack(texts);
        let bytes = texts.last().map_or(0, |text| text.placed.len());
        let layers = Layers::above(bytes, environment, overrides, &mut findings);
        let keys = keys::paths(Config::KEYS);
        for text in &mut texts {
            text.masked = masked(text, &keys);
        }
        let (mut root, mut is_broken, mut replaced, mut is_strict) = (Table::new(), false, Vec::new(), false);
        for text in &texts {
            let (mut over, errors) = tree::parse(&text.placed);
            let broken: Vec<usize> = errors.iter().map(|error| syntax::place(&text.placed, error).start).collect();
            is_broken |= syntax::take(&text.placed, &errors, &mut findings);
            tree::drop_broken(&mut over, &tree::Faults::at(&text.placed, &broken));
            aliases::rename(&mut over, &mut findings);
            is_strict |= profile::is_strict(&over);
            replaced.extend(replaced_policy(&root, &over));
            forget_keys(&mut root, &over);
            tree::merge(&mut root, over);
        }
        for layer in [&layers.environment, &layers.options] {
            let (mut over, errors) = tree::parse(layer);
            syntax::take(layer, &errors, &mut findings);
            aliases::rename(&mut over, &mut findings);
            is_strict |= profile::is_strict(&over);
            tree::merge(&mut root, over);
        }
        let builtin = builtin::text(&root, environment, files);
        let has_scripts = builtin.contains("[providers.local]");
        tree::fill(&mut root, tree::parse(&builtin).0);
        let terminal = profile::terminal();
        profile::fill(&mut root, &terminal);
        then(Merged { root, texts: &texts, layers: &layers, findings, is_broken, replaced, is_strict, has_scripts })
    }

    /// The value at a path of keys, as TOML, and where it was written; nothing when no layer has one.
    pub(super) fn value(&self, path: &[String]) -> Option<String> {
        let mut table = &self.root;
        let (last, above) = path.split_last()?;
        for part in above {
            table = tree::table(table.get(part.as_str())?)?;
        }
        let mut names = path.iter().map(String::as_str).collect();
        table.get(last.as_str()).map(|item| tree::written_but(item, &mut names, &secret::is_hidden))
    }

    /// The finished configuration. Errors: all errors at once.
    pub(super) fn config(self, files: &Files, environment: &Environment) -> Result<Config, ConfigError> {
        let Self { mut root, texts, layers, mut findings, is_broken, replaced, is_strict, has_scripts } = self;
        let source = |span: Range<usize>| {
            let files = texts.iter().map(|text| &*text.placed);
            let mut all = files.chain([&*layers.environment, &*layers.options]);
            let part = all.find(|text| span.end <= text.len()).and_then(|text| text.get(span));
            part.unwrap_or_default().to_owned()
        };
        let keys = keys::paths(Config::KEYS);
        let (filled, filled_at) = interpolate::interpolate(&mut root, environment, &source, &mut findings);
        let of_user = texts.first().filter(|text| files.user.as_deref() == Some(text.file));
        let user = of_user.map(|text| anchor(&mut root, text)).unwrap_or_default();
        let main = texts.last().filter(|text| files.main.as_deref() == Some(text.file));
        let end = texts.last().map_or(0, |text| text.placed.len());
        let root = Item::new(0..end, Value::Table(root));
        let config = Config::read(&root, &mut Reader::new(&mut findings, is_broken, &source, &keys));
        tree::table(&root).into_iter().for_each(|root| check::check(root, is_broken, &mut findings));
        match config {
            Some(mut config) if findings.count == 0 => {
                config.file = files.first().to_owned();
                config.folder = files.main.as_deref().map_or_else(|| PathBuf::from("."), folder_of);
                config.digest = digest(main.or(of_user).map_or("", |text| text.text));
                config.filled = filled;
                config.filled_at = filled_at;
                config.source =
                    Source { files: files.clone(), user, replaced, is_strict, own: Vec::new(), has_scripts };
                Ok(config)
            }
            _ => Err(ConfigError::new(files.first(), texts, layers, findings)),
        }
    }
}

/// A file's text with its secrets painted over.
fn masked(text: &FileText<'_>, keys: &[String]) -> String {
    let (root, errors) = tree::parse(text.text);
    let broken: Vec<usize> = errors.iter().map(|error| syntax::place(text.text, error).start).collect();
    secret::masked(text.text, &root, &broken, keys)
}

/// The keys of the policy, and the hooks, in a lower file that a higher one sets to something else.
fn replaced_policy(root: &Table<'_>, over: &Table<'_>) -> Vec<String> {
    let mut replaced = Vec::new();
    for section in ["policy", "tools", "hooks"] {
        let (Some(below), Some(above)) =
            (root.get(section).and_then(tree::table), over.get(section).and_then(tree::table))
        else {
            continue;
        };
        for (key, item) in above {
            let name: &str = key.get_ref();
            if below.get(name).is_some_and(|below| tree::written(below) != tree::written(item)) {
                replaced.push(tree::shown(&[section.to_owned(), name.to_owned()]));
            }
        }
    }
    replaced
}

/// Removes the keys of providers, and the headers of telemetry, that a higher file sends to another address, or to a program
/// that it starts itself: a key is for the address it was given for.
fn forget_keys(root: &mut Table<'_>, over: &Table<'_>) {
    if let (Some(below), Some(receiver)) =
        (table_mut(root.get_mut("telemetry")), tree::get(over, "telemetry.otlp_endpoint").map(tree::text))
    {
        let before = below.get("otlp_endpoint").and_then(tree::text).unwrap_or_default();
        if receiver.unwrap_or_default().trim_end_matches('/') != before.trim_end_matches('/') {
            below.remove("headers");
        }
    }
    let Some(below) = table_mut(root.get_mut("providers")) else { return };
    for (name, provider) in over.get("providers").and_then(tree::table).into_iter().flatten() {
        let name: &str = name.get_ref();
        let (Some(below), Some(over)) = (table_mut(below.get_mut(name)), tree::table(provider)) else { continue };
        let built_in = KNOWN.iter().find(|known| known.name == name).map(|known| known.base_url);
        let before = below.get("base_url").and_then(tree::text).or(built_in).unwrap_or_default();
        let now = over.get("base_url").map_or(Some(before), tree::text).unwrap_or_default();
        if now.trim_end_matches('/') != before.trim_end_matches('/') || over.contains_key("start") {
            below.remove("api_key");
        }
    }
}

/// Resolves the paths of the user's own file, which are relative to its folder.
fn anchor(root: &mut Table<'_>, of: &FileText<'_>) -> OfUser {
    let folder = folder_of(of.file);
    let is_own = |item: &Item<'_>| of.holds(item.span().start);
    let resolve = |item: Option<&mut Item<'_>>, must_be_there: bool| {
        let Some(item) = item.filter(|item| is_own(item)) else { return };
        if let Value::String(text) = item.get_mut() {
            let path = folder.join(&**text);
            if !must_be_there || path.exists() {
                *text = path.to_string_lossy().into_owned().into();
            }
        }
    };
    resolve(table_mut(root.get_mut("store")).and_then(|store| store.get_mut("path")), false);
    let mut started = Vec::new();
    for (name, provider) in table_mut(root.get_mut("providers")).into_iter().flat_map(|all| all.iter_mut()) {
        let Some(provider) = table_mut(Some(provider)) else { continue };
        resolve(provider.get_mut("script"), false);
        let command = provider.get("start").and_then(tree::table).and_then(|start| start.get("command"));
        if command.is_some_and(is_own) {
            started.push(name.get_ref().to_string());
        }
    }
    let sources = table_mut(root.get_mut("skills")).and_then(|skills| skills.get_mut("sources"));
    if let Some(Value::Array(sources)) = sources.map(toml::Spanned::get_mut) {
        for source in sources.iter_mut() {
            let source = table_mut(Some(source));
            // The path of another kind of source is not one of this machine.
            let source =
                source.filter(|source| source.get("type").and_then(tree::text).is_none_or(|kind| kind == "directory"));
            resolve(source.and_then(|source| source.get_mut("path")), true);
        }
    }
    let is_own_hook = |hook: &Item<'_>| {
        let command = tree::table(hook).and_then(|hook| hook.get("command"));
        command.is_some_and(is_own)
    };
    let hooks = root.get("hooks").and_then(tree::table).into_iter().flatten();
    let hooks = hooks.filter(|(_, hook)| is_own_hook(hook)).map(|(name, _)| name.get_ref().to_string()).collect();
    let servers = tree::get(root, "mcp.servers").and_then(tree::list).and_then(|all| all.first()).is_some_and(is_own);
    OfUser { folder, providers: started, hooks, servers }
}

fn table_mut<'i, 't>(item: Option<&'i mut Item<'t>>) -> Option<&'i mut Table<'t>> {
    match item?.get_mut() {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
