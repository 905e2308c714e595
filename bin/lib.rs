//! The facade for programs that embed the runtime, and the parts the `cli-agent` binary is made of.

pub mod assemble;
pub mod config;
pub mod facade;
pub mod sanitise;
