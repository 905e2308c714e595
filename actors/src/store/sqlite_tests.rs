//! The SQLite store keeps the contract, and its files survive what happens to files.

use super::*;
use crate::store::contract::{append, claim, session, store_one};
use tempfile::TempDir;

pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("sessions.db")
}

fn open_in(folder: &Path, options: StoreOptions) -> Arc<dyn SessionStore> {
    SqliteStore::open(&path(folder), options).unwrap()
}

pub(super) fn open(folder: &TempDir) -> Arc<dyn SessionStore> {
    open_in(folder.path(), StoreOptions::default())
}

/// Waits until a store that was dropped has closed its files: dropping it waits for a second at most.
pub(super) fn closed(folder: &Path) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let owners = || std::fs::read_dir(folder.join("sessions.db-owners")).map_or(0, Iterator::count);
    while path(folder).with_extension("db-wal").exists() || owners() > 0 {
        assert!(std::time::Instant::now() < end, "no owner is left, and the log was folded into the database");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn make() -> (Arc<dyn SessionStore>, TempDir) {
    let folder = TempDir::new().unwrap();
    (open(&folder), folder)
}

/// A store on a database that is not quite right.
pub(super) fn on(folder: &TempDir, prepare: impl FnOnce(&Database)) -> Arc<dyn SessionStore> {
    let database = Database::open(&path(folder.path())).unwrap();
    prepare(&database);
    SqliteStore::start(&path(folder.path()), StoreOptions::default(), Some(database)).unwrap()
}

fn examine(folder: &Path) {
    assert_eq!(Database::open(&path(folder)).unwrap().check(), "ok");
    let owners = std::fs::read_dir(folder.join("sessions.db-owners")).unwrap();
    assert!(owners.count() <= 1, "each writer swept what the one before it left");
}

crate::store_contract!(make);
crate::store_inbox_contract!(make);
crate::store_owners_contract!(open_in, examine);

#[tokio::test]
async fn g4_files_and_folders_are_the_users_own() {
    use std::os::unix::fs::PermissionsExt;
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("state").join("deep");
    let store = open_in(&folder, StoreOptions::default());
    store.load(&session("one")).await.unwrap();
    store.list(&SessionFilter::default(), None).await.unwrap();
    assert!(!store.delete(&session("one")).await.unwrap());
    assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0, "a store that only reads writes nothing");
    claim(&store, &session("one")).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let expected = if entry.file_type().unwrap().is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&entry.path()), expected, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort_unstable();
    assert_eq!(names, ["sessions.db", "sessions.db-owners", "sessions.db-shm", "sessions.db-wal"]);
    drop(store);
    closed(&folder);
    let left = std::fs::read_dir(folder.join("sessions.db-owners")).unwrap().count();
    assert_eq!(left, 0, "no owner is left");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "the log was folded into the database");
}

#[tokio::test]
async fn what_was_stored_is_there_when_the_store_is_opened_again() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let first = append(&one, claim(&store, &one).await, 0, 3);
    assert_eq!(store_one(&store, first.clone()).await, Ok(3));
    drop(store);
    let store = open(&folder);
    assert_eq!(store.load(&one).await, Ok(first.records.clone()));
    let claimed = store.claim(&one).await.unwrap();
    assert_eq!((claimed.epoch, claimed.version, claimed.records), (2, 3, first.records));
}

#[tokio::test]
async fn what_waits_is_committed_together() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder);
    let sessions: Vec<_> = (0..50).map(|index| session(&format!("s{index}"))).collect();
    for one in &sessions {
        claim(&store, one).await;
    }
    let before = commits(&folder);
    // Somebody else writes, so everything that is asked meanwhile waits.
    let other = Database::open(&path(folder.path())).unwrap();
    let held = other.write().unwrap();
    let appends: Vec<_> = sessions.iter().map(|one| store.append(vec![append(one, 1, 0, 1)])).collect();
    let mut answers = futures_util::future::join_all(appends);
    for _first_it_yields in 0..2 {
        assert!(futures_util::FutureExt::now_or_never(&mut answers).is_none());
        tokio::task::yield_now().await;
    }
    drop(held);
    assert!(answers.await.into_iter().flatten().all(|answer| answer == Ok(1)));
    // The first may have been taken up alone; the others were there when it ended.
    let more = commits(&folder) - before;
    assert!((1..=2).contains(&more), "{more} commits for 50 appends");
}

/// How many transactions were committed to the log since the database was opened.
fn commits(folder: &TempDir) -> usize {
    let log = std::fs::read(path(folder.path()).with_extension("db-wal")).unwrap();
    // Behind a header of 32 bytes each page has one of 24; its second word is not
    // zero in the last page of a commit.
    log.get(32..).unwrap_or_default().chunks_exact(24 + 4096).filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test]
async fn an_append_whose_asker_went_away_is_stored() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    let mut appending = store.append(vec![append(&one, epoch, 0, 1)]);
    // It yields before it begins.
    while futures_util::FutureExt::now_or_never(&mut appending).is_none() && store.load(&one).await.unwrap().is_empty()
    {
    }
    drop(appending);
    while store.load(&one).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_hundred_sessions_are_claimed_at_once() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder);
    let sessions: Vec<_> = (0..100).map(|index| session(&format!("s{index}"))).collect();
    let claims = futures_util::future::join_all(sessions.iter().map(|one| store.claim(one))).await;
    assert!(claims.iter().all(|claim| claim.as_ref().is_ok_and(|claim| claim.epoch == 1)));
}

#[test]
fn many_open_one_new_database_at_once() {
    let folder = TempDir::new().unwrap();
    std::thread::scope(|scope| {
        for _process in 0..8 {
            scope.spawn(|| Database::open(&path(folder.path())).unwrap().check());
        }
    });
}

#[tokio::test]
async fn an_owner_reads_nothing_before_the_last_snapshot() {
    let (store, _guard) = make();
    crate::store::contract::nothing_before_the_last_snapshot_is_read(store).await;
}

#[tokio::test]
async fn who_claims_a_session_waits_for_nobody_who_reads() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(&folder.path().join("sessions.db"), StoreOptions::default()).unwrap();
    let one = session("one");
    store.claim(&one).await.unwrap();
    // Every thread that loads is kept in the middle of it.
    let asks = &store.threads.as_ref().unwrap().asks;
    let (entered, has_entered) = std::sync::mpsc::channel();
    let mut go_on = Vec::new();
    for _ in 0..LOADERS {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let entered = entered.clone();
        let reply = Reply::to(move |_loaded| {
            entered.send(()).unwrap();
            let _ = held.recv();
        });
        asks.send(Ask::Load(one.clone(), Span::Whole, reply)).unwrap();
        go_on.push(release);
    }
    for _ in 0..LOADERS {
        has_entered.recv().unwrap();
    }
    let mut load = store.load(&one);
    for id in ["two", "one"] {
        assert!(store.claim_latest(&session(id)).await.is_ok(), "{id}");
    }
    assert!(futures_util::poll!(&mut load).is_pending(), "they are still in the middle of it");
    drop(go_on);
    assert_eq!(load.await, Ok(Vec::new()));
}

/// What is large is encoded by itself: nothing else of its batch, or behind it, waits for that.
#[test]
fn a_large_record_holds_no_other_session_up_while_it_is_encoded() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let folder = TempDir::new().unwrap();
        let (store, large, small) = (open(&folder), session("large"), session("small"));
        for one in [&large, &small] {
            claim(&store, one).await;
        }
        let mut much = append(&large, 1, 0, 1);
        let text = "x".repeat(300 * 1024);
        let fact =
            bob_messages::store::Fact::Malformed { text, complaint: String::new(), cost: Box::new(contract_cost()) };
        much.records = vec![Arc::new(Record { fact, ..much.records[0].as_ref().clone() })];
        // The only thread for such work is busy.
        let (free, busy) = channel::<()>();
        let blocked = tokio::task::spawn_blocking(move || busy.recv().is_err());
        let mut stored = store.append_apart(vec![much.clone(), append(&small, 1, 0, 1), append(&large, 1, 1, 1)]).await;
        assert!(matches!(stored[1], Stored::Now(Ok(1))), "{stored:?}");
        assert_eq!(store_one(&store, append(&small, 1, 1, 1)).await, Ok(2), "and goes on");
        let (last, first) = (stored.remove(2), stored.remove(0));
        let (Stored::Later(mut first), Stored::Later(last)) = (first, last) else { panic!("it is not encoded yet") };
        assert!(futures_util::FutureExt::now_or_never(&mut first).is_none());
        drop(free);
        assert!(blocked.await.unwrap());
        assert_eq!((first.await, last.await), (Some(Ok(1)), Some(Ok(2))), "in their order");
        assert_eq!(store.load(&large).await.unwrap()[0], much.records[0]);
    });
}

fn contract_cost() -> bob_messages::store::StepCost {
    bob_messages::store::StepCost {
        usage: None,
        prompt_bytes: 0,
        stop_reason: bob_messages::chat::StopReason::Stop,
        response_id: None,
        model: bob_messages::ids::ModelName::parse("scripted:m").unwrap(),
        latency_ms: 0,
        cost: None,
    }
}
