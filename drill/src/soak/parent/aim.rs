//! Chooses when a kill hits the worker: a third at the scheduled time, a third around the next write to the journals,
//! and a third around the next side effect. Crash bugs lie within milliseconds of those.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::soak::plan::Plan;

/// How long to wait for a write; a worker that writes nothing is killed at this time.
const WRITES_WITHIN: Duration = Duration::from_secs(2);

const LOOK_EVERY: Duration = Duration::from_micros(200);

/// A kill is delayed by up to this many microseconds after the write, so that it hits within it or after it.
const JOURNAL_US: u64 = 4_000;
const EFFECT_US: u64 = 6_000;

/// Waits for the instant at which this kill hits.
pub(super) fn wait(plan: &Plan, pick: u64) {
    let (files, most_us) = match pick % 3 {
        0 => return,
        1 => (journals(&plan.store_path()), JOURNAL_US),
        _ => (vec![plan.effects_path()], EFFECT_US),
    };
    let before = written(&files);
    let until = Instant::now() + WRITES_WITHIN;
    while written(&files) == before && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    std::thread::sleep(Duration::from_micros((pick >> 8) % most_us));
}

/// The files that appends go to: a database and its log, or the journals of a folder.
fn journals(store: &Path) -> Vec<PathBuf> {
    match fs::read_dir(store) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_a_database) => {
            let mut log = store.as_os_str().to_owned();
            log.push("-wal");
            vec![store.to_owned(), log.into()]
        }
    }
}

/// How long the files are, and when they were written to last.
fn written(files: &[PathBuf]) -> Vec<Option<(u64, SystemTime)>> {
    let look = |file: &PathBuf| {
        let metadata = fs::metadata(file).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    files.iter().map(look).collect()
}
