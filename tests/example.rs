//! The example in the repository is short, compiles and runs.

#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn embedding_takes_under_forty_lines_and_works() {
    let lines = include_str!("../examples/embed.rs").lines().count();
    assert!(lines < 40, "the example has {lines} lines");
    embed::main().expect("the example runs to its end");
}
