//! Signals to the real binary, with real children: it ends in time, saves what it has, and leaves nobody behind.

#![cfg(all(feature = "genai", feature = "mcp", feature = "soak", feature = "sqlite"))]

mod support;

#[path = "signals/ends.rs"]
mod ends;
#[path = "signals/first.rs"]
mod first;
#[path = "signals/halts.rs"]
mod halts;
#[path = "servers/house.rs"]
#[allow(dead_code, reason = "the tests of tool servers use the rest")]
mod house;
#[path = "signals/kept.rs"]
mod kept;
#[path = "signals/keys.rs"]
mod keys;
#[path = "signals/readers.rs"]
mod readers;
