//! Cancel is stop: from every wait, at any moment, once.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "cancel/handed_over.rs"]
mod handed_over;
#[path = "cancel/races.rs"]
mod races;
#[path = "cancel/shutdown.rs"]
mod shutdown;
#[path = "cancel/states.rs"]
mod states;
#[path = "cancel/times.rs"]
mod times;
#[path = "cancel/waits.rs"]
mod waits;
