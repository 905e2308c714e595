//! Answers that must fit a schema: by the library and by the program.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[allow(dead_code, reason = "shared with the tests of the commands")]
#[path = "cli/home.rs"]
mod home;
mod support;

#[path = "structured/answers.rs"]
mod answers;
#[path = "structured/commands.rs"]
mod commands;
