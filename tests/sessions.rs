//! What a session keeps, and what a request may ask of it.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

mod support;

#[path = "sessions/crowded.rs"]
mod crowded;
#[path = "sessions/kept.rs"]
mod kept;
#[path = "sessions/many.rs"]
mod many;
#[path = "sessions/refused.rs"]
mod refused;
