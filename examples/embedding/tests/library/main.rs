//! The library as a program sees that depends on it alone: every port, with its contract suite, every method of the builder,
//! and a double of a runtime.

mod builder;
mod double;
mod ports;
mod readme;
mod suites;
mod turn;
