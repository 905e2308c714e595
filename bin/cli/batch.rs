//! `batch`: many turns of many sessions in one process.
//!
//! Owns the scheduling: how far to read ahead, when a line begins, where its result goes, and what signals do.
//!
//! - `input`, `line`: reads a bounded number of lines ahead
//! - `queue`: selects the next line
//! - `conductor`: the main loop; `stop`: early ends
//! - `one`: runs one line; `again`: outcomes already in the store, for `--finish`
//! - `outbox`: results to stdout; `progress`, `rate`, `tally`: output to stderr, and the exit code

mod again;
mod conductor;
mod input;
mod line;
mod one;
mod outbox;
mod progress;
mod queue;
mod rate;
mod stop;
mod tally;

use std::time::Duration;

use bob::approvals::{ApprovalsMode, PermissionMode};
use bob_config::Config;
use bob_config::assemble::Choices;

use crate::arguments::{BatchArgs, TapeArg};
use crate::commands::work::concurrency;
use crate::control::Control;
use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::origin::Origin;
use crate::runtime::signals::Signals;
use conductor::Conductor;
use input::Input;

pub(crate) struct Manner {
    concurrency: usize,
    /// Whether lines that have an outcome in the store are skipped.
    finish: bool,
    /// What running turns have to end by themselves in a shutdown.
    grace: Duration,
    /// No progress and no summary.
    is_quiet: bool,
    mode: Option<PermissionMode>,
    approvals: ApprovalsMode,
}

/// Runs all lines and prints their results. Errors: when no line could begin, because of the input, the configuration
/// or the model's provider. Later failures are reported line by line.
pub(crate) async fn batch(args: &BatchArgs, config: Config, origin: Origin) -> Result<Exit, Failure> {
    let mode = args.mode.chosen()?;
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let prepared = tokio::select! {
        prepared = prepare(args, &config) => prepared?,
        caught = signals.next() => return Err(Failure::signalled(caught.exit())),
    };
    let (opened, input) = prepared;
    let manner = Manner {
        concurrency: concurrency(args.concurrency, config.runtime.max_concurrent_turns),
        finish: args.finish,
        grace: Duration::from_millis(config.runtime.shutdown_grace_ms),
        is_quiet: args.quiet,
        mode,
        approvals: args.approvals.mode(),
    };
    let mut control = Control::open(&opened.runtime, &config, "batch", origin).await;
    let _attends = opened.attend();
    let result = Conductor::new(&opened, manner, input, &mut control).run(&mut signals).await;
    opened.close(&mut signals).await;
    control.close().await;
    result
}

/// Everything that can be refused before a line is read.
async fn prepare(args: &BatchArgs, config: &Config) -> Result<(OpenRuntime, Input), Failure> {
    let input = input::open(&args.file).await?;
    let tape = args.tape.as_ref().map(TapeArg::choice);
    let choices = Choices { progress: Some(crate::terminal::progress::to_stderr()), tape, ..Choices::default() };
    let opened = OpenRuntime::open(config, choices).await?;
    opened.check_model(&opened.default_model)?;
    Ok((opened, input))
}
