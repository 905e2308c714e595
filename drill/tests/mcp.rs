//! Tool servers that misbehave, one test for each fault: what its calls are told, what is left of the server, and what
//! the others notice. The server is the drill server in a process of its own; the supervisor is played by the test.
//!
//! Counts are exact. Times have a goal, named in the test, and a bound of three times as much, since the machine that
//! runs the tests has other work.

// Processes, descriptors and memory are read from /proc.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]
#![allow(clippy::print_stdout, reason = "the figures are shown by --nocapture")]

#[path = "mcp/house.rs"]
mod house;
#[path = "mcp/lines.rs"]
mod lines;
#[path = "mcp/lists.rs"]
mod lists;
#[path = "mcp/process.rs"]
mod process;
#[path = "mcp/results.rs"]
mod results;
#[path = "mcp/silence.rs"]
mod silence;
#[path = "mcp/starts.rs"]
mod starts;
