//! What whole-house tests stand on: model providers that answer over loopback HTTP from a script, a folder that
//! disappears, a program that is run and watched, and a person at a terminal.
//!
//! A test file says `mod support;` and takes what it needs. Only `runtime` knows a crate of this workspace: the providers
//! are written against the published wire formats, as somebody else's server would be.

#![allow(dead_code, reason = "each test file uses its own part")]

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
