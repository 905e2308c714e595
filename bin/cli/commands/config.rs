//! `config`: single keys of the configuration, and its files.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bob_config::{ConfigError, Environment, Files, NAME, Overrides, Problem, StoreKind, assemble, edit};

use crate::arguments::ConfigAction;
use crate::exit::{Exit, Failure};
use crate::runtime::trust;
use crate::terminal::print;

/// Shows, changes or checks the configuration. Errors: a usage error for a key that there is not, a value that the
/// configuration refuses, and a file that cannot be read or written.
pub(crate) fn config(action: &ConfigAction, files: &Files) -> Result<Exit, Failure> {
    match action {
        ConfigAction::Get { key } => get(files, key),
        ConfigAction::Set { global, key, value } => set(files, *global, key, value),
        ConfigAction::Path => path(files),
        ConfigAction::Check => check(files),
    }
}

fn get(files: &Files, name: &str) -> Result<Exit, Failure> {
    let key = edit::key(name).map_err(Failure::usage)?;
    match edit::get(files, &Environment::of_process(), &key)? {
        Some(value) => {
            print::line(&plain(&value))?;
            Ok(Exit::Success)
        }
        None => Err(Failure { exit: Exit::Failed, ..Failure::usage(format!("{name} is not set, and has no default")) }),
    }
}

/// A text without its quotes, as a script wants it; everything else as it is written.
fn plain(value: &str) -> String {
    match value.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) if !text.contains('\\') => text.to_owned(),
        _ => value.to_owned(),
    }
}

fn set(files: &Files, is_global: bool, name: &str, value: &str) -> Result<Exit, Failure> {
    let key = edit::key(name).map_err(Failure::usage)?;
    let file = target(files, is_global)?;
    let text = match file.symlink_metadata() {
        Ok(_) => bob_config::text_of(&file)?,
        Err(_not_there) => String::new(),
    };
    let changed = edit::set(&text, &key, value).map_err(Failure::usage)?;
    // Trust in the file as it was covers what its owner changes here.
    let environment = Environment::of_process();
    let was_settled =
        bob_config::load_all(files, &environment, &Overrides::default()).is_ok_and(|config| trust::is_settled(&config));
    let (before, after) = (refusal(files, &file, &text), refusal(files, &file, &changed));
    let before: Vec<&str> = before.iter().flat_map(ConfigError::problems).map(|problem| &*problem.message).collect();
    if let Some(refusal) = after {
        let others: &[&str] = if text.is_empty() { &[] } else { before.as_slice() };
        let new = refusal.problems().iter().filter(|problem| !others.contains(&&*problem.message));
        let new: Vec<String> = new.map(told).collect();
        match (new.as_slice(), others) {
            ([], _) => {}
            (_, []) => {
                print::note(&format!("nothing was written; with this value of {name}, {} would be:", file.display()));
                return Err(refusal.into());
            }
            (new, _) => return Err(Failure::usage(format!("nothing was written: {}", new.join("; ")))),
        }
    }
    write(&file, &changed).map_err(|error| Failure::usage(format!("cannot write {}: {error}", file.display())))?;
    if was_settled && files.needs_trust() && files.main.as_deref() == Some(&*file) {
        trust::take(&file, &changed);
    }
    print::note(&format!("{name} is set in {}", file.display()));
    if !before.is_empty() && !text.is_empty() {
        let which = if files.is_named { format!(" --config {}", file.display()) } else { String::new() };
        print::note(&format!("the file has other errors, which `cli-agent{which} config check` shows"));
    }
    Ok(Exit::Success)
}

/// The file in which a key is set.
fn target(files: &Files, is_global: bool) -> Result<PathBuf, Failure> {
    let user =
        || files.user_place.clone().ok_or_else(|| Failure::usage("there is no home: set HOME, or name --config"));
    match (&files.main, is_global) {
        (Some(main), false) => Ok(main.clone()),
        (Some(_), true) if files.is_named => Err(Failure::usage("--global and --config name two files")),
        (_, true) | (None, false) => user(),
    }
}

/// The shortest key that is hidden where a provider repeats it.
const SHORTEST_KEY: usize = 4;

const ANY_MODEL: &str = "openai:gpt-4o-mini";

/// Whether only the choice of a model is missing, which another layer may make.
pub(crate) fn is_open(problem: &bob_config::Problem) -> bool {
    problem.message == "`runtime.default_model` is missing"
}

fn told(problem: &Problem) -> String {
    let help = problem.help.iter().map(|help| format!(" ({help})"));
    std::iter::once(problem.message.clone()).chain(help).collect()
}

/// Why a text is no configuration; a model that it leaves open does not matter.
fn refusal(files: &Files, file: &Path, text: &str) -> Option<ConfigError> {
    let environment = Environment::of_process();
    let parse = |asked: &Overrides| bob_config::parse(text, file, &environment, asked);
    let error = parse(&Overrides::default()).err()?;
    // Another layer may say what one leaves open.
    if !files.is_named && error.problems().iter().any(is_open) {
        let model = Some(ANY_MODEL.to_owned());
        return parse(&Overrides { model, ..Overrides::default() }).err();
    }
    Some(error)
}

/// Replaces a file in one step, with the folders above it; the place of a link is written, not the link.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let file = file.canonicalize().unwrap_or_else(|_new| file.to_owned());
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let beside = file.with_extension(format!("{}.new", uuid::Uuid::now_v7().simple()));
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let mut replace = || {
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        if let Ok(before) = fs::metadata(&file) {
            fs::set_permissions(&beside, before.permissions())?;
        }
        fs::rename(&beside, &file)
    };
    replace().inspect_err(|_| {
        // On a full disk nothing is left behind.
        let _it_is_empty_then = fs::remove_file(&beside);
    })
}

/// Whether a file may be written here. Errors: when one is there already and may not be replaced.
pub(super) fn is_free(file: &Path, replaces: bool) -> Result<(), Failure> {
    if !replaces && file.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!("{} already exists; use --force to overwrite it", file.display())));
    }
    Ok(())
}

/// Writes the user's own file, or a project's, if it is not there or may be replaced.
/// Errors: when it is there already, or cannot be written.
pub(super) fn write_new(file: &Path, text: &str, replaces: bool) -> Result<(), Failure> {
    is_free(file, replaces)?;
    write(file, text).map_err(|error| Failure::usage(format!("cannot write {}: {error}", file.display())))
}

fn path(files: &Files) -> Result<Exit, Failure> {
    let main = files.main.as_deref().map(shown).unwrap_or_else(|| format!("{NAME} (not there)"));
    print::line(&format!("{:<9}{main}", if files.is_named { "named" } else { "project" }))?;
    match (&files.user_place, files.is_named) {
        (_, true) => {}
        (Some(place), false) => {
            let is_there = if files.user.is_some() { "" } else { " (not there)" };
            print::line(&format!("{:<9}{}{is_there}", "user", place.display()))?;
        }
        (None, false) => print::line(&format!("{:<9}(there is no home)", "user"))?,
    }
    if let Ok(config) = bob_config::load_all(files, &Environment::of_process(), &Overrides::default()) {
        let sessions = match config.store_path() {
            Some(path) => shown(&path),
            None if config.store.kind == StoreKind::Memory => "(in memory)".to_owned(),
            None => config.store_shown(),
        };
        print::line(&format!("{:<9}{sessions}", "sessions"))?;
    }
    Ok(Exit::Success)
}

fn shown(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_as_it_is| path.to_owned()).display().to_string()
}

fn check(files: &Files) -> Result<Exit, Failure> {
    let config = bob_config::load_all(files, &Environment::of_process(), &Overrides::default())?;
    // What a run would be refused for before it begins: a provider that is not known, a script that cannot be read.
    assemble::check(&config, &|name| std::env::var(name).ok())?;
    if files.all().next().is_none() {
        print::line("there is no agent.toml; built-in defaults")?;
    }
    for file in files.all() {
        print::line(&format!("ok    {}", shown(file)))?;
    }
    print::line(&format!("model {}", config.runtime.default_model))?;
    for (name, provider) in &config.providers {
        if provider.api_key.as_ref().is_some_and(|key| (1..SHORTEST_KEY).contains(&key.expose().len())) {
            print::note(&format!(
                "providers.{name}.api_key has less than {SHORTEST_KEY} characters; a key as short as that is not hidden in messages"
            ));
        }
    }
    if !trust::is_settled(&config) {
        print::note("it is not trusted yet: cli-agent trust");
    }
    Ok(Exit::Success)
}
