//! Replays of recorded turns: the fixtures, their journals, and the guarantees of the two ports of a tape.
//!
//! `BOB_RECORD_TAPES=1` records the scripted ones again before replaying them; see `scripts/record-fixtures.sh`.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]
#![cfg(all(feature = "mcp", feature = "soak"))]

#[path = "tapes/broken.rs"]
mod broken;
#[path = "tapes/fixtures.rs"]
mod fixtures;
#[path = "tapes/program.rs"]
mod program;
#[path = "tapes/scenes/mod.rs"]
mod scenes;
#[path = "tapes/stage.rs"]
mod stage;
#[path = "tapes/strict.rs"]
mod strict;
