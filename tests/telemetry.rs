//! Telemetry as a program sees it: spans of `tracing` around and below its own, and spans at a receiver of OTLP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that unwraps fails where it stands, and one that was skipped says so"
)]

#[path = "telemetry/callers.rs"]
mod callers;
#[path = "cli/home.rs"]
#[allow(dead_code, reason = "the tests of the commands use more of it")]
mod home;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/killed.rs"]
mod killed;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/others.rs"]
mod others;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/receiver.rs"]
mod receiver;
mod support;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/unheard.rs"]
mod unheard;
