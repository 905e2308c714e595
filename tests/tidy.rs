//! The layout that ARCHITECTURE.md promises is the layout of the tree: in each package the rooms import each other one
//! way, circles of files stay inside one folder, and no file is long.
//!
//! Imports are read as text: `use` and the paths in code that begin with `crate`, `super` or `self`, through re-exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The sources of the packages, from the lowest, with how many circles of files each may have. Those that are left are the
/// parts of one type each, in files of one folder.
const PACKAGES: [(&str, usize); 7] = [
    ("messages/src", 2),
    ("actors/src", 0),
    ("supervisors/src", 1),
    ("bin/bob/src", 2),
    ("bin/config/src", 0),
    ("bin/cli", 0),
    ("drill/src", 1),
];

/// The folders whose files are to be short, and how many lines the longest may have.
const SHORT: ([&str; 6], usize) = (["messages", "actors", "supervisors", "bin", "drill", "tests"], 400);

/// Words that make a comment a riddle: its subject should be a type, a function or the caller.
const RIDDLES: [&str; 5] = ["nobody", "whoever", "somebody", "anybody", "everybody"];

/// The rooms whose comments are still to be revised, by package.
const UNREVISED: [(&str, &[&str]); 1] = [("actors/src", &["store"])];

#[test]
fn in_each_package_the_rooms_import_each_other_one_way() {
    for (package, _) in PACKAGES {
        let pairs = Imports::of(&sources(package)).two_way_rooms();
        assert!(pairs.is_empty(), "{package}: these rooms import each other: {pairs:?}");
    }
}

#[test]
fn circles_of_files_are_few_and_inside_one_folder() {
    for (package, most) in PACKAGES {
        let circles = Imports::of(&sources(package)).circles();
        assert!(circles.len() <= most, "{package}: {} circles, and {most} were left: {circles:#?}", circles.len());
        for circle in circles {
            let rooms: BTreeSet<_> = circle.iter().map(|file| room(file)).collect();
            assert!(rooms.len() == 1, "{package}: a circle of several rooms: {circle:#?}");
        }
    }
}

#[test]
fn no_file_is_longer_than_four_hundred_lines() {
    let (folders, most) = SHORT;
    for folder in folders {
        for (file, text) in sources(folder) {
            let lines = text.lines().count();
            assert!(
                lines <= most,
                "{folder}/{file} has {lines} lines, and at most {most} are read with ease: split it"
            );
        }
    }
}

#[test]
fn the_page_that_describes_the_design_is_read_in_minutes() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    assert!(page.len() <= 14_000, "ARCHITECTURE.md has {} bytes: move details to docs/", page.len());
}

#[test]
fn comments_are_plain() {
    let mut vague = Vec::new();
    for folder in PACKAGES.map(|(folder, _)| folder) {
        let left = UNREVISED.iter().find(|(package, _)| *package == folder).map_or(&[][..], |(_, rooms)| *rooms);
        for (file, text) in sources(folder).iter().filter(|(file, _)| !is_test(file)) {
            let is_revised = !left.contains(&room(file).as_str());
            for line in text.lines().map(str::trim).filter(|line| line.starts_with("//")) {
                let mut words = line.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
                if line.starts_with("/// The same") || is_revised && words.any(|word| RIDDLES.contains(&word.as_str()))
                {
                    vague.push(format!("{folder}/{file}: {line}"));
                }
            }
        }
    }
    assert!(vague.is_empty(), "say what it is or does, in plain technical English:\n{}", vague.join("\n"));
}

/// A fuzz test begins with the inputs in `__fuzz__/NAME/corpus` beside it. Without a name of its own it would look for them
/// under the path of its module, and miss them once that changes.
#[test]
fn each_fuzz_test_has_kept_inputs_and_all_kept_inputs_have_one() {
    const CHECK: &str = concat!("bolero", "::check!(");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut wanted, mut kept) = (BTreeSet::new(), BTreeSet::new());
    for folder in SHORT.0 {
        for (file, text) in sources(folder) {
            let beside = root.join(folder).join(&file).with_file_name("__fuzz__");
            for check in text.split(CHECK).skip(1) {
                let name = check.strip_prefix("name = \"").and_then(|rest| rest.split('"').next());
                let name = name.unwrap_or_else(|| panic!("{folder}/{file}: a fuzz test without a name of its own"));
                assert!(wanted.insert(beside.join(name)), "{folder}/{file}: two fuzz tests are named {name}");
            }
            let names = fs::read_dir(&beside).into_iter().flatten().flatten();
            kept.extend(names.map(|name| name.path()));
        }
    }
    assert!(wanted.len() > 10, "{wanted:?}");
    assert_eq!(wanted, kept, "folders of kept inputs: what fuzz tests read, and what is there");
    for folder in kept {
        let inputs = fs::read_dir(folder.join("corpus")).into_iter().flatten().flatten();
        assert!(inputs.filter(|input| input.path().is_file()).count() > 0, "{} has no inputs", folder.display());
    }
}

#[test]
fn a_circle_that_is_planted_is_found() {
    let plant = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        let imports = Imports::of(&files);
        (imports.two_way_rooms(), imports.circles())
    };
    let lib = ("lib.rs", "pub mod chat;\npub mod turn;\n");
    let (turn, state) =
        (("turn/mod.rs", "mod state;\npub use state::State;\n"), ("turn/state.rs", "pub struct State;\n"));

    let (pairs, circles) =
        plant(&[lib, turn, ("turn/state.rs", "use crate::chat::Part;\n"), ("chat.rs", "struct Part;")]);
    assert!(pairs.is_empty() && circles.is_empty(), "one way is none");

    // Through a re-export, a group over two lines, a path in code, and not out of a comment or a test.
    let both =
        [("chat.rs", "use crate::{\n    turn::{State, Turn}};"), ("turn/state.rs", "fn f(_: crate::chat::Part) {}")];
    let (pairs, circles) = plant(&[lib, turn, both[0], both[1]]);
    assert_eq!(pairs, [("chat".to_owned(), "turn".to_owned())]);
    assert_eq!(circles, [["chat.rs".to_owned(), "turn/state.rs".to_owned()]]);
    let (pairs, _) = plant(&[lib, turn, both[1], ("chat.rs", "// use crate::turn::State;\n")]);
    assert!(pairs.is_empty());
    let test = ("chat.rs", "#[cfg(test)]\nmod tests {\n    use crate::turn::State;\n}\n");
    assert!(plant(&[lib, turn, both[1], test]).0.is_empty());
    assert!(plant(&[lib, turn, both[1], ("chat_tests.rs", "use crate::turn::State;")]).0.is_empty());

    // Inside one room it is a circle and no pair.
    let (pairs, circles) =
        plant(&[turn, state, ("turn/one.rs", "use super::two::Two;"), ("turn/two.rs", "use super::one::One;")]);
    assert!(pairs.is_empty());
    assert_eq!(circles, [["turn/one.rs".to_owned(), "turn/two.rs".to_owned()]]);
}

/// The sources below a folder of the repository, by their path below it.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut sources = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
                let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
                sources.insert(name, text);
            }
        }
    }
    assert!(!sources.is_empty(), "{folder} has no sources");
    sources
}

/// Which file of a package imports which.
struct Imports(BTreeMap<String, BTreeSet<String>>);

impl Imports {
    fn of(files: &BTreeMap<String, String>) -> Self {
        let files: BTreeMap<&str, String> = files
            .iter()
            .filter(|(file, _)| !is_test(file))
            .map(|(file, text)| (file.as_str(), product(text)))
            .collect();
        let modules: BTreeMap<Vec<String>, &str> = files.keys().map(|file| (module(file), *file)).collect();
        let exports: BTreeMap<&str, BTreeMap<String, Vec<String>>> =
            files.iter().map(|(file, text)| (*file, exported(file, text))).collect();
        let mut imports = BTreeMap::new();
        for (file, text) in &files {
            let targets = paths(text).into_iter().filter_map(|path| {
                let mut path = absolute(file, &path)?;
                // An item that a module re-exports is imported from where it is.
                for _ in 0..4 {
                    let (target, rest) = found(&modules, &path)?;
                    match rest.first().and_then(|name| exports.get(target)?.get(name)) {
                        Some(from) => path = from.clone(),
                        None => return Some(target.to_owned()),
                    }
                }
                None
            });
            imports.insert((*file).to_owned(), targets.filter(|target| target != file).collect());
        }
        Self(imports)
    }

    /// The rooms that import each other, each pair once.
    fn two_way_rooms(&self) -> Vec<(String, String)> {
        let edges = self.0.iter().flat_map(|(from, to)| to.iter().map(move |to| (room(from), room(to))));
        let edges: BTreeSet<(String, String)> = edges.collect();
        let is_back = |(one, other): &&(String, String)| one < other && edges.contains(&(other.clone(), one.clone()));
        edges.iter().filter(is_back).cloned().collect()
    }

    /// The files that reach themselves, those that reach each other together.
    fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.0.keys().map(|file| (file.as_str(), self.reach(file))).collect();
        let mut circles = BTreeSet::new();
        for (file, reach) in &reached {
            let circle: Vec<String> =
                reach.iter().filter(|other| reached[*other].contains(file)).map(|file| (*file).to_owned()).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    fn reach(&self, from: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = self.0[from].iter().map(String::as_str).collect();
        while let Some(file) = next.pop() {
            if reached.insert(file) {
                next.extend(self.0[file].iter().map(String::as_str));
            }
        }
        reached
    }
}

/// The room of a file: the first folder, or the file itself.
fn room(file: &str) -> String {
    file.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned()
}

fn is_test(file: &str) -> bool {
    let is_tests = |part: &str| part.trim_end_matches(".rs").ends_with("_tests");
    file.split('/').any(|part| is_tests(part) || part == "contract")
        || ["testing.rs", "fixture.rs", "contract.rs"].iter().any(|name| file.ends_with(name))
}

/// The module of a file, as a path from the root of its crate.
fn module(file: &str) -> Vec<String> {
    let mut parts: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// A text without its comments and without the tests in it.
fn product(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths of all `use` items of a text.
fn used(text: &str) -> Vec<String> {
    let mut used = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let before = rest[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_item = before.is_empty() || before == "pub" || (before.starts_with("pub(") && before.ends_with(')'));
        rest = &rest[at + "use ".len()..];
        if let Some(end) = rest.find(';').filter(|_| is_item) {
            expand("", &rest[..end], &mut used);
        }
    }
    used
}

/// The single paths of a tree of imports.
fn expand(before: &str, tree: &str, into: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let path: String = format!("{before}{path}").chars().filter(|letter| !letter.is_whitespace()).collect();
        return into.push(path);
    };
    let before = format!("{before}{}", &tree[..open]);
    let inner = tree.get(open + 1..tree.rfind('}').unwrap_or(tree.len())).unwrap_or_default();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, letter) in inner.char_indices() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ',' && depth == 0 {
            expand(&before, &inner[start..at], into);
            start = at + 1;
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&before, &inner[start..], into);
    }
}

/// The paths of a text that begin in its crate: imported, or written out in its code.
fn paths(text: &str) -> Vec<String> {
    let mut paths = used(text);
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let written = text.split(|letter: char| !is_path(letter)).map(|word| word.trim_end_matches(':'));
    paths.extend(written.filter(|word| word.matches("::").count() > 1).map(str::to_owned));
    paths.retain(|path| ["crate::", "super::", "self::"].iter().any(|start| path.starts_with(start)));
    paths
}

/// A path from the root of the crate; `None` for one of another crate.
fn absolute(file: &str, path: &str) -> Option<Vec<String>> {
    let mut parts = path.split("::").peekable();
    let mut from = module(file);
    match parts.peek()? {
        &"crate" => from.clear(),
        &"super" | &"self" => {}
        _ => return None,
    }
    while let Some(part @ ("crate" | "super" | "self")) = parts.peek().copied() {
        if part == "super" {
            from.pop();
        }
        parts.next();
    }
    from.extend(parts.map(str::to_owned));
    Some(from)
}

/// The file of the longest module a path begins with, and the rest of the path.
fn found<'f, 'p>(modules: &BTreeMap<Vec<String>, &'f str>, path: &'p [String]) -> Option<(&'f str, &'p [String])> {
    (0..=path.len()).rev().find_map(|length| Some((*modules.get(&path[..length])?, &path[length..])))
}

/// The re-exports of a module from its children: name, and path from the root of the crate.
fn exported(file: &str, text: &str) -> BTreeMap<String, Vec<String>> {
    let mut exported = BTreeMap::new();
    for path in used(text) {
        let parts: Vec<&str> = path.strip_prefix("self::").unwrap_or(&path).split("::").collect();
        if let [first, .., last] = parts.as_slice()
            && !matches!(*first, "crate" | "super" | "std")
        {
            let child: Vec<String> =
                module(file).into_iter().chain(parts.iter().map(|part| (*part).to_owned())).collect();
            exported.insert((*last).to_owned(), child);
        }
    }
    exported
}
