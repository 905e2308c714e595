//! The tables of faults and of verification points in `docs/` are whole, and the tests that they name exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// How many faults each group of the catalogue has.
const GROUPS: [(char, u32); 10] =
    [('L', 16), ('M', 21), ('H', 6), ('S', 16), ('A', 10), ('O', 7), ('C', 7), ('X', 9), ('B', 8), ('G', 21)];

/// Prefixes of rows for faults without a test; the reason follows.
const WITHOUT: [&str; 2] = ["not yet: ", "does not apply: "];

#[test]
fn every_fault_has_a_row_that_names_a_test_that_exists_or_says_why_there_is_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/faults.md")).unwrap();
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

#[test]
fn every_verification_point_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/verification.md")).unwrap();
    let known = known(root);
    let points: Vec<String> =
        (1..=5).map(|n| format!("VP-{n:02}")).chain((1..=10).map(|n| format!("TC-{n:02}"))).collect();
    for point in points {
        let row = page.lines().find(|line| line.starts_with(&format!("| {point} |"))).unwrap_or_default();
        let shown_by = row.rsplit(" | ").next().unwrap_or_default();
        let mut named = shown_by.split('`').skip(1).step_by(2).peekable();
        assert!(named.peek().is_some(), "{point} has no row, or nothing shows it: {row}");
        for name in named.filter(|word| is_test_name(word)) {
            assert!(known.contains(name), "{point}: there is no test `{name}`");
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

/// The name of a test is snake case with several words; that of a file has a slash or a dot.
fn is_test_name(word: &str) -> bool {
    word.contains('_')
        && word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// The names of all tests in the sources.
fn known(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<_> =
        ["messages", "actors", "supervisors", "bin", "drill", "tests"].map(|folder| root.join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                names.extend(tests(&fs::read_to_string(path).unwrap_or_default()));
            }
        }
    }
    names
}

/// The names of the functions of a source that have the attribute of a test, and of those that a contract's macro gives it.
fn tests(text: &str) -> Vec<String> {
    let (mut names, mut is_marked) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_marked = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|(before, _)| is_of_function(before)) {
            if is_marked {
                names.extend(rest.split(['(', '<']).next().map(str::to_owned));
            }
            is_marked = false;
        }
    }
    for list in text.split("contract!(@").skip(1).filter_map(|rest| rest.split(");").next()) {
        names.extend(list.split(',').map(str::trim).filter(|word| is_test_name(word)).map(str::to_owned));
    }
    names
}

/// Whether this precedes `fn` at the start of a function, not in a text or a type.
fn is_of_function(before: &str) -> bool {
    before.split_whitespace().all(|word| word == "async" || word.starts_with("pub"))
}

#[test]
fn only_functions_with_the_attribute_are_tests() {
    let text = "#[test]\n#[cfg(unix)]\nfn one_test() {}\nfn a_helper() {}\n#[tokio::test(start_paused = true)]\n\
        async fn another_test() { let call: fn (u8) = a_helper; }\npub(crate) fn no_test() {}\n// #[test]\nfn off() {}\n\
        $crate::faults::store_contract!(@ $make,\n a_load, a_claim\n);";
    assert_eq!(tests(text), ["one_test", "another_test", "a_load", "a_claim"]);
}
