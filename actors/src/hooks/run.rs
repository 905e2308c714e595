//! One run of a program: its input, its output, its end, within bounds.

use super::program::HookProgram;
use crate::child::{Child, ChildSpec, Exit, Ladder, Stdin, Stdout, Watcher};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many programs run at once; further ones wait for them.
const MOST_AT_ONCE: usize = 8;

/// How much one may say, in bytes.
pub(super) const MOST_SAID: usize = 64 * 1024;

/// How long its output is read on when it has ended and another process holds the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How one that took too long, or said too much, is ended.
const LADDER: Ladder =
    Ladder { after_eof: Duration::ZERO, after_term: Duration::from_secs(1), after_kill: Duration::from_secs(1) };

#[derive(Debug)]
pub(super) struct Runs {
    watcher: Watcher,
    places: Arc<Semaphore>,
}

enum Talked {
    Ended(Exit),
    TooMuch,
}

impl Runs {
    pub(super) fn new(watcher: Watcher) -> Self {
        Self { watcher, places: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }

    /// Runs the program with this input. Dropping the future kills its group.
    /// Errors: why it failed, without the values of its environment.
    pub(super) async fn run(&self, program: &HookProgram, input: Vec<u8>) -> Result<Vec<u8>, String> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|closed| closed.to_string())?;
        let spec = ChildSpec { stdin: Stdin::Piped, stdout: Stdout::Piped, ..program.command.clone() };
        let secrets = spec.secrets();
        let mut child = Child::spawn(spec, &self.watcher).map_err(|error| error.to_string())?;
        let (stdin, stdout) = (child.take_stdin(), child.take_stdout());
        let mut said = Vec::new();
        let talked = match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => {
                let talk = talk(&child, stdin, stdout, &input, &mut said);
                tokio::time::timeout(program.time_limit, talk).await
            }
            (_, _) => return Err("it has no pipes".to_owned()),
        };
        let why = match talked {
            Ok(Talked::Ended(Exit::Code(0))) => return Ok(said),
            Ok(Talked::Ended(exit)) => {
                let last = secrets.hidden_in(&child.last_output().await);
                return Err(if last.is_empty() {
                    format!("it {exit}")
                } else {
                    format!("it {exit}, last output: {last}")
                });
            }
            Ok(Talked::TooMuch) => format!("it said more than {MOST_SAID} bytes"),
            Err(_elapsed) => format!("it took longer than {} ms", program.time_limit.as_millis()),
        };
        end(child, place);
        Err(why)
    }
}

/// Ends a program in a task that holds its place, so that the caller need not wait.
fn end(mut child: Child, place: OwnedSemaphorePermit) {
    tokio::spawn(async move {
        child.stop(LADDER).await;
        drop(place);
    });
}

async fn talk(
    child: &Child,
    mut stdin: ChildStdin,
    mut stdout: ChildStdout,
    input: &[u8],
    said: &mut Vec<u8>,
) -> Talked {
    let write = async move {
        // A program need not read what it is told.
        let _closed = stdin.write_all(input).await;
    };
    let mut exit = child.exit_watch();
    let (mut is_written, mut is_read) = (false, false);
    tokio::pin!(write);
    let exit = loop {
        tokio::select! {
            biased;
            read = stdout.read_buf(said), if !is_read => match read {
                Ok(1..) if said.len() > MOST_SAID => return Talked::TooMuch,
                Ok(1..) => {}
                Ok(0) | Err(_) => is_read = true,
            },
            () = &mut write, if !is_written => is_written = true,
            exit = exit.exited() => break exit,
        }
    };
    let rest = async {
        while let Ok(1..) = stdout.read_buf(said).await {
            if said.len() > MOST_SAID {
                return;
            }
        }
    };
    if !is_read {
        let _held_by_another = tokio::time::timeout(LAST_WORDS, rest).await;
    }
    if said.len() > MOST_SAID { Talked::TooMuch } else { Talked::Ended(exit) }
}
