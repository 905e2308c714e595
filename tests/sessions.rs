//! What a session keeps, and what a request may ask of it.

mod support;

#[path = "sessions/kept.rs"]
mod kept;
#[path = "sessions/many.rs"]
mod many;
#[path = "sessions/refused.rs"]
mod refused;
