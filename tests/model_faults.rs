//! Faulty providers over real sockets: streams cut and chopped anywhere, endless bodies, refusals, silence, outages;
//! and their effect on a turn, a session and a process.
#![cfg(feature = "genai")]
#![allow(clippy::unwrap_used, reason = "these are tests, their helpers included")]
#![allow(clippy::print_stdout, reason = "figures are printed for whoever asks with --nocapture")]

#[path = "model_faults/begun.rs"]
mod begun;
#[path = "model_faults/bodies.rs"]
mod bodies;
#[path = "model_faults/chunkings.rs"]
mod chunkings;
use crate::model_wire::client;
#[path = "model_faults/cuts.rs"]
mod cuts;
#[path = "model_faults/fuzz.rs"]
mod fuzz;
#[path = "model_faults/laws.rs"]
mod laws;
#[path = "model_faults/naive.rs"]
mod naive;
#[path = "model_faults/oddities.rs"]
mod oddities;
#[path = "model_faults/processes.rs"]
mod processes;
#[path = "model_faults/recordings.rs"]
mod recordings;
#[path = "model_faults/shapes.rs"]
mod shapes;
#[path = "model_faults/turns.rs"]
mod turns;
#[path = "model_faults/work.rs"]
mod work;
