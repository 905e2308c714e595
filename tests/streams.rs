//! The events of a turn, as its reader and as sinks see them.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "streams/combined.rs"]
mod combined;
#[path = "streams/dropped.rs"]
mod dropped;
#[cfg(feature = "sqlite")]
#[path = "streams/moved.rs"]
mod moved;
#[path = "streams/order.rs"]
mod order;
#[path = "streams/paged.rs"]
mod paged;
#[cfg(feature = "genai")]
#[path = "streams/shown.rs"]
mod shown;
#[path = "streams/steer.rs"]
mod steer;
#[path = "streams/subscribe.rs"]
mod subscribe;
