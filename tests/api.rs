//! The interface of the library is the one that `docs/api.txt` keeps: the names that are exported, and the methods of the
//! traits that programs implement. A change of it is a change of that file, which is seen in review:
//! `UPDATE_EXPECT=1 cargo test --test api` writes it.
//!
//! The sources are read as text, so fields, and signatures of other functions, are not part of it.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use expect_test::expect_file;

/// The traits that programs implement, and where they are.
const TRAITS: [(&str, &str); 9] = [
    ("SessionStore", "actors/src/store/port.rs"),
    ("LlmPort", "actors/src/llm/port.rs"),
    ("ToolPort", "actors/src/tools/port.rs"),
    ("ContextCompactorPort", "actors/src/compactor.rs"),
    ("SkillPort", "actors/src/skills/mod.rs"),
    ("EventSink", "actors/src/feed.rs"),
    ("ApprovalMemory", "actors/src/approvals.rs"),
    ("ApprovalPort", "bin/bob/src/facade/approvals.rs"),
    ("AgentRuntime", "bin/bob/src/facade/agent_runtime.rs"),
];

#[test]
fn the_interface_is_the_one_that_is_kept() {
    let mut lines = BTreeSet::new();
    exported("bob", &root().join("bin/bob/src/lib.rs"), &root().join("bin/bob/src"), &mut lines);
    assert!(lines.len() > 200, "only {} names were found", lines.len());
    let mut text = lines.into_iter().collect::<Vec<_>>().join("\n");
    for (name, file) in TRAITS {
        let methods = methods(name, &read(&root().join(file)));
        assert!(!methods.is_empty(), "{name} is not in {file}");
        text.push_str(&format!("\n\ntrait {name}\n    {}", methods.join("\n    ")));
    }
    text.push('\n');
    expect_file!["../docs/api.txt"].assert_eq(&text);
}

/// No method of a trait that a program implements comes and goes with a feature.
#[test]
fn no_method_of_a_trait_depends_on_a_feature() {
    for (name, file) in TRAITS {
        let text = read(&root().join(file));
        let body = body(name, &text);
        assert!(!body.contains("#[cfg("), "{name} in {file}");
    }
}

/// The names that a module exports, and those of the modules in it.
fn exported(path: &str, file: &Path, folder: &Path, lines: &mut BTreeSet<String>) {
    let text = read(file);
    let mut feature = String::new();
    for statement in statements(&text) {
        if let Some(of) = statement.strip_prefix("#[cfg(feature = \"") {
            feature = format!("   ({})", of.split('"').next().unwrap());
            continue;
        }
        if let Some(uses) = statement.strip_prefix("pub use ") {
            let names = names(uses.trim_end_matches(';'));
            lines.extend(names.iter().map(|name| format!("{path}::{name}{feature}")));
        } else if let Some(module) = statement.strip_prefix("pub mod ") {
            let module = module.trim_end_matches([';', ' ', '{', '}']);
            let file = folder.join(format!("{module}.rs"));
            lines.insert(format!("{path}::{module}{feature}"));
            // A guide is a module without a file.
            if file.exists() {
                exported(&format!("{path}::{module}"), &file, &folder.join(module), lines);
            }
        } else if let Some(item) = item(&statement) {
            lines.insert(format!("{path}::{item}{feature}"));
        }
        feature.clear();
    }
}

/// The statements at the outermost level, each on one line, without comments; of items only their first line.
fn statements(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let (mut found, mut open) = (Vec::new(), String::new());
    for line in lines {
        if open.is_empty() && !(line.starts_with("pub ") || line.starts_with("#[cfg(feature")) {
            continue;
        }
        open.push_str(line.trim());
        open.push(' ');
        let is_use = open.starts_with("pub use ");
        if !is_use || open.contains(';') {
            found.push(std::mem::take(&mut open).trim().to_owned());
        }
    }
    found
}

/// The names of a `use`, as they are used.
fn names(uses: &str) -> Vec<String> {
    let last = |path: &str| {
        let path = path.trim();
        let name = path.split(" as ").last().unwrap();
        name.rsplit("::").next().unwrap().to_owned()
    };
    match uses.split_once('{') {
        Some((_, list)) => {
            let list = list.trim_end_matches(['}', ' ']);
            list.split(',').filter(|name| !name.trim().is_empty()).map(last).collect()
        }
        None => vec![last(uses)],
    }
}

/// The name of an item that is defined here.
fn item(statement: &str) -> Option<String> {
    let rest = statement.strip_prefix("pub ")?;
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let (kind, rest) = rest.split_once(' ')?;
    let is_item = ["fn", "struct", "enum", "trait", "type", "const"].contains(&kind);
    is_item.then(|| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap().to_owned())
}

/// The text between the braces of a trait.
fn body<'a>(name: &str, text: &'a str) -> &'a str {
    let Some((_, rest)) = text.split_once(&format!("pub trait {name}")) else { return "" };
    let end = rest.find("\n}").unwrap_or(rest.len());
    &rest[..end]
}

/// The signatures of a trait's methods, each on one line; `…` stands for a default.
fn methods(name: &str, text: &str) -> Vec<String> {
    let lines = body(name, text).lines().filter(|line| !line.trim_start().starts_with("//")).skip(1);
    let (mut found, mut open) = (Vec::new(), String::new());
    for line in lines {
        let is_inside = line.starts_with("        ") && open.is_empty();
        if is_inside || line.trim().is_empty() || line == "    }" || line.trim_start().starts_with('#') {
            continue;
        }
        open.push_str(line.trim());
        if open.ends_with(';') {
            found.push(std::mem::take(&mut open).trim_end_matches(';').to_owned());
        } else if open.ends_with('{') || open.ends_with("{}") {
            found.push(format!("{} …", std::mem::take(&mut open).trim_end_matches(['{', '}', ' '])));
        } else {
            open.push(' ');
        }
    }
    found.into_iter().map(|method| method.replace("( ", "(").replace(", )", ")")).collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
