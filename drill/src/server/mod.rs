//! A tool server for drills: it behaves, or misbehaves in one named way.
//!
//! It is a stdio server of the Model Context Protocol (revision 2025-11-25, or 2026-07-28) that a test or a soak starts as a child
//! process. It owns its stdin, its stdout and the log named on its command line, which the test reads afterwards. It
//! is deliberately written by hand on blocking reads and threads: it shares no code with the client under test, so an
//! error in one is not repeated in the other. It never reads a configuration, never opens a socket, and is never
//! offered to a model outside a drill.
//!
//! | file | owns |
//! |---|---|
//! | `arguments` | the command line |
//! | `protocol` | the format of lines |
//! | `requests` | request handling, and the healthy behaviour |
//! | `newest` | what differs in revision 2026-07-28 |
//! | `tasks` | its tasks |
//! | `listeners` | waiting calls and deliveries to them |
//! | `tools` | the tools and the pages of their list |
//! | `modes` | the ways to misbehave |
//! | `garbage` | garbage on stdout before a response |
//! | `log` | the event log for the test |

mod arguments;
mod garbage;
mod listeners;
mod log;
mod modes;
mod newest;
mod protocol;
mod requests;
mod tasks;
mod tools;

use std::io::{self, Write};

use arguments::Wish;
use requests::Server;

/// Runs the server on stdin and stdout until stdin ends, and returns the exit code: 2 for wrong arguments, else 0.
///
/// `arguments` excludes the program name; `--help` explains them. Several modes end the process differently (another
/// exit code, a signal, never), so this may not return. Call it once, before other threads are started: some modes
/// replace the process.
pub fn serve(arguments: impl IntoIterator<Item = String>) -> u8 {
    match arguments::read(arguments) {
        Wish::Print(text) => {
            // A reader that closes the pipe early is fine.
            let _nobody_reads = io::stdout().write_all(text.as_bytes());
            0
        }
        Wish::Refuse(text) => {
            complain(&text);
            2
        }
        Wish::Serve(options) => match Server::open(options) {
            Ok(server) => server.attend(),
            Err(text) => {
                complain(&text);
                2
            }
        },
    }
}

/// Writes to stderr, the only channel besides the protocol.
fn complain(text: &str) {
    // There is no channel left to report this.
    let _unheard = writeln!(io::stderr(), "drill-server: {text}");
}
