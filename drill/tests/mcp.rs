//! Misbehaving tool servers, one test for each fault: results of calls, cleanup of the server, and isolation of
//! others. The server is the drill server in a separate process; the test plays the supervisor.
//!
//! Counts are exact. Times have a goal, named in the test, and a limit of three times as much, without the time in which the
//! machine was too busy.

// Processes, descriptors and memory are read from /proc.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]
#![allow(clippy::print_stdout, reason = "the figures are shown by --nocapture")]

#[path = "mcp/fixture.rs"]
mod fixture;
#[path = "mcp/lines.rs"]
mod lines;
#[path = "mcp/lists.rs"]
mod lists;
#[path = "mcp/newest.rs"]
mod newest;
#[path = "mcp/process.rs"]
mod process;
#[path = "mcp/results.rs"]
mod results;
#[path = "mcp/silence.rs"]
mod silence;
#[path = "mcp/starts.rs"]
mod starts;
#[path = "../../tests/support/stopwatch.rs"]
mod stopwatch;
