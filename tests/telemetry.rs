//! Telemetry as a program sees it: spans of `tracing` around and below its own, and spans at a receiver of OTLP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that unwraps fails where it stands, and one that was skipped says so"
)]

#[path = "telemetry/callers.rs"]
mod callers;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/killed.rs"]
mod killed;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/others.rs"]
mod others;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/receiver.rs"]
mod receiver;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/table.rs"]
mod table;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/unheard.rs"]
mod unheard;
#[cfg(all(feature = "otel", feature = "soak"))]
#[path = "telemetry/unsampled.rs"]
mod unsampled;
