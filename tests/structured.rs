//! Answers that must fit a schema: by the library and by the program.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "structured/answers.rs"]
mod answers;
#[path = "structured/commands.rs"]
mod commands;
