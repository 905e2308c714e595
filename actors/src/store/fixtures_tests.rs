//! Journals of every format there was, kept for ever: each is read by every store, and shows
//! the session it showed to the program that wrote it.
//!
//! `tests/fixtures/journals/format-N` holds the same sessions several times: `records.jsonl` as
//! `sessions export` prints them, `json` and `sqlite` as the stores of that program kept them,
//! and since format 4 `postgres.sql`, which makes the tables of that program and fills them.
//! `format-4-own` is a folder of journals with their sums (`json/own_tests.rs`).
//! A released format's files are never written again. `BOB_WRITE_JOURNALS=1` makes those of
//! today's format: `records.jsonl` from that of the format before and [`added`], if there is
//! none; the stores from that; `postgres.sql` where `BOB_TEST_POSTGRES` names a database.

use super::*;
use bob_messages::agent::Delegation;
use bob_messages::chat::{Asking, Delegated, GuardReason};
use bob_messages::ids::{ApprovalId, CallId, RecordId, ResumeToken, SessionId, TurnId};
use bob_messages::input::TurnInput;
use bob_messages::limits::Limits;
use bob_messages::replay;
use bob_messages::session_state::Session;
use bob_messages::skills::{ReselectCause, Reselected, SelectedSkills};
use bob_messages::store::{Append, AskedBelow, FORMAT, Fact, Part, Record, SessionFilter, latest};
use bob_messages::tools::CallTraits;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Set, the files of today's format are written.
const WRITE: &str = "BOB_WRITE_JOURNALS";

/// The session with a record of each kind.
const EVERY_KIND: &str = "Every_kind";

pub(super) fn is_writing() -> bool {
    std::env::var_os(WRITE).is_some()
}

/// How many messages the sessions keep that are read from a snapshot.
const MOST: usize = 1_000;

type Journals = BTreeMap<SessionId, Vec<Arc<Record>>>;

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/journals")
}

pub(super) fn folder_of(format: u32) -> PathBuf {
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
    let options =
        StoreOptions { take_over: false, owner_name: "bob (a fixture)".to_owned(), ..StoreOptions::default() };
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
pub(super) async fn write(store: &Arc<dyn SessionStore>, journals: &Journals) {
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
pub(super) async fn check(store: &Arc<dyn SessionStore>, journals: &Journals, what: &str) {
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

/// What the newest format may hold and the one before does not show.
fn added(input: &TurnInput) -> Vec<Fact> {
    let (call, turn) = (CallId::new("c1"), TurnId::new("t9"));
    let session = SessionId::parse("agents.helper").unwrap();
    let task = Delegation { session: session.clone(), input: input.clone() };
    let child = Asking { session, turn, token: ResumeToken::new("secret-2"), used: Delegated::default() };
    let child = AskedBelow { approval: ApprovalId::new("s-c1"), child, limits: Limits::default() };
    let question = ApprovalId::new("s-limit9");
    vec![
        Fact::SkillsReselected(Box::new(Reselected {
            causes: vec![ReselectCause::Steered, ReselectCause::ToolErrors],
            skills: SelectedSkills { budget_bytes: 4_000, ..SelectedSkills::default() },
        })),
        Fact::Intent { call: call.clone(), traits: CallTraits::default(), task: Some(Arc::new(task)) },
        Fact::Waits { call, what: "which?".into(), child: Some(Box::new(child)), server: None },
        Fact::LimitAsked { question: question.clone(), guard: GuardReason::MaxToolCalls },
        Fact::LimitDecided { question, goes_on: true },
    ]
}

/// The records of today's format: those of the one before, and what it [`added`].
fn begun() -> String {
    let mut journals = told(FORMAT - 1);
    let every_kind = journals.get_mut(&SessionId::parse(EVERY_KIND).unwrap()).unwrap();
    let input = |record: &Arc<Record>| match &record.fact {
        Fact::Input(input) => Some(Arc::clone(input)),
        _another_kind => None,
    };
    let input = every_kind.iter().find_map(input).unwrap();
    for fact in added(&input) {
        let last = every_kind.last().unwrap();
        let version = last.version + 1;
        every_kind.push(Arc::new(Record {
            id: RecordId::new(format!("1-{version}")),
            version,
            fact,
            ..Record::clone(last)
        }));
    }
    let newest = |record: &Arc<Record>| Record { format: FORMAT, ..Record::clone(record) };
    let lines = journals.values().flatten().map(|record| serde_json::to_string(&newest(record)).unwrap() + "\n");
    lines.collect()
}

#[test]
fn the_newest_journals_have_every_kind_of_fact() {
    let of = |record: &Arc<Record>| serde_json::to_value(&record.fact).unwrap()["kind"].as_str().unwrap().to_owned();
    let there: BTreeSet<String> = told(FORMAT).values().flatten().map(of).collect();
    let all: BTreeSet<String> = Fact::kinds().iter().map(|kind| (*kind).to_owned()).collect();
    assert_eq!(there, all, "a new kind of fact needs a new format, and journals of it");
}

/// Adds the paths of all keys below a value; those of the elements of a list are one.
fn keys(path: &str, value: &serde_json::Value, into: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => object.iter().for_each(|(key, value)| {
            let path = format!("{path}.{key}");
            keys(&path, value, into);
            into.insert(path);
        }),
        serde_json::Value::Array(list) => list.iter().for_each(|value| keys(&format!("{path}[]"), value, into)),
        _scalar => {}
    }
}

/// A field that records have, and their format had not, needs a new format: see the head of `format.rs`. Fields that are left
/// out while they are empty are noticed only if a record of the fixture has them.
#[test]
fn the_records_of_the_newest_format_have_the_keys_that_are_kept() {
    let mut there = BTreeSet::new();
    for record in told(FORMAT).values().flatten() {
        let record = serde_json::to_value(record).unwrap();
        keys(record["kind"].as_str().unwrap(), &record["body"], &mut there);
        there.extend(record.as_object().unwrap().keys().map(|key| format!("record.{key}")));
    }
    let text: String = there.iter().map(|path| format!("{path}\n")).collect();
    expect_test::expect_file![folder_of(FORMAT).join("keys.txt")].assert_eq(&text);
}

#[tokio::test]
async fn journals_of_every_format_are_read_and_gone_on_with_in_every_store() {
    if is_writing() {
        let records = folder_of(FORMAT).join("records.jsonl");
        if !records.exists() {
            fs::create_dir_all(folder_of(FORMAT)).unwrap();
            fs::write(records, begun()).unwrap();
        }
        for name in ON_DISK {
            let folder = folder_of(FORMAT).join(name);
            drop(fs::remove_dir_all(&folder));
            let store = open(name, &folder);
            write(&store, &told(FORMAT)).await;
            drop(store);
            drop(fs::remove_dir(folder.join("sessions.db-owners")));
            // Made for a store of a user, it would keep these out of the repository.
            drop(fs::remove_file(folder.join(".gitignore")));
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
