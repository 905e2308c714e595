//! Telemetry as a program sees it: spans of `tracing` around and below its own, and spans at a receiver of OTLP.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that unwraps fails where it stands")]

#[path = "telemetry/callers.rs"]
mod callers;
#[path = "cli/home.rs"]
#[allow(dead_code, reason = "the tests of the commands use more of it")]
mod home;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/killed.rs"]
mod killed;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/receiver.rs"]
mod receiver;
mod support;
