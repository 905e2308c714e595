//! `soak`: connects the package `bob-drill` with signals, streams and exit codes.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::Ordering;

use bob::Runtime;
use bob_config::Config;
use bob_drill::soak::{self, Soak, SoakArgs, SoakError};

use crate::control::Control;
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::terminal::print;

/// Runs a worker: started by `soak` as its child.
pub(crate) async fn worker(folder: PathBuf) -> Result<Exit, Failure> {
    let show = async |runtime: &Runtime, config: &Config| Control::show(runtime, config, "soak").await;
    soak::worker(folder, show).await?;
    Ok(Exit::Success)
}

/// Runs a soak and prints the verdict.
/// Errors: when the run could not begin or be observed. A failed verdict is not an error.
pub(crate) async fn soak(args: &SoakArgs, config: &Path) -> Result<Exit, Failure> {
    if args.list_chaos {
        print::text(&soak::list_chaos())?;
        return Ok(Exit::Success);
    }
    let soak = Soak::new(args, config)?;
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let stop = soak.stop();
    let mut run = pin!(soak.run(print::note));
    let judged = tokio::select! {
        judged = &mut run => judged,
        _caught = signals.next() => {
            print::note("the soak was stopped; what ran so far is checked");
            stop.store(true, Ordering::Relaxed);
            // A signal that is not waited for ends the program, so the next one is waited for as well.
            tokio::select! {
                judged = &mut run => judged,
                caught = signals.next() => return Ok(caught.exit()),
            }
        }
    }?;
    print::text(&judged.table())?;
    judged.write(args)?;
    let exit = if judged.passes() { Exit::Success } else { Exit::Failed };
    if let Some(folder) = judged.keep(args) {
        print::note(&format!("its files are kept in {}", folder.display()));
    }
    Ok(exit)
}

impl From<SoakError> for Failure {
    fn from(error: SoakError) -> Self {
        match error {
            SoakError::Usage(message) => Self::usage(message),
            SoakError::Config(error) => error.into(),
            SoakError::Agent(error) => error.into(),
            SoakError::Internal(message) => Self::internal(message),
        }
    }
}
