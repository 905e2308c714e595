//! The examples in the repository compile and run.

#[path = "../examples/embed.rs"]
mod embed;
#[path = "../examples/tenants.rs"]
mod tenants;

#[test]
fn embedding_takes_under_forty_lines_and_works() {
    let lines = include_str!("../examples/embed.rs").lines().count();
    assert!(lines < 40, "the example has {lines} lines");
    embed::main().expect("the example runs to its end");
}

#[test]
fn two_tenants_share_a_runtime() {
    tenants::main().expect("the example runs to its end");
}
