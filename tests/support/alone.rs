//! Tests that measure their own process.

#![allow(clippy::print_stdout, reason = "measurements are shown with --nocapture")]

use std::process::Command;

/// Set in the process that runs one test.
const ALONE: &str = "BOB_TEST_ALONE";

/// Runs a test again in a process in which no other test runs, since memory, descriptors and children are those of all
/// tests of a process. Returns what it printed, and `None` in that process, where the test measures.
#[track_caller]
pub(crate) fn alone(test: &str) -> Option<String> {
    if std::env::var_os(ALONE).is_some() {
        return None;
    }
    let this = std::env::current_exe().expect("this program");
    let ended = Command::new(this).args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    println!("{said}");
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains("test result: ok. 1 passed"), "there is one test of this name: {said}");
    Some(said)
}
