//! The table of faults in ARCHITECTURE.md is whole, and what it names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// How many faults each group of the catalogue has.
const GROUPS: [(char, u32); 10] =
    [('L', 13), ('M', 19), ('H', 6), ('S', 13), ('A', 10), ('O', 7), ('C', 7), ('X', 8), ('B', 8), ('G', 17)];

/// What the row of a fault that has no test begins with, and then says why.
const WITHOUT: [&str; 2] = ["not yet: ", "does not apply: "];

#[test]
fn every_fault_has_a_row_that_names_a_test_that_exists_or_says_why_there_is_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let rows = rows(&page);
    let wanted: BTreeSet<String> =
        GROUPS.iter().flat_map(|(group, count)| (1..=*count).map(move |number| format!("{group}{number}"))).collect();
    assert_eq!(rows.keys().cloned().collect::<BTreeSet<_>>(), wanted);

    let known = known(root);
    for (id, row) in &rows {
        let named: Vec<&str> = row.split('`').skip(1).step_by(2).filter(|word| is_test_name(word)).collect();
        let is_without = WITHOUT.iter().any(|start| row.starts_with(start));
        assert!(named.is_empty() == is_without, "{id}: a test, or why there is none: {row}");
        for name in named {
            assert!(known.contains(name), "{id}: there is no test `{name}`");
        }
    }
}

/// The rows of the table, by the id of the fault.
fn rows(page: &str) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        let Some((id, rest)) = line.strip_prefix("| ").and_then(|line| line.split_once(" | ")) else { continue };
        let mut letters = id.chars();
        let is_fault = letters.next().is_some_and(|group| GROUPS.iter().any(|(known, _)| *known == group))
            && letters.as_str().parse::<u32>().is_ok();
        if is_fault {
            assert!(rows.insert(id.to_owned(), rest.to_owned()).is_none(), "{id} has two rows");
        }
    }
    rows
}

/// A test's name is snake case with more than one word; a file's has a slash or a dot.
fn is_test_name(word: &str) -> bool {
    word.contains('_')
        && word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// The names of all functions in the sources.
fn known(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<_> =
        ["messages", "actors", "supervisors", "bin", "tests"].map(|folder| root.join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(path).unwrap_or_default();
                names.extend(text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next()).map(str::to_owned));
            }
        }
    }
    names
}
