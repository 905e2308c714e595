//! The drill server as a program of its own, for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    ExitCode::from(bob_drill::server::serve(arguments))
}
