//! Actors fail during a turn: every caller gets one answer, and the next turn works.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "crash/blocked.rs"]
mod blocked;
#[path = "crash/edges.rs"]
mod edges;
#[path = "crash/facade.rs"]
mod facade;
#[path = "crash/fixture.rs"]
mod fixture;
#[path = "crash/profiles.rs"]
mod profiles;
#[path = "crash/rooms.rs"]
mod rooms;
#[path = "crash/saves.rs"]
mod saves;
#[path = "crash/turns.rs"]
mod turns;
