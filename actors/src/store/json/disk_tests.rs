//! Disks that fail, links that were swapped in, folders that went away.

use super::journals::Journals;
use super::lock::lock;
use super::tests::{journals, store};
use super::{FileStore, StoreOptions};
use crate::store::contract::{append, record, session};
use bob_messages::store::{Append, Fact, Formats, SessionFilter, StoreError};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// The next write fails after so many bytes.
fn fail_a_write(journals: &Journals, count: usize) {
    let mut watch = lock(&journals.disk.watch);
    (watch.is_next_write_failing, watch.bytes_of_a_failing_write) = (true, count);
}

#[test]
fn s4_an_append_whose_sync_failed_is_not_there_until_it_is_sent_again() {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "test"), session("one"));
    let epoch = journals.claim(&one).unwrap().epoch;
    assert_eq!(store(&journals, append(&one, epoch, 0, 1)), Ok(1));
    lock(&journals.disk.watch).is_next_sync_failing = true;
    let attempt = append(&one, epoch, 1, 2);
    assert!(matches!(store(&journals, attempt.clone()), Err(StoreError::InDoubt(text)) if text.contains("one.jsonl")));
    assert_eq!(journals.load(&one).unwrap().len(), 1, "what is not known to be on the disk is not told");
    assert_eq!(store(&journals, attempt.clone()), Ok(3));
    assert_eq!(store(&journals, attempt), Ok(3));
    assert_eq!(journals.load(&one).unwrap().len(), 3);
}

#[test]
fn s3_a_disk_that_is_full_at_any_byte_leaves_what_was_there() {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "test"), session("one"));
    let epoch = journals.claim(&one).unwrap().epoch;
    assert_eq!(store(&journals, append(&one, epoch, 0, 1)), Ok(1));
    let path = folder.path().join("one.jsonl");
    let before = std::fs::read(&path).unwrap();
    let attempt = append(&one, epoch, 1, 2);
    for count in 0..500 {
        fail_a_write(&journals, count);
        assert!(matches!(store(&journals, attempt.clone()), Err(StoreError::InDoubt(_))));
        assert_eq!(journals.load(&one).unwrap().len(), 1, "after {count} bytes");
        // Another process would take what is whole, and no more.
        let other = super::tests::journals(&folder, "other").load(&one).unwrap();
        assert!((1..=3).contains(&other.len()));
    }
    assert_eq!(store(&journals, append(&one, epoch, 1, 0)), Ok(1));
    assert_eq!(std::fs::read(&path).unwrap(), before, "nothing is left of them");
    assert_eq!(store(&journals, attempt), Ok(3));
    assert_eq!(journals.load(&one).unwrap().len(), 3);
}

#[test]
fn s3_a_claim_that_failed_can_be_made_again() {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "test"), session("one"));
    for count in 0..60 {
        fail_a_write(&journals, count);
        assert!(matches!(journals.claim(&one), Err(StoreError::InDoubt(_))));
        assert_eq!(journals.load(&one), Ok(Vec::new()));
    }
    assert_eq!(journals.claim(&one).unwrap().epoch, 1);
    lock(&journals.disk.watch).is_next_sync_failing = true;
    assert!(matches!(journals.claim(&one), Err(StoreError::InDoubt(_))));
    assert_eq!(store(&journals, append(&one, 1, 0, 1)), Ok(1), "the claim that failed is cut off");
}

#[test]
fn s4_a_batch_is_in_doubt_as_a_whole_and_says_so_to_each() {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "test"), session("one"));
    let epoch = journals.claim(&one).unwrap().epoch;
    lock(&journals.disk.watch).is_next_sync_failing = true;
    let batch = [append(&one, epoch, 0, 1), append(&one, epoch, 9, 1), append(&one, epoch, 1, 1)];
    let answers = journals.append(&one, &batch);
    assert!(matches!(
        answers.as_slice(),
        [Err(StoreError::InDoubt(_)), Err(StoreError::Conflict { version: 1 }), Err(StoreError::InDoubt(_))]
    ));
}

#[test]
fn s9_a_link_is_not_followed() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (journals, one) = (journals(&folder, "test"), session("one"));
    let (target, path) = (elsewhere.path().join("target"), folder.path().join("one.jsonl"));
    std::fs::write(&target, "precious").unwrap();
    symlink(&target, &path).unwrap();
    for answer in [journals.load(&one).map(drop), journals.claim(&one).map(drop)] {
        assert!(matches!(&answer, Err(StoreError::Unavailable(text)) if text.contains("one.jsonl")), "{answer:?}");
    }
    // Swapped in while the journal is open.
    std::fs::remove_file(&path).unwrap();
    let epoch = journals.claim(&one).unwrap().epoch;
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    symlink(&target, &path).unwrap();
    let answer = store(&journals, append(&one, epoch, 0, 1));
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn s9_what_is_no_file_is_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let journals = journals(&folder, "test");
    std::fs::create_dir(folder.path().join("one.jsonl")).unwrap();
    let pipe = folder.path().join("two.jsonl");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for id in ["one", "two"] {
        assert!(matches!(journals.load(&session(id)), Err(StoreError::Unavailable(_))), "{id}");
        assert!(matches!(journals.claim(&session(id)), Err(StoreError::Unavailable(_))), "{id}");
    }
}

#[test]
fn s9_a_folder_that_went_away_is_named() {
    let parent = TempDir::new().unwrap();
    let folder = TempDir::new_in(&parent).unwrap();
    let (journals, one) = (journals(&folder, "test"), session("one"));
    let epoch = journals.claim(&one).unwrap().epoch;
    std::fs::remove_dir_all(folder.path()).unwrap();
    let path = folder.path().join("one.jsonl").display().to_string();
    let append = store(&journals, append(&one, epoch, 0, 1));
    let claim = journals.claim(&session("two")).map(drop);
    assert!(matches!(&append, Err(StoreError::Unavailable(text)) if text.contains(&path)), "{append:?}");
    assert!(matches!(&claim, Err(StoreError::Unavailable(text)) if text.contains("two.jsonl")), "{claim:?}");
    assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0, "nothing was written elsewhere");
}

#[test]
fn s9_a_folder_that_cannot_be_made_is_named() {
    let options = StoreOptions::default();
    let refused = FileStore::open(Path::new("/proc/nowhere/sessions"), options).unwrap_err();
    assert!(refused.to_string().contains("/proc/nowhere/sessions"), "{refused}");
}

#[test]
fn s9_a_folder_in_which_nothing_can_be_made_is_named_and_still_read() {
    let folder = TempDir::new().unwrap();
    let mode =
        |mode| std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o500);
    // Who may do everything may write there as well; in /proc nobody makes files.
    let is_kept_out = std::fs::write(folder.path().join("probe"), "").is_err();
    for path in [Path::new("/proc/self"), folder.path()].into_iter().take(1 + usize::from(is_kept_out)) {
        let journals = super::tests::journals_of(path, "test", Formats::KNOWN);
        let claim = journals.claim(&session("one")).map(drop);
        let named = path.display().to_string();
        assert!(matches!(&claim, Err(StoreError::Unavailable(text)) if text.contains(&named)), "{claim:?}");
        assert_eq!(journals.load(&session("one")), Ok(Vec::new()));
        assert!(journals.list(&SessionFilter::default(), None).unwrap().sessions.is_empty());
    }
    mode(0o700);
}

#[test]
fn s9_a_folder_that_is_swapped_for_a_link_leads_nowhere_else() {
    let parent = TempDir::new().unwrap();
    let (path, moved, elsewhere) =
        (parent.path().join("sessions"), parent.path().join("moved"), parent.path().join("elsewhere"));
    let (journals, one) = (super::tests::journals_of(&path, "test", Formats::KNOWN), session("one"));
    let epoch = journals.claim(&one).unwrap().epoch;
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(store(&journals, append(&one, epoch, 0, 1)), Ok(1));
    assert_eq!(journals.claim(&session("X".repeat(128).as_str())).unwrap().epoch, 1);
    journals.release(&one, epoch);
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing was written elsewhere");
    assert_eq!(std::fs::read_dir(&moved).unwrap().count(), 5, "two journals, an owner, and which journals are own");
}

#[test]
fn a_record_that_could_not_be_read_back_is_not_written() {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "test"), session("one"));
    let epoch = journals.claim(&one).unwrap().epoch;
    let nested = |depth: usize| {
        let arguments = (0..depth).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
        let mut deep = record(&one, epoch, 1, &format!("deep{depth}")).as_ref().clone();
        deep.fact = Fact::ApprovalDecided {
            approval: bob_messages::ids::ApprovalId::new("a"),
            allowed: true,
            arguments: Some(Box::new(arguments)),
            reason: String::new(),
            scope: None,
        };
        Append { session: one.clone(), epoch, expected_version: 0, records: vec![Arc::new(deep)] }
    };
    let refused = store(&journals, nested(119));
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    assert_eq!(store(&journals, nested(118)), Ok(1));
    assert_eq!(journals.load(&one).unwrap().len(), 1);
}
