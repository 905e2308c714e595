//! The privileges of a named configuration at its last use, to report changes in one line.

use bob_config::{Config, Privilege, PrivilegeKind};
use serde::{Deserialize, Serialize};

use super::memory::PathRecords;
use super::place;
use super::show::with_changed;
use crate::terminal::print;

/// How many things are named in the line.
const MOST_NAMED: usize = 3;

#[derive(PartialEq, Serialize, Deserialize)]
struct Used {
    /// Of its content.
    digest: String,
    privileges: Vec<String>,
}

/// Reports added and removed privileges of a named configuration since its last use, and stores the current ones.
/// Silent where nothing can be stored, and where the file is as it was: then the program or the environment has changed.
pub(super) fn tell(config: &Config, privileges: &[Privilege]) {
    let (Ok(path), Ok(records)) = (place(&config.file), PathRecords::open("used")) else { return };
    let now = Used { digest: config.digest().to_owned(), privileges: privileges.iter().map(Privilege::text).collect() };
    // What earlier versions stored has no digest, and is replaced without a word.
    let before: Option<Used> = records.get(&path);
    if before.as_ref() == Some(&now) {
        return;
    }
    if let Some(before) = before.filter(|before| before.digest != now.digest)
        && let Some(line) = difference(privileges, &now.privileges, &before.privileges)
    {
        print::note(&format!("note: {} has changed since it was last used: {line}", config.file.display()));
    }
    let _said_again_next_time = records.put(&path, now);
}

fn difference(privileges: &[Privilege], now: &[String], before: &[String]) -> Option<String> {
    let new = privileges.iter().filter(|privilege| !before.contains(&privilege.text()));
    // Of a removed privilege only the text is left; its first line is the description.
    let gone =
        before.iter().filter(|privilege| !now.contains(privilege)).filter_map(|privilege| privilege.lines().next());
    let gone: Vec<&str> = gone.filter_map(|line| line.split_once(": ")).map(|(_, what)| what).collect();
    // In both: it is there still, and differs in something, such as an address.
    let (same, new): (Vec<&Privilege>, Vec<&Privilege>) = new.partition(|privilege| gone.contains(&&*privilege.what));
    let is_gone = |what: &&&str| same.iter().all(|privilege| privilege.what != **what);
    let lines = [
        ("it now ", listed(new.iter().map(|privilege| format!("{} {}", verb(privilege.kind), privilege.what)))),
        ("changed: ", listed(same.iter().map(|privilege| with_changed(privilege, before)))),
        ("no longer: ", listed(gone.iter().filter(is_gone).map(|what| (*what).to_owned()))),
    ];
    let lines: Vec<String> = lines.into_iter().filter_map(|(head, what)| Some(format!("{head}{}", what?))).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

pub(super) fn verb(kind: PrivilegeKind) -> &'static str {
    match kind {
        PrivilegeKind::Starts => "starts",
        PrivilegeKind::Sends => "sends to",
        PrivilegeKind::Fills => "puts variables of the environment into",
        PrivilegeKind::Loosens => "relaxes the policy:",
        PrivilegeKind::Keeps => "keeps sessions in",
    }
}

fn listed(all: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<String> = all.collect();
    match all.len().saturating_sub(MOST_NAMED) {
        _ if all.is_empty() => None,
        0 => Some(all.join(", ")),
        more => Some(format!("{} and {more} more", all[..MOST_NAMED].join(", "))),
    }
}
