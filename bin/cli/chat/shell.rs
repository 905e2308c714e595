//! `!command`: a command of the person, in the folder of the session. The model sees neither it nor its output.

use std::path::PathBuf;

use tokio::process::Command;

use super::Chat;
use crate::exit::Exit;
use crate::runtime::signals::{Caught, Signals};
use crate::terminal::print;

impl Chat {
    pub(super) fn working_folder(&self) -> PathBuf {
        self.cwd.as_ref().map_or_else(|| self.opened.workspace.clone(), PathBuf::from)
    }

    /// Runs a command with the terminal as its input and output, and waits for it. Ctrl-C reaches the command only.
    /// Returns an exit code if another signal ends the program.
    pub(super) async fn shell(&self, command: &str, signals: &mut Signals) -> Option<Exit> {
        if command.is_empty() {
            print::note("usage: !COMMAND runs it in the folder of the session; the model does not see it");
            return None;
        }
        let shell =
            Command::new("sh").args(["-c", command]).current_dir(self.working_folder()).kill_on_drop(true).spawn();
        let mut running = match shell {
            Ok(running) => running,
            Err(error) => {
                print::note(&format!("error: cannot run sh: {error}"));
                return None;
            }
        };
        loop {
            tokio::select! {
                ended = running.wait() => {
                    signals.forget_interrupts();
                    match ended {
                        Ok(status) if status.success() => {}
                        Ok(status) => print::note(&format!("[{status}]")),
                        Err(error) => print::note(&format!("error: {error}")),
                    }
                    return None;
                }
                caught = signals.next() => match caught {
                    Caught::Interrupt => signals.forget_interrupts(),
                    caught => return Some(caught.exit()),
                },
            }
        }
    }
}
