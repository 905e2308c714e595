//! Whoever dies in the middle of a turn: every caller gets one answer, and the next turn works.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

mod support;

#[path = "crash/house.rs"]
mod house;
#[path = "crash/rooms.rs"]
mod rooms;
#[path = "crash/saves.rs"]
mod saves;
#[path = "crash/turns.rs"]
mod turns;
