//! What a reader of the library's documentation finds: each feature, each module, each guide, and an example on each port.

use std::collections::BTreeSet;
use std::fs;

use quote::ToTokens;
use syn::Attribute;

use crate::api::interface::Interface;
use crate::api::tree::{Sources, attributes};
use crate::api::{TRAITS, root};

#[test]
fn each_port_and_the_builder_have_an_example() {
    let sources = Sources::read(root());
    let interface = Interface::of(&sources);
    let others = [("", "RuntimeBuilder"), ("", "AgentRuntime"), ("", "Agent"), ("tools", "tool")];
    for (module, name) in TRAITS.into_iter().chain(others) {
        let item = interface.item(module, name).unwrap_or_else(|| panic!("no {module}::{name}"));
        let of_use = interface.used(module, name).map(|used| text(&used.attrs)).unwrap_or_default();
        let documentation = text(attributes(item)) + &of_use;
        assert!(documentation.contains("```"), "{module}::{name} has no example:\n{documentation}");
    }
}

#[test]
fn the_front_page_and_the_page_of_packages_have_each_feature() {
    let manifest = read("bin/bob/Cargo.toml");
    let table = manifest.split_once("[features]\n").unwrap().1.split_once("\n[").unwrap().0;
    let features: BTreeSet<_> = table
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .filter(|name| *name != "default")
        .collect();
    assert!(features.len() >= 10, "{features:?}");
    for page in ["bin/bob/src/lib.rs", "docs/packages.md"] {
        let text = read(page);
        let rows: BTreeSet<_> =
            features.iter().copied().filter(|name| text.contains(&format!("| `{name}` |"))).collect();
        assert_eq!(rows, features, "{page}");
    }
}

#[test]
fn the_front_page_has_each_module() {
    let sources = Sources::read(root());
    let page = read("bin/bob/src/lib.rs");
    for module in Interface::of(&sources).modules() {
        assert!(
            page.contains(&format!("| [`{module}`]")) || page.contains(&format!("| `{module}` |")) || module == "guide",
            "{module} is not on the front page"
        );
    }
}

/// Each guide is in the repository's `docs`, has a link to it beside the library's manifest, and is in the list of guides.
#[test]
fn each_guide_is_found() {
    let guides = read("bin/bob/src/guide.rs");
    for entry in fs::read_dir(root().join("bin/bob/docs")).unwrap().flatten() {
        let file = entry.file_name().into_string().unwrap();
        assert!(guides.contains(&format!("include_str!(\"../docs/{file}\")")), "{file} is in no module");
        let name = file.trim_end_matches(".md").replace('-', "_");
        assert!(guides.contains(&format!("[`{name}`]")), "{file} is not in the list");
        assert_eq!(fs::read_to_string(entry.path()).unwrap(), read(&format!("docs/{file}")), "{file}");
    }
}

/// The texts of doc comments.
fn text(attributes: &[Attribute]) -> String {
    let texts = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    texts.map(|attribute| attribute.meta.to_token_stream().to_string() + "\n").collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"))
}
