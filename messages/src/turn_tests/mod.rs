//! Tests of the machine as a whole: stories, properties, and the simulation, with the worlds they run in.

mod below;
mod below_asks;
mod bills;
mod chance;
mod clock;
mod condense_asked;
mod decisions;
mod drained;
mod ended;
mod guards;
mod internal_errors;
mod interrupted;
mod layers;
mod notices;
mod outside;
mod owners;
mod pairing;
mod recovery;
mod replies;
mod resume;
mod simulation;
mod sizes;
pub(crate) mod stories;
mod tasks;
mod told;
mod tree;
pub(crate) mod world;
