//! Signals to the real binary, with real children: it ends in time, saves its data, and leaves no process.

#![cfg(all(feature = "genai", feature = "mcp", feature = "soak", feature = "sqlite"))]

#[path = "signals/ends.rs"]
mod ends;
#[path = "signals/first.rs"]
mod first;
use crate::servers::fixture;
#[path = "signals/halts.rs"]
mod halts;
#[path = "signals/kept.rs"]
mod kept;
#[path = "signals/keys.rs"]
mod keys;
#[path = "signals/moments.rs"]
mod moments;
#[path = "signals/partial.rs"]
mod partial;
#[path = "signals/readers.rs"]
mod readers;
