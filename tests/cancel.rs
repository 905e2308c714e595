//! Cancel is stop: from every wait, at any moment, once.

mod support;

#[path = "cancel/races.rs"]
mod races;
#[path = "cancel/shutdown.rs"]
mod shutdown;
#[path = "cancel/waits.rs"]
mod waits;
