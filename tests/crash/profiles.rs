//! Every profile this is built with lets a panic be caught: nothing that dies could be started again otherwise.

#[test]
fn a9_a_panic_is_caught_in_every_profile() {
    const { assert!(cfg!(panic = "unwind")) };
    assert!(std::panic::catch_unwind(|| panic!("as told")).is_err());
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).expect("the manifest");
    let mut profiles = 0;
    for table in manifest.split("\n[").filter(|table| table.starts_with("profile.")) {
        let (name, keys) = table.split_once(']').expect("the name of a table");
        // Packages within a profile cannot choose, and tests always unwind.
        if name.contains(".package") || matches!(name, "profile.test" | "profile.bench") {
            continue;
        }
        assert!(keys.lines().any(|line| line.trim() == r#"panic = "unwind""#), "[{name}] does not say how it panics");
        profiles += 1;
    }
    assert!(profiles >= 2, "dev and release");
}
