//! The drill server, driven over its pipes as a client would: what it does when it behaves, and that each way to
//! misbehave is what its line says.

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
