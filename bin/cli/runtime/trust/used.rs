//! What a configuration did when it was used last by its name, so that one line can say what is different now.

use bob_config::{Config, Deed, DeedKind};

use super::memory::Shelf;
use super::place;
use crate::terminal::print;

/// How many things are named in the line.
const MOST_NAMED: usize = 3;

/// Says what a named configuration does now that it did not do when it was used last, and what it does no longer, and
/// remembers it. Where nothing can be remembered, nothing is said.
pub(super) fn tell(config: &Config, deeds: &[Deed]) {
    let (Ok(path), Ok(shelf)) = (place(&config.file), Shelf::open("used")) else { return };
    let now: Vec<String> = deeds.iter().map(Deed::text).collect();
    let before: Option<Vec<String>> = shelf.get(&path);
    if before.as_ref() == Some(&now) {
        return;
    }
    if let Some(before) = &before
        && let Some(line) = difference(deeds, &now, before)
    {
        print::note(&format!("note: {} has changed since it was last used: {line}", config.file.display()));
    }
    let _said_again_next_time = shelf.put(&path, now);
}

fn difference(deeds: &[Deed], now: &[String], before: &[String]) -> Option<String> {
    let new = deeds.iter().filter(|deed| !before.contains(&deed.text()));
    let new = listed(new.map(|deed| format!("{} {}", verb(deed.kind), deed.what)));
    // Only its text is left of what was; what it was stands in the first line.
    let gone = before.iter().filter(|deed| !now.contains(deed)).filter_map(|deed| deed.lines().next());
    let gone = listed(gone.filter_map(|line| line.split_once(": ")).map(|(_, what)| what.to_owned()));
    match (new, gone) {
        (Some(new), Some(gone)) => Some(format!("it now {new}; no longer: {gone}")),
        (Some(new), None) => Some(format!("it now {new}")),
        (None, Some(gone)) => Some(format!("no longer: {gone}")),
        (None, None) => None,
    }
}

/// What a kind of deed does, before the thing it does it to.
pub(super) fn verb(kind: DeedKind) -> &'static str {
    match kind {
        DeedKind::Starts => "starts",
        DeedKind::Sends => "sends to",
        DeedKind::Fills => "puts variables of the environment into",
        DeedKind::Loosens => "loosens:",
        DeedKind::Keeps => "keeps sessions in",
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
