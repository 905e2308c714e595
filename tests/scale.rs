//! Several processes with one PostgreSQL, with the real binary. Each home is a machine: a folder and a configuration of
//! its own, and nothing in common but the database.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

mod support;

#[path = "scale/database.rs"]
mod database;
#[path = "cli/home.rs"]
#[allow(dead_code, reason = "these tests need a part of it")]
mod home;
#[path = "scale/owners.rs"]
mod owners;
#[path = "scale/refused.rs"]
mod refused;
#[path = "scale/works.rs"]
mod works;
