//! The drill server, driven over its pipes like by a client: its healthy behaviour, and each mode against its
//! description.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "drill/garbage.rs"]
mod garbage;
#[path = "drill/healthy.rs"]
mod healthy;
#[path = "drill/modes.rs"]
mod modes;
#[path = "drill/peer.rs"]
mod peer;
#[path = "drill/pipes.rs"]
mod pipes;
