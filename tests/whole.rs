//! All tests of the whole, in one program: linking one for each subject took longer than running it, and in one program
//! the tests of all subjects share the processors.
//!
//! `cargo test --test whole cli::` runs those of one subject. A test that measures the memory, the descriptors or the
//! children of its own process runs itself again alone ([`support::alone`]).

#[path = "cli/home.rs"]
mod home;
#[path = "support/pass_on.rs"]
mod pass_on;
mod support;

mod api;
mod approvals;
mod batch;
mod cancel;
mod cli;
mod context;
mod control;
mod crash;
mod events;
mod example;
mod faults;
mod layout;
mod local_model;
mod model_faults;
mod model_wire;
mod names;
mod real_provider;
mod scale;
mod secure;
mod servers;
mod sessions;
mod signals;
mod skills;
mod soak;
mod streams;
mod structured;
mod subagents;
mod support_tests;
mod tapes;
mod telemetry;
mod tenants;
mod tidy;
mod trust;
mod turn;
