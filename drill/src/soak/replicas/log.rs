//! The acknowledgement log of several workers: the parent's own reports, and every line of the workers.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::soak::chaos::Kind;
use crate::soak::wire::{Line, Report};

/// The log. Clones share one file.
#[derive(Clone)]
pub(super) struct Log(Arc<Mutex<State>>);

struct State {
    file: BufWriter<File>,
    failed: Option<io::Error>,
    /// When each worker was started, until it is ready.
    starting: HashMap<String, Instant>,
    starts_ms: Vec<u64>,
}

impl Log {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let (file, starting) = (BufWriter::new(File::create(path)?), HashMap::new());
        Ok(Self(Arc::new(Mutex::new(State { file, failed: None, starting, starts_ms: Vec::new() }))))
    }

    pub(super) fn tell(&self, told: Report) {
        if let Ok(line) = serde_json::to_string(&Line { at: now_ms(), told }) {
            self.write(&line);
        }
    }

    pub(super) fn fault(&self, kind: Kind, target: String) {
        self.tell(Report::Fault { kind, target, sessions: Vec::new() });
    }

    pub(super) fn started(&self, who: String) {
        self.state().starting.insert(who, Instant::now());
    }

    /// Writes a line of a worker down. One that a kill cut is no line. Says whether the worker is ready.
    pub(super) fn heard(&self, who: &str, text: &str) -> bool {
        let Ok(Line { told, .. }) = serde_json::from_str::<Line>(text) else { return false };
        self.write(text);
        let is_ready = matches!(told, Report::Ready { .. });
        if is_ready {
            let mut state = self.state();
            if let Some(since) = state.starting.remove(who) {
                let ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                state.starts_ms.push(ms);
            }
        }
        is_ready
    }

    /// From the start of each process to its `ready`.
    pub(super) fn starts_ms(&self) -> Vec<u64> {
        self.state().starts_ms.clone()
    }

    pub(super) fn close(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        state.file.flush()?;
        state.file.get_ref().sync_data()
    }

    fn write(&self, line: &str) {
        let mut state = self.state();
        let written = state.file.write_all(line.as_bytes()).and_then(|()| state.file.write_all(b"\n"));
        if let Err(error) = written {
            state.failed = Some(error);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since the epoch, as the workers' lines have them.
pub(super) fn now_ms() -> u64 {
    u64::try_from(bob_actors::clock::now()).unwrap_or(0)
}
