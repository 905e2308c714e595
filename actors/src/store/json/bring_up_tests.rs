//! Journals of an older format are rewritten by a claim: wholly or not at all.

use super::journals::Journals;
use super::lock::lock;
use super::tests::{journals, journals_of, store};
use super::watch::Step as Done;
use crate::store::contract::{append, record, session};
use crate::store::line;
use bob_messages::ids::SessionId;
use bob_messages::store::{FORMAT, Formats, Record, Step, StoreError};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Records of format 0, which there never was, said `begun` where today's say `started`.
pub(in crate::store) fn zero_to_one(record: &mut serde_json::Value) -> Result<(), String> {
    if record["kind"] == "begun" {
        record["kind"] = "started".into();
    }
    Ok(())
}

pub(in crate::store) const FROM_ZERO: Formats =
    Formats::new(0, &[Step::Changes(zero_to_one), Step::Adds, Step::Adds, Step::Adds]);

/// A record's line as a program of format 0 wrote it, with its own sum.
pub(in crate::store) fn line_of_zero(record: &Record) -> Vec<u8> {
    let mut json = serde_json::to_value(record).unwrap();
    (json["format"], json["kind"]) = (0.into(), "begun".into());
    let body = json.to_string();
    let mut sum = blake3::Hasher::new();
    sum.update(b"record:").update(body.as_bytes());
    format!("{{\"sum\":\"{}\",\"record\":{body}}}\n", &sum.finalize().to_hex().as_str()[..16]).into_bytes()
}

fn path(folder: &Path) -> PathBuf {
    folder.join("one.jsonl")
}

/// A journal of format 0 with these records, and what a torn write left behind it.
fn old(folder: &Path, torn: &[u8]) -> (SessionId, Vec<Arc<Record>>) {
    let one = session("one");
    let records: Vec<_> = (1..=5).map(|version| record(&one, 1, version, "r")).collect();
    let mut bytes = line::header(0, &one);
    bytes.push(b'\n');
    line::write_claim(
        &mut bytes,
        &line::ClaimLine { epoch: 3, owner: "zero".into(), lock: "gone.owner".into(), own: String::new() },
    );
    records.iter().for_each(|record| bytes.extend(line_of_zero(record)));
    bytes.extend_from_slice(torn);
    fs::write(path(folder), bytes).unwrap();
    // As they are read: the step to format 1 was the last that changed them.
    let read = records.iter().map(|record| Arc::new(Record { format: 1, ..record.as_ref().clone() }));
    (one, read.collect())
}

fn from_zero(folder: &Path) -> Journals {
    journals_of(folder, "test", FROM_ZERO)
}

#[test]
fn s14_an_older_journal_is_read_as_it_is_and_rewritten_by_a_claim() {
    for torn in [&b""[..], b"{\"sum\":\"01"] {
        let folder = TempDir::new().unwrap();
        let (one, records) = old(folder.path(), torn);
        let before = fs::read(path(folder.path())).unwrap();
        let journals = from_zero(folder.path());
        assert_eq!(journals.load(&one).unwrap(), records);
        assert_eq!(fs::read(path(folder.path())).unwrap(), before, "reading changes nothing");
        assert!(
            matches!(store(&journals, append(&one, 3, 5, 1)), Err(StoreError::Fenced { epoch: 3 })),
            "nothing of today's goes into a file of an older format"
        );
        let claim = journals.claim(&one).unwrap();
        assert_eq!((claim.epoch, claim.version, &claim.records), (4, 5, &records));
        assert_eq!(store(&journals, append(&one, 4, 5, 2)), Ok(7));
        let text = fs::read_to_string(path(folder.path())).unwrap();
        assert!(text.starts_with(&format!("{{\"bob_journal\":{FORMAT},")) && !text.contains("begun"), "{text}");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            4,
            "the journal, the lock, and which journals are own"
        );
        drop(journals);
        // A program that knows no format 0 reads it now.
        let today = super::tests::journals(&folder, "today");
        assert_eq!(today.load(&one).unwrap().len(), 7);
        assert_eq!(today.claim(&one).unwrap().epoch, 5);
    }
}

#[test]
fn whichever_step_on_the_disk_fails_the_journal_is_the_old_one_or_the_new_one() {
    let unharmed = TempDir::new().unwrap();
    let (one, records) = old(unharmed.path(), b"");
    let journals = from_zero(unharmed.path());
    journals.claim(&one).unwrap();
    let steps = std::mem::take(&mut lock(&journals.disk.watch).steps);
    let at = |is: fn(&Done) -> bool| steps.iter().position(is).expect("it was done");
    let (written, synced) = (at(|step| matches!(step, Done::Write(..))), at(|step| matches!(step, Done::Sync(_))));
    let replaced = at(|step| matches!(step, Done::Replace(..)));
    let named = steps.iter().rposition(|step| matches!(step, Done::SyncNames)).unwrap();
    assert!(written < synced && synced < replaced && replaced < named, "{steps:?}");
    let claimed = steps.iter().rposition(|step| matches!(step, Done::Write(..))).unwrap();
    assert!(named < claimed, "nothing is written behind a name that may be lost");
    for nth in 1..=steps.len() {
        for bytes in [0, 100, usize::MAX] {
            let folder = TempDir::new().unwrap();
            old(folder.path(), b"");
            let before = fs::read(path(folder.path())).unwrap();
            let journals = from_zero(folder.path());
            {
                let mut watch = lock(&journals.disk.watch);
                (watch.fails, watch.bytes_of_a_failing_write) = (Some((nth, Errno::NOSPC)), bytes);
            }
            let refused = journals.claim(&one).unwrap_err();
            assert!(matches!(refused, StoreError::Unavailable(_) | StoreError::InDoubt(_)), "step {nth}: {refused}");
            // As a kill there would have left it, too.
            let left = fs::read(path(folder.path())).unwrap();
            assert!(
                left == before || left.starts_with(format!("{{\"bob_journal\":{FORMAT},").as_bytes()),
                "step {nth}"
            );
            assert_eq!(from_zero(folder.path()).load(&one).unwrap(), records, "step {nth}");
            let claim = journals.claim(&one).unwrap();
            assert_eq!((claim.version, &claim.records), (5, &records), "step {nth}: it is done at the next try");
            assert!(!folder.path().join("one.jsonl.new").exists(), "step {nth}");
            let watch = lock(&journals.disk.watch);
            let last = |is: fn(&Done) -> bool| {
                watch.steps.iter().enumerate().rposition(|(at, step)| at + 1 != nth && is(step)).expect("it was done")
            };
            let (replaced, named) =
                (last(|step| matches!(step, Done::Replace(..))), last(|step| matches!(step, Done::SyncNames)));
            assert!(
                replaced < named && named < last(|step| matches!(step, Done::Write(..))),
                "step {nth}: {:?}",
                watch.steps
            );
        }
    }
}

#[test]
fn what_a_kill_left_beside_a_journal_is_not_read_and_goes_with_the_session() {
    let folder = TempDir::new().unwrap();
    let (one, records) = old(folder.path(), b"");
    fs::write(folder.path().join("one.jsonl.new"), "{\"bob_journal\":4,\"sess").unwrap();
    let journals = from_zero(folder.path());
    let page = journals.list(&Default::default(), None).unwrap();
    assert_eq!((page.sessions.len(), page.quarantined.len()), (1, 0));
    assert_eq!(journals.load(&one).unwrap(), records);
    assert_eq!(journals.delete(&one), Ok(true));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "the lock, and which journals are own");
}

#[test]
fn a_journal_whose_owner_is_a_living_older_program_is_left_to_it() {
    let folder = TempDir::new().unwrap();
    let (one, _) = old(folder.path(), b"");
    let journals = from_zero(folder.path());
    journals.claim(&session("other")).unwrap();
    // It came behind us, and knows nothing of a folder's lock.
    let file = fs::File::create(folder.path().join("gone.owner")).unwrap();
    file.lock().unwrap();
    let before = fs::read(path(folder.path())).unwrap();
    let busy = Err(StoreError::Busy { owner: "zero, an older program".to_owned() });
    assert_eq!(journals.claim(&one), busy);
    assert_eq!(journals.delete(&one).map(drop), busy.clone().map(drop));
    assert_eq!(fs::read(path(folder.path())).unwrap(), before);
    drop(file);
    assert_eq!(journals.claim(&one).unwrap().epoch, 4);
}

#[test]
fn s14_a_fact_that_is_not_known_makes_a_journal_too_new_and_leaves_it_alone() {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "test"), session("one"));
    let epoch = journals.claim(&one).unwrap().epoch;
    assert_eq!(store(&journals, append(&one, epoch, 0, 1)), Ok(1));
    let mut json = serde_json::to_value(&*record(&one, epoch, 2, "r")).unwrap();
    json["kind"] = "what_ever_comes".into();
    let (body, mut sum) = (json.to_string(), blake3::Hasher::new());
    sum.update(b"record:").update(body.as_bytes());
    let line = format!("{{\"sum\":\"{}\",\"record\":{body}}}\n", &sum.finalize().to_hex().as_str()[..16]);
    let mut bytes = fs::read(path(folder.path())).unwrap();
    bytes.extend(line.into_bytes());
    fs::write(path(folder.path()), &bytes).unwrap();
    let too_new = StoreError::TooNew { found: 5, known: 4 };
    assert_eq!(journals.load(&one), Err(too_new.clone()));
    assert_eq!(journals.claim(&one), Err(too_new));
    assert_eq!(fs::read(path(folder.path())).unwrap(), bytes);
    assert!(!folder.path().join("one.jsonl.corrupt-1").exists());
}
