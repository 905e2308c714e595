//! A turn with skills: selection, size limits, limits of tools, restart; and the commands.
#![cfg(feature = "skills")]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "skills/again.rs"]
mod again;
#[path = "skills/commands.rs"]
mod commands;
#[path = "skills/git.rs"]
mod git;
#[path = "skills/turns.rs"]
mod turns;
