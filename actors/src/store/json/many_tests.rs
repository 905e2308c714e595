//! Very many sessions, and a very long one. How many and how long can be told, to measure.

use super::tests::{journals, store};
use super::{FileStore, StoreOptions};
use crate::store::contract::{many, record, session};
use crate::store::{SessionStore, line};
use bob_messages::store::{Append, FORMAT, Fact};
use std::sync::Arc;
use tempfile::TempDir;

#[tokio::test]
async fn s13_very_many_sessions_are_listed_page_by_page() {
    let folder = TempDir::new().unwrap();
    for index in 0..many::sessions() {
        let one = session(&format!("s{index}"));
        let mut journal = line::header(FORMAT, &one);
        journal.push(b'\n');
        // A listing reads no journal.
        std::fs::write(folder.path().join(super::name::of(&one)), journal).unwrap();
    }
    let store: Arc<dyn SessionStore> = FileStore::open(folder.path(), StoreOptions::default()).unwrap();
    eprintln!("{}", many::are_listed(&store).await);
}

#[test]
fn s13_a_very_long_session_is_loaded_and_appended_to_by_what_is_new() {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "test"), session("one"));
    let epoch = journals.claim(&one).unwrap().epoch;
    let batch = many::long(&one, epoch);
    assert_eq!(store(&journals, batch.clone()), Ok(batch.records.len() as u64));
    let size = std::fs::metadata(folder.path().join("one.jsonl")).unwrap().len();
    let before = many::resident();
    let began = std::time::Instant::now();
    let loaded = journals.load(&one).unwrap();
    let took = began.elapsed();
    let grown = many::resident().saturating_sub(before);
    assert_eq!(loaded, batch.records);
    eprintln!("a journal of {size} bytes: loaded in {took:?}, {grown} bytes more in memory");
    let next = record(&one, epoch, batch.records.len() as u64 + 1, "next");
    assert!(matches!(next.fact, Fact::Started { .. }));
    let expected_version = batch.records.len() as u64;
    let append = Append { session: one.clone(), epoch, expected_version, records: vec![next] };
    assert_eq!(store(&journals, append), Ok(expected_version + 1));
}
