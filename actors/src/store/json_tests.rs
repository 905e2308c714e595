//! The file store keeps the contract, and its files survive what happens to files.

use super::*;
use crate::store::contract::{append, session};
use tempfile::TempDir;

pub(super) fn open(folder: &TempDir, owner: &str) -> Arc<FileStore> {
    let options = StoreOptions { take_over: false, owner_name: owner.to_owned(), ..StoreOptions::default() };
    FileStore::open(folder.path(), options).unwrap()
}

fn make() -> (Arc<dyn SessionStore>, TempDir) {
    let folder = TempDir::new().unwrap();
    (open(&folder, "test"), folder)
}

crate::store_contract!(make);
crate::store_inbox_contract!(make);

/// The journals of a folder, to be used on this thread.
pub(super) fn journals(folder: &TempDir, owner: &str) -> Journals {
    journals_of(folder.path(), owner, Formats::KNOWN)
}

/// The same, for a program that knows these formats.
pub(super) fn journals_of(folder: &Path, owner: &str, formats: Formats) -> Journals {
    let options = StoreOptions { take_over: false, owner_name: owner.to_owned(), ..StoreOptions::default() };
    Journals::new(Folder::open(folder).unwrap(), options, formats, None)
}

/// Stores one append.
pub(super) fn store(journals: &Journals, append: Append) -> Result<u64, StoreError> {
    let session = append.session.clone();
    journals.append(&session, &[append]).remove(0)
}

#[tokio::test]
async fn a_journal_can_be_read_by_people() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder, "bob in the tests");
    let one = session("Chat_42");
    let epoch = store.claim(&one).await.unwrap().epoch;
    assert_eq!(store.append(vec![append(&one, epoch, 0, 1)]).await, [Ok(1)]);
    store.release(&one, epoch).await;
    let text = std::fs::read_to_string(folder.path().join("chat_42+1.jsonl")).unwrap();
    let claim = text.lines().nth(1).unwrap();
    let own = &claim.split_once("\"own\":\"").unwrap().1[..64];
    let told = text.replace(&claim[8..24], "SUM").replace(own, "KEYED");
    expect_test::expect![[r#"
        {"bob_journal":4,"session":"Chat_42"}
        {"sum":"SUM","claim":{"epoch":1,"owner":"bob in the tests","own":"KEYED"}}
        {"sum":"3156cb51b9c1b31f","record":{"format":4,"id":"Chat_42-1-r","session":"Chat_42","version":1,"epoch":1,"turn":null,"at":1,"kind":"started","body":{"model":"scripted:é\"\n\u0000"}}}
    "#]]
    .assert_eq(&told);
}

#[cfg(unix)]
#[tokio::test]
async fn g4_files_and_folders_are_the_users_own() {
    use std::os::unix::fs::PermissionsExt;
    let parent = TempDir::new().unwrap();
    let path = parent.path().join("state").join("sessions");
    let store = FileStore::open(&path, StoreOptions::default()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
    store.load(&session("one")).await.unwrap();
    store.list(&SessionFilter::default(), None).await.unwrap();
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "a store that only reads writes nothing");
    store.claim(&session("one")).await.unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    drop(store);
    let mut names: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["accepted", "identity", "one.jsonl"], "only the journal stays, and what the folder is known by");
}

#[tokio::test]
async fn an_append_whose_asker_went_away_is_stored() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder, "test"), session("one"));
    let epoch = store.claim(&one).await.unwrap().epoch;
    // On a busy machine it may be done before it is asked for the second time.
    let _what_it_said = futures_util::FutureExt::now_or_never(store.append(vec![append(&one, epoch, 0, 1)]));
    while store.load(&one).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_owner_reads_nothing_before_the_last_snapshot() {
    let (store, _guard) = make();
    crate::store::contract::nothing_before_the_last_snapshot_is_read(store).await;
}

/// A disk that keeps one journal's write waiting: the folder's other journals are read and written beside it.
#[tokio::test]
async fn a_journal_that_is_held_holds_up_no_other() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder, "test");
    let (held, other) = (session("held"), session("other"));
    let epoch = store.claim(&held).await.unwrap().epoch;
    let (entered, is_entered) = std::sync::mpsc::channel();
    let (let_go, is_let_go) = std::sync::mpsc::channel::<()>();
    let holder = {
        let (journals, held) = (Arc::clone(&store.journals), held.clone());
        std::thread::spawn(move || {
            journals.within(&held, |_slot| {
                entered.send(()).unwrap();
                is_let_go.recv().unwrap();
            });
        })
    };
    is_entered.recv().unwrap();
    let waiting = {
        let (store, append) = (Arc::clone(&store), append(&held, epoch, 0, 1));
        tokio::spawn(async move { store.append(vec![append]).await })
    };
    let beside = async {
        for version in 0..3 {
            let epoch = store.claim(&other).await.unwrap().epoch;
            assert_eq!(store.append(vec![append(&other, epoch, version, 1)]).await, [Ok(version + 1)]);
            assert_eq!(store.load(&other).await.unwrap().len() as u64, version + 1);
            assert_eq!(store.list(&SessionFilter::default(), None).await.unwrap().sessions.len(), 2);
            store.release(&other, epoch).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), beside).await.expect("it does not wait");
    assert!(!waiting.is_finished(), "it was held all the time");
    let_go.send(()).unwrap();
    holder.join().unwrap();
    assert_eq!(waiting.await.unwrap(), [Ok(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_pool_is_given_to_its_processes_alone() {
    let folder = TempDir::new().unwrap();
    let open: crate::store::contract::Open = |folder, options| FileStore::open(folder, options).unwrap();
    crate::store::contract::a_session_of_a_pool_is_given_to_its_processes_alone(folder.path(), open).await;
}

#[tokio::test]
async fn a_session_with_long_options_is_listed_with_its_parent() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder, "test"), session("one"));
    let epoch = store.claim(&one).await.unwrap().epoch;
    let parent = bob_messages::options::ParentTurn {
        session: session("above"),
        turn: bob_messages::ids::TurnId::new("t"),
        call: bob_messages::ids::CallId::new("c1"),
        depth: 1,
        line: None,
        on_parent_end: None,
    };
    let options = bob_messages::options::SessionOptions {
        instructions: Some("x".repeat(200_000)),
        parent: Some(parent),
        ..Default::default()
    };
    let mut all = append(&one, epoch, 0, 500);
    let told = bob_messages::store::Fact::Options(Arc::new(options));
    all.records[0] = Arc::new(Record { fact: told, ..(*all.records[0]).clone() });
    assert_eq!(store.append(vec![all]).await, [Ok(500)]);
    let filter = SessionFilter { parent: Some(session("above")), ..SessionFilter::default() };
    let page = store.list(&filter, None).await.unwrap();
    assert_eq!(page.sessions.into_iter().map(|found| found.session).collect::<Vec<_>>(), [one]);
}
