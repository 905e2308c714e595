//! A tool server for drills: it behaves, or misbehaves in one named way.
//!
//! It is a stdio server of the Model Context Protocol (revision 2025-11-25) that a test or a soak starts as a child
//! process. It owns its stdin, its stdout and the log that is named on its command line; the client under test talks to
//! it, and whoever runs the drill reads the log afterwards. It is written by hand on blocking reads and threads, on
//! purpose: it shares no code with the client it tests, so that a mistake of one is not repeated by the other. It never
//! reads a configuration, never opens a socket, and is never offered to a model outside a drill.
//!
//! | file | owns |
//! |---|---|
//! | `arguments` | the command line |
//! | `protocol` | the shape of lines |
//! | `requests` | who asked what, and what healthy means |
//! | `listeners` | calls that wait, and what they hear |
//! | `tools` | the tools and the pages they are listed in |
//! | `modes` | the ways to misbehave |
//! | `garbage` | what else may stand on stdout before an answer |
//! | `log` | what happened, for whoever runs the drill |

mod arguments;
mod garbage;
mod listeners;
mod log;
mod modes;
mod protocol;
mod requests;
mod tools;

use std::io::{self, Write};

use arguments::Wish;
use requests::Server;

/// Runs the server on stdin and stdout until stdin ends, and returns the exit code: 0, or 2 when the arguments are wrong.
///
/// `arguments` are those after the name of the program; `--help` explains them. Several modes leave the process in
/// another way (an exit code of their own, a signal, never), so this may not return. It must be called before other
/// threads are started, and once: it replaces the process in some modes.
pub fn serve(arguments: impl IntoIterator<Item = String>) -> u8 {
    match arguments::read(arguments) {
        Wish::Print(text) => {
            // Somebody who closes the pipe early has read enough.
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

/// Says something on stderr, which is all a server may use besides its protocol.
fn complain(text: &str) {
    // There is nobody else to tell.
    let _unheard = writeln!(io::stderr(), "drill-server: {text}");
}
