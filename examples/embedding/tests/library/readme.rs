//! The numbers of the table in `README.md` are those of the programs.

use std::collections::BTreeSet;
use std::fs;

/// Lines that are neither empty nor a comment.
fn lines(source: &str) -> usize {
    source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// The names of the library that a program imports.
fn concepts(source: &str) -> usize {
    let uses = source.split("\nuse bob::").skip(1).filter_map(|rest| rest.split_once(';'));
    let names = uses.flat_map(|(used, _)| used.split(['{', '}', ',']).map(str::trim));
    // What ends with `::` is a module, whose names follow.
    let names = names.filter(|name| !name.is_empty() && !name.ends_with("::"));
    names.map(|name| name.rsplit("::").next().unwrap_or(name)).collect::<BTreeSet<_>>().len()
}

#[test]
fn each_program_has_its_row_with_its_lines_and_concepts() {
    let here = env!("CARGO_MANIFEST_DIR");
    let page = fs::read_to_string(format!("{here}/README.md")).expect("the page");
    let mut programs = 0;
    for file in fs::read_dir(format!("{here}/src/bin")).expect("the programs") {
        let path = file.expect("a program").path();
        let (name, source) = (path.file_stem().expect("a name"), fs::read_to_string(&path).expect("its source"));
        let row = format!("| `{}` | {} | {} |", name.display(), lines(&source), concepts(&source));
        assert!(page.contains(&row), "README.md has other numbers than\n{row}");
        programs += 1;
    }
    assert_eq!(programs, 8);
}
