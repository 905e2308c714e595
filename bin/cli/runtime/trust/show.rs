//! What a person is shown of a configuration before it is trusted, and the error where no question can be asked.

use bob_config::{Deed, DeedKind};

use super::Question;
use crate::terminal::print;

/// How many things of a kind are named where there is one line for all.
const MOST_NAMED: usize = 3;

/// Shows all that is new of it, then in one line what is gone and what stays as it was trusted.
pub(super) fn show(question: &Question<'_>) {
    let file = question.config.file.display();
    let is_known = |deed: &&Deed| question.before.as_ref().is_some_and(|known| known.contains(&deed.text()));
    let (known, new): (Vec<_>, Vec<_>) = question.deeds.iter().partition(is_known);
    let has_changed = question.before.is_some() && !question.is_trusted;
    if has_changed {
        print::note(&format!("{file} has changed since it was trusted"));
    }
    // Of what is trusted already, everything is shown again.
    let shown = if has_changed { new } else { question.deeds.iter().collect() };
    for kind in DeedKind::ALL {
        let of_kind: Vec<&&Deed> = shown.iter().filter(|deed| deed.kind == kind).collect();
        if !of_kind.is_empty() {
            let also = if has_changed { "now " } else { "" };
            print::note(&format!("{file} would {also}{}:", heading(kind)));
        }
        for deed in of_kind {
            print::note(&format!("  {}", deed.what));
            deed.details.iter().for_each(|line| print::note(&format!("    {line}")));
        }
    }
    if has_changed {
        let texts = question.texts();
        let gone = question.before.iter().flatten().filter(|deed| !texts.contains(deed));
        for deed in gone.filter_map(|text| text.lines().next()).filter_map(|line| line.split_once(": ")) {
            print::note(&format!("it would no longer have: {}", deed.1));
        }
        if !known.is_empty() {
            print::note(&format!("as it was trusted: {}", named(known.iter().map(|deed| deed.what.as_str()))));
        }
        if shown.is_empty() {
            print::note("what it starts, sends to and loosens is as it was trusted; other parts of the file differ");
        }
    }
    if let Some(store) = question.brings() {
        print::note("there are sessions here that no program of yours has made. What was approved in them would stay");
        print::note("approved, and steps that are open in them would be run:");
        print::note(&format!("  {}", store.brings()));
    }
}

fn heading(kind: DeedKind) -> &'static str {
    match kind {
        DeedKind::Starts => "start",
        DeedKind::Sends => "send what is said and read, and what is in these variables of the environment, to",
        DeedKind::Fills => "tell the model, or use, what is in these variables of the environment",
        DeedKind::Loosens => "loosen what tools and models are kept to",
        DeedKind::Keeps => "keep sessions outside its folder",
    }
}

/// Why a found configuration is not used, and how it may be.
pub(super) fn refusal(question: &Question<'_>) -> String {
    let file = question.config.file.display();
    let is_new = |deed: &&Deed| question.before.as_ref().is_none_or(|known| !known.contains(&deed.text()));
    let of = |kind| question.deeds.iter().filter(is_new).filter(move |deed| deed.kind == kind).map(|deed| &*deed.what);
    let mut parts: Vec<String> = Vec::new();
    if !question.is_trusted {
        for kind in DeedKind::ALL.into_iter().filter(|kind| of(*kind).next().is_some()) {
            let of_kind = named(of(kind));
            parts.push(match kind {
                DeedKind::Starts => format!("start {of_kind}"),
                DeedKind::Sends => format!("send to {of_kind}"),
                DeedKind::Fills => format!("put variables of the environment into {of_kind}"),
                DeedKind::Loosens => format!("loosen what it is kept to ({of_kind})"),
                DeedKind::Keeps => format!("keep sessions in {of_kind}"),
            });
        }
    }
    if question.brings().is_some() {
        parts.push("use sessions that came with it".to_owned());
    }
    let would = match (question.before.is_some() && !question.is_trusted, parts.as_slice()) {
        (true, []) => "has changed since it was trusted".to_owned(),
        (true, parts) => format!("has changed since it was trusted and would now {}", joined(parts)),
        (false, parts) => format!("was found here and would {}", joined(parts)),
    };
    format!("the configuration {file} {would}; look at it with `cli-agent trust`, or name it: --config {file}")
}

/// A list as a sentence has it.
fn joined(parts: &[String]) -> String {
    match parts {
        [all @ .., last] if !all.is_empty() => format!("{}, and {last}", all.join(", ")),
        parts => parts.join(", "),
    }
}

/// The first of them, and how many more there are.
fn named<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = all.collect();
    match names.len().saturating_sub(MOST_NAMED) {
        0 => names.join(" and "),
        more => format!("{} and {more} more", names[..MOST_NAMED].join(", ")),
    }
}
