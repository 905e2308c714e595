//! The race: the cost of a turn, measured like in other programs.
//!
//! One turn is a new session, one message of its user, three local tool calls and a final answer: four model calls,
//! four steps. It uses the public API of the runtime without subscribers; sessions are kept in memory unless
//! `--store=` is given. The answer and the calls are asserted. Each run prints one JSON line.
//!
//! ```text
//! cargo bench --bench race -- --mode=load --backend=mock --conc=64 --n=4000
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal that has nobody to tell of a failure but its reader"
)]

mod activate;
mod appends;
mod arguments;
mod cancel;
mod driver;
mod figures;
mod provider;
mod recover;
mod store;
#[path = "../../tests/support/mod.rs"]
mod support;
mod table;
mod turn;

use arguments::Arguments;
use std::io::Write;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let Some(arguments) = Arguments::given() else {
        // `cargo bench` says so; a test runner that builds this with the tests does not.
        return match std::env::args().any(|word| word == "--bench") {
            true => table::race(Arguments::number("rounds", 5), Arguments::number("percent", 100)),
            false => eprintln!("nothing is measured without --bench or --mode=; see {}", file!()),
        };
    };
    if arguments.mode == "provider" {
        return provider::serve();
    }
    let runtime = driver::runtime(&arguments);
    let (line, _workload) = runtime.block_on(async {
        match arguments.mode.as_str() {
            "activate" => return (activate::drive(&arguments).await, None),
            "appends" => return (appends::drive(&arguments).await, None),
            "cancel" => return (cancel::drive(&arguments).await, None),
            _ => {}
        }
        if arguments.mode == "recover" {
            return (recover::drive(&arguments).await, None);
        }
        let workload = turn::Workload::build(&arguments).await;
        // Kept until the process ends: otherwise the sessions would be dropped meanwhile.
        (driver::drive(arguments, workload.clone()).await, Some(workload))
    });
    println!("{line}");
    std::io::stdout().flush().unwrap();
    // Ending every session's actor is no part of a turn: the figures end here.
    std::process::exit(0);
}
