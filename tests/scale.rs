//! Several processes with one PostgreSQL, with the real binary. Each home is a machine: a folder and a configuration of
//! its own, and nothing in common but the database.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "scale/artifacts.rs"]
mod artifacts;
#[path = "scale/attended.rs"]
mod attended;
#[path = "scale/database.rs"]
pub(crate) mod database;
#[path = "scale/owners.rs"]
mod owners;
#[path = "scale/pools.rs"]
mod pools;
#[path = "scale/refused.rs"]
mod refused;
#[path = "scale/tls.rs"]
mod tls;
#[path = "scale/waits.rs"]
mod waits;
#[path = "scale/workers.rs"]
mod workers;
#[path = "scale/works.rs"]
mod works;
