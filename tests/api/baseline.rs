//! What a program that was written for the last version relies on is still there, or is named as a break.
//!
//! `docs/api-baseline.txt` is `docs/api.txt` as it was at the last version. What is gone, and what a program would have to
//! add, stands in `docs/api-breaks.txt`, below the same heading: a break is decided, and read by those who write the
//! changelog. With a new version both are begun anew.

use std::fs;

use crate::api::lines::{Items, Line, Listed, items};
use crate::api::root;

/// The breaks, each as an entry of `docs/api-breaks.txt`: a heading, and what is the matter below it.
fn breaks(baseline: &Items, now: &Items) -> Vec<(String, String)> {
    let mut breaks = Vec::new();
    for (heading, before) in baseline {
        match now.get(heading) {
            None => breaks.push((heading.clone(), String::new())),
            Some(now) => breaks.extend(broken(before, now).into_iter().map(|text| (heading.clone(), text))),
        }
    }
    breaks
}

fn broken(before: &Listed, now: &Listed) -> Vec<String> {
    let lost = before.lines.difference(&now.lines).filter(|line| !now.implements(line));
    let added = now.lines.difference(&before.lines).filter(|line| before.is_closed_to(line));
    let opened = before.is_opened_by(now).then(|| "#[non_exhaustive]".to_owned());
    let text = |line: &Line| line.text.clone();
    lost.map(text).chain(added.map(text)).chain(opened).collect()
}

/// The entries of `docs/api-breaks.txt`. A heading without lines is the whole item.
fn entries(text: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut heading = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")) {
        match line.strip_prefix("# ") {
            Some(next) => {
                heading = next.to_owned();
                entries.push((heading.clone(), String::new()));
            }
            None => {
                entries.pop_if(|(of, line)| *of == heading && line.is_empty());
                entries.push((heading.clone(), line.to_owned()));
            }
        }
    }
    entries
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join("docs").join(file)).unwrap_or_else(|why| panic!("{file}: {why}"))
}

#[test]
fn nothing_of_the_last_version_is_gone_without_being_named_as_a_break() {
    let (baseline, now) = (items(&read("api-baseline.txt")), items(&read("api.txt")));
    assert!(baseline.len() > 300, "only {} items were found", baseline.len());
    let lines: usize = baseline.values().map(|listed| listed.lines.len()).sum();
    assert!(lines > 2000, "only {lines} lines were found");
    let (breaks, named) = (breaks(&baseline, &now), entries(&read("api-breaks.txt")));
    let shown = |(heading, line): &(String, String)| format!("# {heading}\n{line}");
    let unnamed: Vec<_> = breaks.iter().filter(|entry| !named.contains(entry)).map(shown).collect();
    assert!(unnamed.is_empty(), "a break, to be named in docs/api-breaks.txt:\n{}", unnamed.join("\n"));
    let idle: Vec<_> = named.iter().filter(|entry| !breaks.contains(entry)).map(shown).collect();
    assert!(idle.is_empty(), "named in docs/api-breaks.txt, and no break:\n{}", idle.join("\n"));
}

/// The breaks between two interfaces.
fn between(before: &str, now: &str) -> Vec<String> {
    let of = |text: &str| items(&format!("# a::Item\n{text}\n"));
    breaks(&of(before), &of(now)).into_iter().map(|(_, line)| line).collect()
}

#[test]
fn a_changed_parameter_of_a_signature_in_several_lines_is_a_break() {
    let long = "impl Item {\n    pub fn ask(\n        &self,\n        text: &str,\n    ) -> Answer {}\n}";
    let added =
        "impl Item {\n    pub fn ask(\n        &self,\n        text: &str,\n        limit: u32,\n    ) -> Answer {}\n}";
    let line = "pub fn ask(&self, text: &str) -> Answer {}";
    let with_limit = "pub fn ask(&self, text: &str, limit: u32) -> Answer {}";
    assert_eq!(between(long, added), [line]);
    assert_eq!(between(added, long), [with_limit]);
    // The width of a line is no part of it.
    assert_eq!(between(long, &format!("impl Item {{\n    {line}\n}}")), [""; 0]);
    let moved = "impl Item {\n    pub fn other(\n        &self,\n        text: &str,\n    ) -> Answer {}\n}";
    assert_eq!(between(long, moved), [line], "its lines are still there, in another method");
}

#[test]
fn a_method_that_implementations_would_have_to_add_is_a_break() {
    let before = "pub trait Item: Send {\n    fn ask(&self);\n}";
    let with = |method: &str| format!("pub trait Item: Send {{\n    fn ask(&self);\n{method}}}");
    assert_eq!(between(before, &with("    fn told(&self) {}\n")), [""; 0]);
    let demanded = with("    fn told(\n        &self,\n        text: &str,\n    ) -> Answer;\n");
    assert_eq!(between(before, &demanded), ["fn told(&self, text: &str) -> Answer;"]);
    let with_default = with("    fn told(\n        &self,\n    ) -> Answer\n    where\n        Self: Sized,\n    {}\n");
    assert_eq!(between(before, &with_default), [""; 0]);
    assert_eq!(between(&with("    fn told(&self) {}\n"), &demanded).len(), 2);
}

#[test]
fn a_variant_or_a_field_more_is_a_break_where_all_are_known() {
    let of = |kind: &str, attribute: &str, more: &str| {
        format!("#[derive(Debug)]\n{attribute}pub {kind} Item {{\n    One {{ a: u32 }},\n{more}}}")
    };
    let (open, two) = ("#[non_exhaustive]\n", "    Two(\n        u32,\n    ),\n");
    assert_eq!(between(&of("enum", "", ""), &of("enum", "", two)), ["Two(u32),"]);
    assert_eq!(between(&of("enum", open, ""), &of("enum", open, two)), [""; 0]);
    assert_eq!(between(&of("enum", "", ""), &of("enum", open, "")), ["#[non_exhaustive]"]);
    assert_eq!(between(&of("enum", open, ""), &of("enum", "", "")), [""; 0]);
    let fields = |more: &str| format!("pub struct Item {{\n    pub a: u32,\n{more}}}");
    assert_eq!(between(&fields(""), &fields("    pub b: u32,\n")), ["pub b: u32,"]);
    assert_eq!(between(&fields("    private: _,\n"), &fields("    pub b: u32,\n    private: _,\n")), [""; 0]);
    assert_eq!(between(&fields(""), &fields("    private: _,\n")).len(), 1);
    // The fields of a variant are known even where the variants are not.
    let of_variant = |more: &str| format!("{open}pub enum Item {{\n    One {{\n        a: u32,\n{more}    }},\n}}");
    assert_eq!(between(&of_variant(""), &of_variant("        b: u32,\n")), ["b: u32,"]);
}

#[test]
fn what_is_gone_is_found_and_what_is_named_is_read() {
    let two = items("# a::Kept\npub struct Kept;\n\n# a::Gone\npub struct Gone;\n");
    let one = items("# a::Kept\n#[derive(Clone)]\npub struct Kept;\n");
    assert_eq!(breaks(&two, &one), [("a::Gone".to_owned(), String::new())]);
    assert_eq!(
        between("#[derive(Clone, Debug)]\npub struct Item;", "#[derive(Debug)]\npub struct Item;"),
        ["derives Clone"]
    );
    let error = "#[derive(Debug, thiserror::Error)]\npub struct Item;";
    assert_eq!(between(error, "#[derive(Debug)]\npub struct Item;\nimpl std::error::Error for Item {}"), [""; 0]);
    assert_eq!(
        between(error, "#[derive(Debug)]\npub struct Item;\nimpl Display for Item {}"),
        ["derives thiserror::Error"]
    );
    let named = entries("// Why.\n# a::Gone\n# a::Port\n    fn ask(&self);\nderives Clone\n");
    let named: Vec<_> = named.iter().map(|(heading, line)| (heading.as_str(), line.as_str())).collect();
    assert_eq!(named, [("a::Gone", ""), ("a::Port", "fn ask(&self);"), ("a::Port", "derives Clone")]);
}
