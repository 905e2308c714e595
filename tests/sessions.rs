//! Contents of sessions, and validation of requests.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "sessions/agents.rs"]
mod agents;
#[path = "sessions/answers.rs"]
mod answers;
#[path = "sessions/artifacts.rs"]
mod artifacts;
#[path = "sessions/crowded.rs"]
mod crowded;
#[path = "sessions/held.rs"]
mod held;
#[path = "sessions/inbox.rs"]
mod inbox;
#[path = "sessions/kept.rs"]
mod kept;
#[path = "sessions/lease.rs"]
mod lease;
#[path = "sessions/many.rs"]
mod many;
#[path = "sessions/messages.rs"]
mod messages;
#[path = "sessions/outside.rs"]
mod outside;
#[path = "sessions/pools.rs"]
mod pools;
#[path = "sessions/refused.rs"]
mod refused;
#[path = "sessions/workers.rs"]
mod workers;
