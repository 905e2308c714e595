//! A process that is killed while it writes.

use super::tests::{journals, store};
use crate::store::contract::{append, session};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where the writing process finds its folder; only there it is set.
const FOLDER: &str = "BOB_TEST_JOURNAL_FOLDER";
const NAME: &str = "store::json::kill_tests::what_was_acknowledged_survives_a_kill_at_any_time";
const SESSIONS: u64 = 4;

/// The life of the process that is killed: it tells each append that was answered.
fn write_until_killed(folder: PathBuf) {
    let journals =
        super::Journals::new(super::Folder::open(&folder).unwrap(), false, format!("writer {}", std::process::id()));
    let mut owned: Vec<_> = (0..SESSIONS)
        .map(|index| {
            let one = session(&format!("s{index}"));
            let claim = journals.claim(&one).unwrap();
            (one, claim.epoch, claim.version)
        })
        .collect();
    let mut told = std::io::stdout();
    loop {
        for (one, epoch, version) in &mut owned {
            *version = store(&journals, append(one, *epoch, *version, 3)).unwrap();
            writeln!(told, "\nstored {one} {version}").unwrap();
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_at_any_time() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_until_killed(folder.into());
    }
    let folder = TempDir::new().unwrap();
    let mut acknowledged: HashMap<String, usize> = HashMap::new();
    for round in 0..25 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The first answer shows that it writes; then it has some moments left.
        let left = Duration::from_micros(fastrand::u64(0..20_000));
        let mut deadline = None;
        for line in lines.by_ref() {
            if let Some((one, version)) = line.strip_prefix("stored ").and_then(|told| told.split_once(' ')) {
                acknowledged.insert(one.to_owned(), version.parse().unwrap());
                if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + left) {
                    break;
                }
            }
        }
        writer.kill().unwrap();
        for line in lines {
            if let Some((one, version)) = line.strip_prefix("stored ").and_then(|told| told.split_once(' ')) {
                acknowledged.insert(one.to_owned(), version.parse().unwrap());
            }
        }
        writer.wait().unwrap();
        assert!(deadline.is_some(), "the writer wrote in round {round}");
        let journals = journals(&folder, "reader");
        for (one, version) in &acknowledged {
            let loaded = journals.load(&session(one)).unwrap().len();
            assert!((*version..=version + 3).contains(&loaded), "round {round}: {one} has {loaded} of {version}");
        }
    }
    let left = std::fs::read_dir(folder.path()).unwrap();
    let owners = left.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "owner"));
    assert!(owners.count() <= 1, "each writer swept what the one before it left");
}
