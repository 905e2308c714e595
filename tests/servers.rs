//! Tool servers: failures, crash loops, hangs, required ones, reloads, forms. Each test has real children, started by
//! the real binary or by a runtime in the test.

#![cfg(all(feature = "genai", feature = "mcp", feature = "soak"))]

#[path = "servers/brought.rs"]
mod brought;
#[path = "servers/brought_bounds.rs"]
mod brought_bounds;
#[path = "servers/brought_keys.rs"]
mod brought_keys;
#[path = "servers/cancels.rs"]
mod cancels;
#[path = "servers/crowds.rs"]
mod crowds;
#[path = "servers/deaths.rs"]
mod deaths;
#[path = "servers/ends.rs"]
mod ends;
#[path = "servers/fixture.rs"]
pub(crate) mod fixture;
#[path = "servers/interrupted.rs"]
mod interrupted;
#[path = "servers/isolated.rs"]
mod isolated;
#[path = "servers/library.rs"]
mod library;
#[path = "servers/lists.rs"]
mod lists;
#[path = "servers/reload.rs"]
mod reload;
#[path = "servers/starts.rs"]
mod starts;
#[path = "servers/tasks.rs"]
mod tasks;
