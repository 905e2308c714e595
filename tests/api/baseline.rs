//! What a program that was written for the last version relies on is still there, or is named as a break.
//!
//! `docs/api-baseline.txt` is `docs/api.txt` as it was at the last version. A line of it that an item no longer has stands in
//! `docs/api-breaks.txt`, below the same heading: a break is decided, and read by those who write the changelog. With a
//! new version both are begun anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::api::root;

/// The items of an interface by their headings, each with its lines.
type Items = BTreeMap<String, BTreeSet<String>>;

fn items(text: &str) -> Items {
    let mut items = Items::new();
    let mut heading = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
        match line.strip_prefix("# ") {
            Some(next) => {
                heading = next.to_owned();
                items.entry(heading.clone()).or_default();
            }
            None => drop(items.entry(heading.clone()).or_default().insert(line.to_owned())),
        }
    }
    items
}

/// What of the baseline is neither in the interface nor among the breaks.
fn missing(baseline: &Items, now: &Items, breaks: &Items) -> Vec<String> {
    let mut missing = Vec::new();
    let none = BTreeSet::new();
    for (heading, lines) in baseline {
        let allowed = breaks.get(heading);
        // A break without lines is the whole item.
        if allowed.is_some_and(BTreeSet::is_empty) {
            continue;
        }
        match now.get(heading) {
            None => missing.push(format!("# {heading}")),
            Some(kept) => {
                let lost = lines.difference(kept).filter(|line| !allowed.unwrap_or(&none).contains(*line));
                missing.extend(lost.map(|line| format!("# {heading}\n{line}")));
            }
        }
    }
    missing
}

/// The methods of traits that came after the baseline and that an implementation would have to add.
fn demanded(baseline: &Items, now: &Items) -> Vec<String> {
    let is_trait = |lines: &BTreeSet<String>| lines.iter().any(|line| line.starts_with("pub trait "));
    let traits = baseline.iter().filter(|(_, lines)| is_trait(lines));
    let new = traits.flat_map(|(heading, lines)| {
        let now = now.get(heading).into_iter().flatten();
        now.filter(|line| !lines.contains(*line)).map(move |line| format!("# {heading}\n{line}"))
    });
    new.filter(|line| line.ends_with(';')).collect()
}

fn read(file: &str) -> Items {
    items(&fs::read_to_string(root().join("docs").join(file)).unwrap_or_else(|why| panic!("{file}: {why}")))
}

#[test]
fn nothing_of_the_last_version_is_gone_without_being_named_as_a_break() {
    let (baseline, now, breaks) = (read("api-baseline.txt"), read("api.txt"), read("api-breaks.txt"));
    assert!(baseline.len() > 300, "only {} items were found", baseline.len());
    let missing = missing(&baseline, &now, &breaks);
    assert!(missing.is_empty(), "a break, to be named in docs/api-breaks.txt:\n{}", missing.join("\n"));
    let demanded = demanded(&baseline, &now);
    assert!(demanded.is_empty(), "a method of a port without a default is a break:\n{}", demanded.join("\n"));
    for (heading, lines) in &breaks {
        let before = baseline.get(heading).unwrap_or_else(|| panic!("no item is broken by the entry # {heading}"));
        assert!(lines.is_subset(before), "no line is broken by an entry below # {heading}");
    }
}

#[test]
fn what_is_gone_or_demanded_is_found() {
    let before = items("# a::Port\npub trait Port {\n    fn ask(&self);\n}\n\n# a::Gone\npub struct Gone;\n");
    let now = items("# a::Port\npub trait Port {\n    fn ask(&self, text: &str);\n    fn told(&self) {}\n}\n");
    assert_eq!(missing(&before, &now, &Items::new()), ["# a::Gone", "# a::Port\n    fn ask(&self);"]);
    assert_eq!(demanded(&before, &now), ["# a::Port\n    fn ask(&self, text: &str);"]);
    let breaks = items("// Why.\n# a::Gone\n# a::Port\n    fn ask(&self);\n");
    assert_eq!(missing(&before, &now, &breaks), Vec::<String>::new());
}
