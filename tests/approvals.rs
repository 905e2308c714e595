//! Calls that need a person: who decides, what a decision is bound to, and what of it outlives a turn, a session, a process.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

mod support;

#[path = "approvals/decide.rs"]
mod decide;
#[path = "approvals/house.rs"]
mod house;
#[path = "approvals/injection.rs"]
mod injection;
#[path = "approvals/outside.rs"]
mod outside;
#[path = "approvals/suites.rs"]
mod suites;
#[cfg(all(feature = "mcp", feature = "soak"))]
#[path = "approvals/unsaid.rs"]
mod unsaid;
