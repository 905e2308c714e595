//! Support for integration tests: fake model providers over loopback HTTP, temporary folders, programs that are run
//! and monitored, and terminals.
//!
//! Only `runtime` depends on a crate of this workspace: the providers are
//! written against the published wire formats.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod alone;
pub(crate) mod anthropic;
pub(crate) mod clean;
pub(crate) mod connection;
pub(crate) mod gemini;
pub(crate) mod openai;
pub(crate) mod plan;
pub(crate) mod program;
pub(crate) mod provider;
pub(crate) mod reply;
pub(crate) mod rules;
pub(crate) mod runtime;
pub(crate) mod scratch;
pub(crate) mod stopwatch;
pub(crate) mod stuck;
pub(crate) mod terminal;
