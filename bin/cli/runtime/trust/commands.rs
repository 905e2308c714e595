//! Which commands of a project were trusted: their texts are sent as the user's messages.

use std::collections::BTreeMap;

use super::memory::PathRecords;
use crate::exit::Failure;
use crate::runtime::command_files::CommandFiles;

/// The hashes of the texts that were trusted, by the names of the commands.
type Accepted = BTreeMap<String, String>;

/// Whether the text of a command may be sent. What lies beside a named configuration may.
pub(crate) fn is_command_trusted(files: &CommandFiles, name: &str, text: &str) -> bool {
    files.is_named() || accepted(files).get(name).is_some_and(|known| *known == hash(text))
}

/// The commands that were not trusted as they are, each with its text.
pub(crate) fn untrusted_commands(files: &CommandFiles) -> Vec<(String, String)> {
    if files.is_named() {
        return Vec::new();
    }
    let accepted = accepted(files);
    let read = files.names().into_iter().filter_map(|name| Some((files.read(&name).ok()??, name)));
    let is_new = |(text, name): &(String, String)| accepted.get(name).is_none_or(|known| *known != hash(text));
    read.filter(is_new).map(|(text, name)| (name, text)).collect()
}

/// Trusts these commands with these texts, and those that were trusted before.
pub(super) fn keep(files: &CommandFiles, commands: &[(String, String)]) -> Result<(), Failure> {
    let Some(place) = files.place().filter(|_| !commands.is_empty()) else { return Ok(()) };
    let mut accepted = accepted(files);
    accepted.extend(commands.iter().map(|(name, text)| (name.clone(), hash(text))));
    let names = files.names();
    accepted.retain(|name, _| names.contains(name));
    PathRecords::open("commands")?.put(&place, accepted)
}

/// Trusts none of them; whether any was trusted.
pub(super) fn forget(files: &CommandFiles) -> bool {
    let was_trusted = !accepted(files).is_empty();
    if let (Some(place), Ok(records)) = (files.place(), PathRecords::open("commands")) {
        records.forget(&place);
    }
    was_trusted
}

fn accepted(files: &CommandFiles) -> Accepted {
    let records = PathRecords::open("commands").ok();
    files.place().and_then(|place| records?.get(&place)).unwrap_or_default()
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
