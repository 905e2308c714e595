//! Checks the files of one folder: which exist, whether they changed, and their contents.

use super::PromptFiles;
use super::file::{Found, Root, Secrets, Stamp, is_missing, open, open_root, refusal, text};
use super::project::{self, Place};
use crate::clock;
use bob_messages::error::AgentError;
use bob_messages::turn_config::PromptLayers;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The contents of one folder's files.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// One for each name that was looked up, `None` where there is nothing.
    stamps: Vec<Option<Stamp>>,
    facts: String,
    pub(super) layers: Arc<PromptLayers>,
    pub(super) bytes: usize,
}

/// Looks up all names; reads them only if something differs from `known`.
pub(super) fn look(
    files: &PromptFiles,
    secrets: &Secrets,
    folder: &Path,
    known: Option<Look>,
) -> Result<Look, AgentError> {
    let mut roots: Vec<Root> = Vec::with_capacity(2);
    for path in [folder, &files.folder].into_iter().chain(files.last_folder.as_deref()) {
        roots.extend(open_root(path)?.filter(|root| roots.iter().all(|known| known.path != root.path)));
    }
    let named = files.named.iter().map(|name| ("prompt.files", name));
    let used_when_there = [("prompt.memory", &files.memory), ("prompt.tool_notes", &files.tool_notes)];
    let mut found = Vec::with_capacity(files.named.len() + 2);
    for (key, name) in named.chain(used_when_there) {
        let file = if name.is_empty() { None } else { find(&roots, secrets, key, name)? };
        if file.is_none() && key == "prompt.files" {
            return Err(missing(files, folder, name));
        }
        found.push(file);
    }
    let place = (files.reads_project || files.tells_facts).then(|| Place::of(folder));
    let project = match &place {
        Some(place) if files.reads_project => place.instructions(secrets)?,
        _ => Vec::new(),
    };
    let facts = place.filter(|_| files.tells_facts).map(|place| place.facts(clock::now())).unwrap_or_default();
    let stamped = |found: &Option<Found>| found.as_ref().map(|found| found.stamp().clone());
    let stamps = found.iter().map(stamped).chain(project.iter().map(|found| Some(found.stamp().clone())));
    let stamps: Vec<_> = stamps.collect();
    if let Some(known) = known.filter(|known| known.stamps == stamps && known.facts == facts) {
        return Ok(known);
    }
    let layers = compose(files, folder, found, project, &facts)?;
    let bytes = [&layers.instructions, &layers.memory, &layers.tool_notes].into_iter().map(String::len).sum();
    Ok(Look { stamps, facts, layers: Arc::new(layers), bytes })
}

fn compose(
    files: &PromptFiles,
    folder: &Path,
    found: Vec<Option<Found>>,
    project: Vec<Found>,
    facts: &str,
) -> Result<PromptLayers, AgentError> {
    let mut texts = Vec::with_capacity(found.len());
    for found in found {
        texts.push(found.map(text).transpose()?.unwrap_or_default());
    }
    let mut layers = files.texts.clone();
    layers.tool_notes = texts.pop().unwrap_or_default();
    layers.memory = texts.pop().unwrap_or_default();
    for text in texts.into_iter().chain(project::composed(project)) {
        paragraph(&mut layers.instructions, "\n\n", text.trim_end());
    }
    let folder = folder.to_string_lossy().escape_debug().to_string();
    paragraph(&mut layers.runtime_policy, "\n", &format!("Your working folder is {folder}"));
    if !facts.is_empty() {
        paragraph(&mut layers.runtime_policy, "\n", facts);
    }
    Ok(layers)
}

fn paragraph(text: &mut String, gap: &str, more: &str) {
    if !text.is_empty() {
        text.push_str(gap);
    }
    text.push_str(more);
}

/// The file of this name in the first folder that has one.
fn find(roots: &[Root], secrets: &Secrets, key: &'static str, name: &str) -> Result<Option<Found>, AgentError> {
    let mut is_inside = false;
    for root in roots {
        let Some(relative) = beneath(name, &root.path) else { continue };
        is_inside = true;
        let path = root.path.join(&relative);
        match open(root, &relative) {
            Ok((file, stamp)) => match secrets.named(root, &relative) {
                None => return Ok(Some(Found::new(key, file, stamp.at(path)))),
                Some(secret) => {
                    let text = format!("{name:?} is a file of secrets ({}), which no prompt has", secret.display());
                    return Err(AgentError::Invalid(format!("{key}: {text}; name another file")));
                }
            },
            Err(error) if is_missing(&error) => {}
            // Errors of the system have an error number; those of the confined lookup do not.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() => {
                let text = format!("{name:?} leads outside of {}; put the file itself there", root.path.display());
                return Err(AgentError::Invalid(format!("{key}: {text}")));
            }
            Err(error) => {
                return Err(refusal(&error, format!("{key}: cannot open {}: {error}", path.display())));
            }
        }
    }
    match is_inside || roots.is_empty() {
        true => Ok(None),
        false => {
            let folders: Vec<_> = roots.iter().map(|root| root.path.display().to_string()).collect();
            let text = format!("{name:?} is outside of {}; name a file inside it", folders.join(" and "));
            Err(AgentError::Invalid(format!("{key}: {text}")))
        }
    }
}

/// A name as it is looked up beneath a folder; `None` for a full name of something elsewhere.
fn beneath(name: &str, folder: &Path) -> Option<PathBuf> {
    let name = Path::new(name);
    let relative = if name.is_absolute() { name.strip_prefix(folder).ok()? } else { name };
    Some(relative.components().filter(|part| *part != Component::CurDir).collect())
}

fn missing(files: &PromptFiles, folder: &Path, name: &str) -> AgentError {
    let places = [folder.join(name), files.folder.join(name)].map(|path| path.display().to_string());
    let places = if places[0] == places[1] { places[0].clone() } else { places.join(" or ") };
    AgentError::Invalid(format!("prompt.files names {name:?}, and there is no {places}"))
}
