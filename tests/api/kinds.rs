//! What of each type may come in a minor version: each struct with public fields and each enum is of one kind, by a rule that
//! its source shows, or by a row of `docs/api.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use quote::ToTokens;
use syn::{Attribute, Item, Visibility};

use crate::api::interface::Interface;
use crate::api::tree::Sources;
use crate::api::{documents, root};

/// What a type shows by itself; the first that holds counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    /// `#[non_exhaustive]`: read, or made by functions.
    NonExhaustive,
    /// It has private fields.
    Private,
    /// It has a default for what a program leaves out.
    Options,
    /// It has a function that makes one.
    Made,
}

/// A row of the page about types that show nothing.
struct Row {
    kind: String,
    why: String,
    names: BTreeSet<String>,
}

#[test]
fn each_struct_with_public_fields_and_each_enum_is_of_one_kind() {
    let sources = Sources::read(root());
    let interface = Interface::of(&sources);
    let (mut shown, mut unshown) = (BTreeMap::<Shown, usize>::new(), BTreeSet::new());
    for (path, item) in interface.items() {
        match of(&interface, &path, item) {
            Some(Ok(kind)) => *shown.entry(kind).or_default() += 1,
            Some(Err(name)) => drop(unshown.insert(name)),
            None => {}
        }
    }
    assert!(shown.values().all(|count| *count > 3) && shown.len() == 4, "{shown:?}");
    let rows = rows();
    let mut named = BTreeSet::new();
    for name in rows.iter().flat_map(|row| &row.names) {
        assert!(named.insert(name.clone()), "{name} is in two rows of docs/api.md");
    }
    let missing: Vec<_> = unshown.difference(&named).collect();
    assert!(missing.is_empty(), "show no kind, and are in no row of docs/api.md: {missing:?}");
    let idle: Vec<_> = named.difference(&unshown).collect();
    assert!(idle.is_empty(), "show their kind, or are no type, and are in a row of docs/api.md: {idle:?}");
}

/// What a test makes of a port that a runtime calls is there.
#[test]
fn each_helper_that_the_kinds_name_is_there() {
    let sources = Sources::read(root());
    let interface = Interface::of(&sources);
    let of_runtimes: Vec<_> = rows().into_iter().filter(|row| row.kind == "a runtime makes it").collect();
    assert!(!of_runtimes.is_empty());
    for row in of_runtimes {
        let helpers = documents::names_in(&row.why);
        assert!(!helpers.is_empty(), "no helper: {}", row.why);
        for helper in helpers {
            assert!(interface.item(&format!("bob::{helper}")).is_some(), "no {helper}");
        }
    }
}

/// What a type shows, or its name; `None` for what is neither an enum nor a struct with public fields.
fn of(interface: &Interface<'_>, path: &str, item: &Item) -> Option<Result<Shown, String>> {
    match item {
        Item::Enum(item) => {
            Some(if is_open(&item.attrs) { Ok(Shown::NonExhaustive) } else { Err(item.ident.to_string()) })
        }
        Item::Struct(item) => {
            let is_public = |field: &syn::Field| matches!(field.vis, Visibility::Public(_));
            if !item.fields.iter().any(is_public) {
                return None;
            }
            let has_default = derives_default(&item.attrs) || interface.implementation(path, "Default").is_some();
            Some(if is_open(&item.attrs) {
                Ok(Shown::NonExhaustive)
            } else if !item.fields.iter().all(is_public) {
                Ok(Shown::Private)
            } else if has_default {
                Ok(Shown::Options)
            } else if interface.makers(path).next().is_some() {
                Ok(Shown::Made)
            } else {
                Err(item.ident.to_string())
            })
        }
        _another => None,
    }
}

fn is_open(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"))
}

fn derives_default(attributes: &[Attribute]) -> bool {
    let mut derived = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    derived.any(|attribute| {
        attribute.meta.to_token_stream().to_string().split([' ', ',', '(', ')']).any(|name| name == "Default")
    })
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let section = page.split_once("## Types by their kind\n").unwrap().1.split("\n## ").next().unwrap_or_default();
    let cells = section.lines().filter(|line| line.starts_with("| ")).map(|line| line.split(" | ").collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.len() == 3 && !cells[0].contains("kind"));
    let row = |cells: Vec<&str>| Row {
        kind: cells[0].trim_start_matches("| ").to_owned(),
        why: cells[1].to_owned(),
        names: documents::names_in(cells[2]),
    };
    rows.map(row).collect()
}
