//! The drill server as a program of its own, for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(bob_actors::drill::serve(std::env::args().skip(1)))
}
