//! One turn from a request to its outcome: real tools, a provider over HTTP, guards.
#![cfg(feature = "genai")]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "turn/answers.rs"]
mod answers;
#[path = "turn/failures.rs"]
mod failures;
#[path = "turn/guards.rs"]
mod guards;
#[path = "turn/panics.rs"]
mod panics;
#[path = "turn/tools.rs"]
mod tools;
