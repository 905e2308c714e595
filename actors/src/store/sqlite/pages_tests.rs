//! Databases and logs whose bytes were changed, cut or left behind by a kill.

use super::tests::{closed, open, path};
use super::*;
use crate::store::contract::{append, claim, many, session, store_one};
use std::fs;
use tempfile::TempDir;

/// How many bits are flipped; without it, [`FLIPS`].
const HOW_MANY: &str = "BOB_TEST_STORE_FLIPS";
const FLIPS: usize = 100;
const SESSIONS: usize = 20;

/// Sessions with twenty records each, and what they hold.
async fn written(folder: &TempDir) -> Vec<(SessionId, Vec<Arc<Record>>)> {
    let store = open(folder);
    let mut written = Vec::new();
    for index in 0..SESSIONS {
        let one = session(&format!("s{index}"));
        let epoch = claim(&store, &one).await;
        let twenty = append(&one, epoch, 0, 20);
        assert_eq!(store_one(&store, twenty.clone()).await, Ok(20));
        store.release(&one, epoch).await;
        written.push((one, twenty.records));
    }
    drop(store);
    closed(folder.path());
    written
}

/// A folder with this database. Each has one of its own, since a store that was dropped may not have closed its files yet.
fn copied(database: &[u8]) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(path(folder.path()), database).unwrap();
    folder
}

/// Opens a damaged database and reads every session: each is as it was written, or an
/// error. How many are errors; all of them where the database is refused as a whole.
async fn check(damaged: &[u8], written: &[(SessionId, Vec<Arc<Record>>)], what: &str) -> usize {
    let folder = copied(damaged);
    let Ok(store) = SqliteStore::open(&path(folder.path()), StoreOptions::default()) else { return written.len() };
    let mut refused = 0;
    for (one, records) in written {
        match store.load(one).await {
            Ok(loaded) => assert!(loaded == *records, "{what}: {one} has {} other records", loaded.len()),
            Err(StoreError::Corrupt(_) | StoreError::Unavailable(_) | StoreError::TooNew { .. }) => refused += 1,
            Err(other) => panic!("{what}: {other}"),
        }
    }
    // A claim of what does not read begins nothing anew.
    let (one, records) = &written[3];
    if let Ok(claimed) = store.claim(one).await {
        assert!(claimed.records == *records, "{what}: {one} is claimed with other records");
    }
    refused
}

#[tokio::test]
async fn s2_s11_any_damaged_page_is_an_error_and_never_a_panic_or_another_story() {
    let folder = TempDir::new().unwrap();
    let written = written(&folder).await;
    let whole = fs::read(path(folder.path())).unwrap();
    for at in (0..whole.len()).step_by(2003) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        check(&damaged, &written, &format!("byte {at}")).await;
    }
}

#[tokio::test]
async fn s2_any_flipped_bit_of_a_database_is_noticed_or_harmless() {
    let folder = TempDir::new().unwrap();
    let written = written(&folder).await;
    let whole = fs::read(path(folder.path())).unwrap();
    let flips = std::env::var(HOW_MANY).map_or(FLIPS, |flips| flips.parse().unwrap());
    let mut chance = fastrand::Rng::with_seed(11);
    let (mut noticed, mut others) = (0, 0);
    for _flip in 0..flips {
        let bit = chance.usize(..whole.len() * 8);
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let refused = check(&damaged, &written, &format!("bit {} of byte {}", bit % 8, bit / 8)).await;
        noticed += usize::from(refused > 0);
        others += usize::from(refused == 1);
    }
    assert!(noticed * 4 > flips, "{noticed} of {flips} flips were noticed");
    assert!(others * 2 > noticed, "{others} of {noticed} noticed flips concern one session alone");
}

#[tokio::test]
async fn s5_s11_a_log_left_behind_and_cut_at_any_byte_loads_a_true_prefix_and_goes_on() {
    let alive = TempDir::new().unwrap();
    let (store, one) = (open(&alive), session("one"));
    let epoch = claim(&store, &one).await;
    let mut records = Vec::new();
    for version in 0..6 {
        let next = append(&one, epoch, version, 1);
        records.extend(next.records.clone());
        assert_eq!(store_one(&store, next).await, Ok(version + 1));
    }
    // What a kill would leave: the store still has them open.
    let wal = |folder: &TempDir| path(folder.path()).with_extension("db-wal");
    let (database, log) = (fs::read(path(alive.path())).unwrap(), fs::read(wal(&alive)).unwrap());
    // Each page of the log has a header of 24 bytes, the log one of 32.
    let edges = (0..).map(|page| 32 + page * (24 + 4096)).take_while(|edge| *edge <= log.len());
    let near = edges.flat_map(|edge| [edge - 1, edge, (edge + 1).min(log.len())]);
    let mut cuts: Vec<_> = near.chain((0..log.len()).step_by(1511)).chain([log.len()]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut longest = 0;
    for (index, cut) in cuts.iter().enumerate() {
        let killed = copied(&database);
        fs::write(wal(&killed), &log[..*cut]).unwrap();
        let store = open(&killed);
        let loaded = store.load(&one).await.unwrap();
        assert!(records.starts_with(&loaded), "cut at {cut}");
        assert!(loaded.len() >= longest, "cut at {cut}: a longer log has no fewer records");
        longest = loaded.len();
        if index % 5 == 0 || *cut == log.len() {
            let claimed = store.claim(&one).await.unwrap();
            assert_eq!(claimed.records, loaded, "cut at {cut}");
            let next = append(&one, claimed.epoch, claimed.version, 1);
            assert_eq!(store_one(&store, next).await, Ok(claimed.version + 1));
        }
    }
    assert_eq!(longest, records.len(), "a log that is whole loses nothing");
}

#[tokio::test]
async fn s2_a_session_hidden_by_a_damaged_index_does_not_begin_anew() {
    let folder = TempDir::new().unwrap();
    let written = written(&folder).await;
    let whole = fs::read(path(folder.path())).unwrap();
    // The ids stand in the table and in its index; both copies are tried.
    let ids: Vec<_> = whole.windows(3).enumerate().filter(|(_, bytes)| *bytes == b"s13").map(|(at, _)| at).collect();
    let mut hidden = 0;
    for at in ids {
        let mut damaged = whole.clone();
        damaged[at + 2] = b'x';
        let folder = copied(&damaged);
        let store = open(&folder);
        let (one, records) = &written[13];
        match store.claim(one).await {
            Ok(claimed) => assert_eq!(claimed.records, *records, "byte {at}"),
            Err(StoreError::Corrupt(_)) => hidden += 1,
            Err(other) => panic!("byte {at}: {other}"),
        }
        let (other, records) = &written[4];
        assert_eq!(store.load(other).await.as_ref(), Ok(records), "byte {at}: the others are read");
    }
    assert!(hidden > 0, "an id was hidden");
}

#[tokio::test]
async fn s2_a_damaged_list_of_sessions_is_found_beside_the_first_turn_and_then_begins_nothing() {
    let folder = TempDir::new().unwrap();
    written(&folder).await;
    let whole = fs::read(path(folder.path())).unwrap();
    // In the table or in its index: either way they disagree from then on.
    let at = whole.windows(3).position(|bytes| bytes == b"s13").unwrap();
    let mut damaged = whole;
    damaged[at + 2] = b'x';
    fs::write(path(folder.path()), &damaged).unwrap();
    let store = open(&folder);
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    for number in 0.. {
        match store.claim(&session(&format!("new{number}"))).await {
            // Nobody waits for the look at all of them.
            Ok(claimed) => assert_eq!(claimed.epoch, 1),
            Err(StoreError::Corrupt(text)) => {
                assert!(text.contains("list of sessions"), "{text}");
                break;
            }
            Err(other) => panic!("{other}"),
        }
        assert!(std::time::Instant::now() < limit, "it is found");
    }
    assert_eq!(store.load(&session("s4")).await.unwrap().len(), 20, "what is there is read");
}

#[tokio::test]
async fn s13_very_many_sessions_are_listed_page_by_page() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder);
    claim(&store, &session("s0")).await;
    drop(store);
    let more = format!(
        "WITH RECURSIVE counted(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < {})
         INSERT INTO sessions (id, epoch, version, bytes, updated_at) SELECT 's' || n, 1, 0, 0, n FROM counted",
        many::sessions()
    );
    let store = super::tests::on(&folder, |database| database.tamper(&more));
    eprintln!("{}", many::are_listed(&store).await);
    let began = std::time::Instant::now();
    claim(&store, &session("new")).await;
    eprintln!("the first new session among them began in {:?}", began.elapsed());
}

#[tokio::test]
async fn s13_a_very_long_session_is_loaded_and_appended_to_by_what_is_new() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    let batch = many::long(&one, epoch);
    let version = batch.records.len() as u64;
    assert_eq!(store_one(&store, batch.clone()).await, Ok(version));
    let (before, began) = (many::resident(), std::time::Instant::now());
    let loaded = store.load(&one).await.unwrap();
    let (took, grown) = (began.elapsed(), many::resident().saturating_sub(before));
    assert_eq!(loaded, batch.records);
    eprintln!("a session of {version} records: loaded in {took:?}, {grown} bytes more in memory");
    assert_eq!(store_one(&store, append(&one, epoch, version, 1)).await, Ok(version + 1));
}
