//! The library as a program sees that depends on it alone: every port, with its contract suite, every method of the builder,
//! telemetry, and a double of a runtime.

mod builder;
mod double;
mod interface;
mod ports;
mod readme;
mod suites;
mod telemetry;
mod turn;
