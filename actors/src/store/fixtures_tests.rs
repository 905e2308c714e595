//! Journals of every format there was, kept for ever: each is read by every store, and shows
//! the session it showed to the program that wrote it.
//!
//! `tests/fixtures/journals/format-N` holds the same sessions three times: `records.jsonl` as
//! `sessions export` prints them, `json` and `sqlite` as the stores of that program kept them.
//! A released format's files are never written again. `BOB_WRITE_JOURNALS=1` makes the two
//! stores of today's format from its `records.jsonl`.

use super::*;
use bob_messages::ids::SessionId;
use bob_messages::replay;
use bob_messages::session_state::Session;
use bob_messages::store::{Append, FORMAT, Part, Record, SessionFilter, latest};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Set, the stores of today's format are written.
const WRITE: &str = "BOB_WRITE_JOURNALS";

/// How many messages the sessions keep that are read from a snapshot.
const MOST: usize = 1_000;

type Journals = BTreeMap<SessionId, Vec<Arc<Record>>>;

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/journals")
}

fn folder_of(format: u32) -> PathBuf {
    fixtures().join(format!("format-{format}"))
}

/// What the journals of a format tell, as text that people read.
pub(super) fn told(format: u32) -> Journals {
    let text = fs::read_to_string(folder_of(format).join("records.jsonl")).unwrap();
    replay::read(text.lines()).unwrap()
}

/// A copy of what a store of this format wrote, since a claim brings it up to date.
pub(super) fn copied(format: u32, store: &str) -> TempDir {
    let copy = TempDir::new().unwrap();
    for file in fs::read_dir(folder_of(format).join(store)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    copy
}

fn open(store: &str, folder: &Path) -> Arc<dyn SessionStore> {
    let options = StoreOptions { take_over: false, owner_name: "bob (a fixture)".to_owned() };
    match store {
        "json" => FileStore::open(folder, options).unwrap(),
        #[cfg(feature = "sqlite")]
        "sqlite" => SqliteStore::open(&folder.join("sessions.db"), options).unwrap(),
        other => panic!("{other} keeps nothing on a disk"),
    }
}

const ON_DISK: &[&str] = &[
    "json",
    #[cfg(feature = "sqlite")]
    "sqlite",
];

/// Stores journals as their owner would have: the first half of each under one epoch, the
/// rest under the next. What is appended is released.
async fn write(store: &Arc<dyn SessionStore>, journals: &Journals) {
    for (session, records) in journals {
        for part in records.chunks(records.len().div_ceil(2)) {
            let claim = store.claim(session).await.unwrap();
            let (epoch, expected_version) = (claim.epoch, claim.version);
            let append = Append { session: session.clone(), epoch, expected_version, records: part.to_vec() };
            assert!(store.append(vec![append]).await.remove(0).is_ok());
            store.release(session, epoch).await;
        }
    }
}

/// That a store holds these sessions, to be read and to be gone on with.
async fn check(store: &Arc<dyn SessionStore>, journals: &Journals, what: &str) {
    let page = store.list(&SessionFilter { limit: 1_000, ..SessionFilter::default() }, None).await.unwrap();
    let listed: BTreeSet<_> = page.sessions.iter().map(|summary| summary.session.clone()).collect();
    assert_eq!(listed, journals.keys().cloned().collect(), "{what}");
    assert!(page.quarantined.is_empty(), "{what}: {:?}", page.quarantined);
    for (session, expected) in journals {
        let fold = |records: &[Arc<Record>]| Session::fold(session.clone(), records);
        let loaded = store.load(session).await.unwrap_or_else(|error| panic!("{what}: {session}: {error}"));
        assert!(loaded == *expected, "{what}: {session} is loaded with other records");
        assert_eq!(fold(&loaded), fold(expected), "{what}: {session}");
        let newest = store.load_part(session, Part::Latest).await.unwrap();
        assert_eq!(newest, latest(expected), "{what}: {session} from its last snapshot on");
        let from = Session::fold_latest(session.clone(), Some(MOST), &newest);
        assert!(from == Some(Session::fold_keeping(session.clone(), MOST, expected)), "{what}: {session} is another");
        let claim = store.claim(session).await.unwrap_or_else(|error| panic!("{what}: {session}: {error}"));
        assert!(claim.records == *expected, "{what}: {session} is claimed with other records");
        let next = contract::append(session, claim.epoch, claim.version, 1);
        let records = [claim.records, next.records.clone()].concat();
        assert_eq!(store.append(vec![next]).await, [Ok(claim.version + 1)], "{what}: {session} goes on");
        assert!(store.load(session).await.unwrap() == records, "{what}: {session} has gone on");
        store.release(session, claim.epoch).await;
    }
}

#[tokio::test]
async fn journals_of_every_format_are_read_and_gone_on_with_in_every_store() {
    if std::env::var_os(WRITE).is_some() {
        for name in ON_DISK {
            let folder = folder_of(FORMAT).join(name);
            drop(fs::remove_dir_all(&folder));
            let store = open(name, &folder);
            write(&store, &told(FORMAT)).await;
            drop(store);
            drop(fs::remove_dir(folder.join("sessions.db-owners")));
        }
    }
    for format in 1..=FORMAT {
        let journals = told(format);
        for name in ON_DISK {
            let folder = copied(format, name);
            check(&open(name, folder.path()), &journals, &format!("format {format}, {name}")).await;
            // Opened again, what was appended is there, too.
            let (store, mut more) = (open(name, folder.path()), Journals::new());
            for (session, records) in &journals {
                more.insert(session.clone(), store.load(session).await.unwrap());
                assert_eq!(more[session].len(), records.len() + 1, "format {format}, {name}: {session}");
            }
            check(&store, &more, &format!("format {format}, {name}, opened again")).await;
        }
        let memory: Arc<dyn SessionStore> = MemoryStore::new();
        write(&memory, &journals).await;
        check(&memory, &journals, &format!("format {format}, memory")).await;
    }
}
