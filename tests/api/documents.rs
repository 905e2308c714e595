//! What a reader of the library's documentation finds: each feature, each module, each guide, and an example on each port.

use std::collections::BTreeSet;
use std::fs;

use quote::ToTokens;
use syn::Attribute;

use crate::api::interface::Interface;
use crate::api::root;
use crate::api::tree::{Sources, attributes};

#[test]
fn each_port_and_the_builder_have_an_example() {
    let sources = Sources::read(root());
    let interface = Interface::of(&sources);
    let others = ["bob::RuntimeBuilder", "bob::Agent", "bob::tools::tool"].map(str::to_owned);
    let mut without = Vec::new();
    for path in interface.ports().into_keys().chain(others) {
        let item = interface.item(&path).unwrap_or_else(|| panic!("no {path}"));
        let of_use = interface.used(&path).map(|used| text(&used.attrs)).unwrap_or_default();
        let documentation = text(attributes(item)) + &of_use;
        without.extend((!documentation.contains("```")).then_some(path));
    }
    assert!(without.is_empty(), "without an example: {without:?}");
}

/// In an example, or in a guide that is compiled with them.
#[test]
fn each_method_of_the_builder_is_in_an_example() {
    let sources = Sources::read(root());
    let interface = Interface::of(&sources);
    let mut examples: String = interface.documentation().values().map(|text| code_in(text)).collect();
    for entry in fs::read_dir(root().join("bin/bob/src")).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let text = fs::read_to_string(entry.path()).unwrap();
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("//!"));
        examples.push_str(&code_in(&lines.map(|line| line.trim_start().to_owned() + "\n").collect::<String>()));
    }
    for entry in fs::read_dir(root().join("bin/bob/docs")).unwrap().flatten() {
        examples.push_str(&code_in(&fs::read_to_string(entry.path()).unwrap()));
    }
    let methods = interface.methods("bob::RuntimeBuilder");
    assert!(methods.len() > 40, "only {methods:?} were found");
    let is_there = |name: &String| {
        examples.contains(&format!(".{name}(")) || examples.contains(&format!("RuntimeBuilder::{name}("))
    };
    let missing: Vec<_> = methods.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "in no example: {missing:?}");
}

/// The Rust that is compiled, of a text in Markdown.
fn code_in(text: &str) -> String {
    let blocks = text.split("```").skip(1).step_by(2);
    let is_compiled = |block: &&str| {
        let language = block.lines().next().unwrap_or_default().trim();
        matches!(language, "" | "no_run" | "rust" | "rust,no_run")
    };
    blocks.filter(is_compiled).collect()
}

/// Why a port has none: it is for faults, and may fail as it likes; it is called once, by the builder; the double of the
/// library is what a program tests with.
const WITHOUT_A_SUITE: [&str; 3] = ["Hook", "AgentBootstrap", "AgentRuntime"];

#[test]
fn each_port_has_a_contract_suite_that_a_program_runs_over_its_own() {
    let sources = Sources::read(root());
    let interface = Interface::of(&sources);
    let (suites, page) = (interface.suites(), read("bin/bob/src/testing.rs"));
    assert!(suites.len() > 10, "only {suites:?} were found");
    for (path, port) in interface.ports() {
        let name = port.ident.to_string();
        let is_checked = suites.values().any(|suite| suite.contains(&format!("dyn {name} "))) || name == "Inbox";
        assert_ne!(is_checked, WITHOUT_A_SUITE.contains(&name.as_str()), "{path}: has it a suite?");
        assert_eq!(is_checked, page.contains(&format!("| [`{name}`]")), "{path}: has it a row in the table of suites?");
    }
    let outside = read("examples/embedding/tests/library/suites.rs");
    let missing: Vec<_> = suites.keys().filter(|suite| !outside.contains(&format!("testing::{suite}("))).collect();
    assert!(missing.is_empty(), "not run from outside: {missing:?}");
}

/// The packages below the library are not what a program depends on.
#[test]
fn no_example_names_a_package_below_the_library() {
    let sources = Sources::read(root());
    let texts = Interface::of(&sources).documentation();
    assert!(texts.values().filter(|text| text.contains("```")).count() > 30, "the examples were not found");
    let mut found = Vec::new();
    for (path, text) in &texts {
        let parts = text.split("```").skip(1).step_by(2);
        let lines = parts.flat_map(str::lines);
        let inner = ["bob_messages::", "bob_actors::", "bob_supervisors::"];
        let named = lines.filter(|line| inner.iter().any(|name| line.contains(name)));
        found.extend(named.map(|line| format!("{path}: {}", line.trim())));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The workspace in `examples/embedding` depends on the library alone.
#[test]
fn each_port_is_implemented_from_outside() {
    let sources = Sources::read(root());
    let mut texts = String::new();
    let mut folders = vec![root().join("examples/embedding/src"), root().join("examples/embedding/tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => texts.push_str(&fs::read_to_string(path).unwrap()),
            }
        }
    }
    for (path, port) in Interface::of(&sources).ports() {
        assert!(texts.contains(&format!("impl {} for ", port.ident)), "{path} is not implemented");
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

/// A guide names another one as `[text][stores.md]`, and says at its end what that is: a path in the repository. Here the
/// definition in `guide.rs` stands before it, and counts.
#[test]
fn each_link_from_a_guide_to_another_leads_to_it_here_as_well() {
    let guides = read("bin/bob/src/guide.rs");
    let folder = fs::read_dir(root().join("bin/bob/docs")).unwrap().flatten();
    let files: BTreeSet<_> = folder.map(|entry| entry.file_name().into_string().unwrap()).collect();
    let mut links = 0;
    for file in &files {
        let has_names = guides.contains(&format!("#[doc = guides!()]\n#[doc = include_str!(\"../docs/{file}\")]"));
        assert!(has_names, "{file} is included without the names of the others");
        let text = read(&format!("docs/{file}"));
        for path in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let name = path.split('#').next().unwrap_or_default();
            assert!(!files.contains(name), "{file}: the link to {path} leads nowhere here; write [text][{path}]");
        }
        for name in text.split("][").skip(1).filter_map(|rest| rest.split(']').next()) {
            let Some((guide, part)) = name.split_once(".md") else { continue };
            let module = guide.replace('-', "_");
            assert!(text.contains(&format!("\n[{name}]: {name}\n")), "{file} does not say what {name} is");
            let here = format!("[{name}]: crate::guide::{module}{part}\\n");
            assert!(guides.contains(&here), "guide.rs does not say: {here}");
            links += 1;
        }
    }
    assert!(links > 30, "only {links} links were found");
}

#[test]
fn no_result_has_a_text_as_its_error() {
    let found = with_a_text_as_error(&read("docs/api.txt"));
    assert!(found.is_empty(), "`?` of a program that has another error does not take a text: {found:?}");
    let planted = "    pub fn one(&self) -> Result<(), String> {}\n    pub fn two(\n        text: &str,\n    ) -> Result<Self, String> {}\n";
    assert_eq!(with_a_text_as_error(planted), ["one".to_owned(), "two".to_owned()].into());
}

/// The functions whose error is a text.
fn with_a_text_as_error(interface: &str) -> BTreeSet<String> {
    let (mut name, mut found) = (String::new(), BTreeSet::new());
    for line in interface.lines() {
        if let Some((_, rest)) = line.split_once("fn ") {
            name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
        }
        if line.contains("-> Result<") && line.contains(", String>") {
            found.insert(name.clone());
        }
    }
    found
}

/// The names in a text that are written as code.
pub(crate) fn names_in(text: &str) -> BTreeSet<String> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|name| name.starts_with(char::is_alphabetic) && !name.contains('(')).map(str::to_owned).collect()
}

/// The texts of doc comments.
fn text(attributes: &[Attribute]) -> String {
    let texts = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    texts.map(|attribute| attribute.meta.to_token_stream().to_string() + "\n").collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"))
}
