//! Checks the layout described in ARCHITECTURE.md: dependencies between packages, and those of an embedding program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Dependencies of the program only: arguments, configuration files, a terminal, charts.
const OF_THE_PROGRAM: [&str; 16] = [
    "anstream",
    "bob-config",
    "clap",
    "clap_complete",
    "crossterm",
    "indicatif",
    "jiff",
    "maud",
    "plotters",
    "procfs",
    "pulldown-cmark",
    "ratatui",
    "rustyline",
    "textwrap",
    "toml",
    "tracing-subscriber",
];

#[test]
fn front_ends_name_the_library_and_nothing_below_it() {
    let mut found = Vec::new();
    let mut count = 0;
    for folder in ["bin/cli", "bin/config"] {
        for file in sources(&root().join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            let below = |line: &&str| {
                ["bob_actors::", "bob_messages::", "bob_supervisors::"].iter().any(|name| line.contains(name))
            };
            // Targets of log records are quoted; the drill server is a child of a soak and no front end.
            let lines =
                text.lines().filter(below).filter(|line| !line.contains("\"bob_") && !line.contains("::drill::"));
            found.extend(lines.map(|line| format!("{}: {}", file.display(), line.trim())));
            count += 1;
        }
    }
    assert!(count > 100, "only {count} files were read");
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn an_embedder_of_the_library_compiles_nothing_of_the_program() {
    let (library, program) = (listed("bob-agents", &["--all-features"]), listed("cli-agent", &["--all-features"]));
    let of = |list: &[String]| {
        OF_THE_PROGRAM.into_iter().filter(|name| list.iter().any(|other| other == name)).collect::<Vec<_>>()
    };
    assert_eq!(of(&program), OF_THE_PROGRAM, "a name here that the program does not have checks nothing");
    assert_eq!(of(&library), Vec::<&str>::new());
}

#[test]
fn a_build_compiles_no_more_packages_than_it_may() {
    let library = ["--no-default-features", "--features"];
    for (package, features, most) in [
        ("bob-agents", &[library[0]][..], 110),
        ("bob-agents", &[library[0], library[1], "genai,mcp,sqlite"][..], 200),
        ("cli-agent", &[][..], 330),
    ] {
        let names = BTreeSet::from_iter(tree(package, "normal,build", features));
        assert!(names.len() > 50 && names.len() <= most, "{package} {features:?}: {} of at most {most}", names.len());
    }
}

#[test]
fn nothing_of_a_database_client_is_compiled_unless_it_is_asked_for() {
    let has_it =
        |package: &str, features: &[&str]| listed(package, features).iter().any(|name| name == "tokio-postgres");
    for package in ["bob-actors", "bob-agents", "bob-config", "cli-agent"] {
        assert!(!has_it(package, &[]), "{package}");
        assert!(has_it(package, &["--features", "postgres"]), "{package}");
    }
    let of = |features: &[&str]| BTreeSet::from_iter(tree("bob-agents", "normal,build", features)).len();
    let more = of(&["--features", "postgres"]) - of(&[]);
    assert!((5..=25).contains(&more), "the feature costs {more} packages");
}

#[test]
fn nothing_of_signing_in_is_compiled_unless_it_is_asked_for() {
    for package in ["bob-actors", "bob-agents", "bob-config", "cli-agent"] {
        let has_it = |features: &[&str]| listed(package, features).iter().any(|name| name == "oauth2");
        assert!(!has_it(&[]) && has_it(&["--features", "oauth"]), "{package}");
    }
    let of = |features: &[&str]| BTreeSet::from_iter(tree("bob-agents", "normal,build", features)).len();
    let more = of(&["--features", "oauth"]) - of(&[]);
    assert!((5..=25).contains(&more), "the feature costs {more} packages");
}

#[test]
fn nothing_but_the_programs_soak_has_fault_injection() {
    let has_it = |package: &str, features: &[&str]| listed(package, features).iter().any(|name| name == "bob-drill");
    for package in ["bob-messages", "bob-actors", "bob-supervisors", "bob-agents", "bob-config"] {
        assert!(!has_it(package, &["--all-features"]), "{package}");
    }
    assert!(!has_it("cli-agent", &["--no-default-features", "--features", "genai,mcp,sqlite,skills,top,markdown"]));
    assert!(has_it("cli-agent", &[]), "`cli-agent soak` is part of what people install");
}

/// Otherwise each of its dependencies would be compiled a second time.
#[test]
fn the_workspace_outside_is_compiled_with_the_profiles_of_this_one() {
    let blocks = |manifest: &str| -> Vec<String> {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        text.split("\n\n").filter(|block| block.contains("[profile.dev")).map(without_comments).collect()
    };
    let (here, outside) = (blocks("Cargo.toml"), blocks("examples/embedding/Cargo.toml"));
    let strange: Vec<_> = outside.iter().filter(|block| !here.contains(block)).collect();
    assert!(
        !outside.is_empty() && strange.is_empty(),
        "not in the Cargo.toml of the library's workspace: {strange:#?}"
    );
    // The client of the database is none of the library's default features.
    let missing: Vec<_> =
        here.iter().filter(|block| !outside.contains(block) && !block.contains("postgres-protocol")).collect();
    assert!(missing.is_empty(), "not in examples/embedding/Cargo.toml: {missing:#?}");
}

fn without_comments(block: &str) -> String {
    block.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The packages that this one compiles, tests apart.
fn listed(package: &str, features: &[&str]) -> Vec<String> {
    tree(package, "normal", features).iter().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// The packages behind these kinds of dependencies, with their versions; one may be there several times.
fn tree(package: &str, kinds: &str, features: &[&str]) -> Vec<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--format", "{p}", "-e", kinds, "--prefix", "none", "-p", package])
        .args(features)
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).expect("names");
    text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files
}
