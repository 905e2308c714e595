//! Calls that need approval: decisions, their scope, and their lifetime across turns, sessions and processes.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "approvals/decide.rs"]
mod decide;
#[path = "approvals/fixture.rs"]
mod fixture;
#[path = "approvals/injection.rs"]
mod injection;
#[path = "approvals/outside.rs"]
mod outside;
#[path = "approvals/suites.rs"]
mod suites;
#[cfg(all(feature = "mcp", feature = "soak"))]
#[path = "approvals/unsaid.rs"]
mod unsaid;
