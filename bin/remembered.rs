//! What this user decided about tools for good: one line of JSON for each decision, in the user's own state folder.
//!
//! A decision holds for the folder of a configuration, a tool and its definition. The file is read once, when the runtime
//! is opened, and only ever added to; of two lines about the same the later one counts. Nobody waits for its writing but
//! the end of the process. A line nobody understands decides nothing.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bob::facade::{ApprovalMemory, Standing};
use bob_messages::ids::ToolName;
use serde::{Deserialize, Serialize};

use crate::{print, trust};

/// No memory is read beyond this, bytes; a real one has a few kilobytes.
const MOST_BYTES: u64 = 4 << 20;

/// The decisions for one configuration.
pub(crate) struct Remembered {
    file: PathBuf,
    /// Where the configuration is.
    folder: PathBuf,
    decided: Mutex<Vec<Arc<Standing>>>,
    /// What is being written.
    writing: Mutex<Vec<JoinHandle<()>>>,
}

/// One line.
#[derive(Serialize, Deserialize)]
struct Line {
    folder: PathBuf,
    decision: Standing,
}

impl Remembered {
    /// The decisions for configurations in this folder; `None` where there is no place for any. An absent file holds
    /// none; one that cannot be read holds none either, which asks again, and is told.
    pub(crate) fn open(config: &Path) -> Option<Arc<Self>> {
        let file = trust::state_folder().ok()?.join("approvals.jsonl");
        let folder = config.parent().unwrap_or(Path::new(".")).canonicalize().ok();
        let folder = folder.or_else(|| Path::new(".").canonicalize().ok())?;
        Some(Self::at(file, folder))
    }

    fn at(file: PathBuf, folder: PathBuf) -> Arc<Self> {
        let mut text = String::new();
        match OpenOptions::new()
            .read(true)
            .open(&file)
            .and_then(|opened| opened.take(MOST_BYTES).read_to_string(&mut text))
        {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                text.clear();
                let name = file.display();
                print::note(&format!("warning: cannot read {name}: {error}; what was decided there is asked again"));
            }
        }
        let mut decided = Vec::new();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        for line in lines.filter(|line| line.folder == folder) {
            Arc::new(line.decision).join(&mut decided);
        }
        Arc::new(Self { file, folder, decided: Mutex::new(decided), writing: Mutex::default() })
    }

    /// Waits until everything is written. Blocks.
    pub(crate) fn flush(&self) {
        let writing = std::mem::take(&mut *lock(&self.writing));
        for writer in writing {
            let _told_by_itself = writer.join();
        }
    }
}

impl ApprovalMemory for Remembered {
    fn recall(&self, tool: &ToolName) -> Vec<Arc<Standing>> {
        lock(&self.decided).iter().filter(|standing| standing.tool == *tool).cloned().collect()
    }

    fn keep(&self, standing: Arc<Standing>) {
        Arc::clone(&standing).join(&mut lock(&self.decided));
        let line = Line { folder: self.folder.clone(), decision: (*standing).clone() };
        let file = self.file.clone();
        let write = move || {
            if let Err(error) = append(&file, &line) {
                print::note(&format!("warning: the decision is not remembered: {}: {error}", file.display()));
            }
        };
        lock(&self.writing).push(thread::spawn(write));
    }
}

/// One write of one line, so that lines of several processes do not mix.
fn append(file: &Path, line: &Line) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn standing(tool: &str, definition: &str, allowed: bool) -> Arc<Standing> {
        Arc::new(Standing {
            tool: ToolName::new(tool),
            definition: definition.to_owned(),
            text: String::new(),
            arguments: None,
            allowed,
            reason: String::new(),
        })
    }

    #[test]
    fn what_is_decided_for_good_is_there_in_the_next_process_for_its_folder_and_user() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("state/bob/approvals.jsonl");
        let here = || Remembered::at(file.clone(), PathBuf::from("/here"));
        let first = here();
        first.keep(standing("a/b", "1", true));
        first.keep(standing("a/c", "1", true));
        first.flush();
        first.keep(standing("a/b", "2", false));
        assert_eq!(first.recall(&ToolName::new("a/b")), [standing("a/b", "2", false)], "at once, and the later counts");
        first.flush();
        assert_eq!(here().recall(&ToolName::new("a/b")), [standing("a/b", "2", false)]);
        assert_eq!(here().recall(&ToolName::new("a/c")), [standing("a/c", "1", true)]);
        assert!(Remembered::at(file.clone(), PathBuf::from("/there")).recall(&ToolName::new("a/b")).is_empty());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"folder\": 1}\nnonsense\n\0\n").unwrap();
        assert_eq!(here().recall(&ToolName::new("a/c")).len(), 1, "what is no decision decides nothing");
    }
}
