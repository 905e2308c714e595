//! Artifacts in a folder: what a kill leaves behind, what is swept, what is never removed.

use super::*;
use crate::store::artifacts::marks::Marks;
use crate::store::contract::{artifacts, record};
use crate::store::{FileStore, MemoryStore, SessionStore, StoreOptions};
use bob_messages::artifact::{Artifact, ArtifactId, ArtifactKind};
use bob_messages::chat::{CallStatus, ContentPart, ToolOutput, ToolResult};
use bob_messages::ids::{CallId, SessionId, ToolName};
use bob_messages::store::{Append, Fact, Record};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn session(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

fn content(text: &str) -> Arc<Vec<u8>> {
    Arc::new(text.as_bytes().to_vec())
}

#[tokio::test]
async fn the_stores_that_come_with_bob_keep_the_rules() {
    artifacts(|| MemoryArtifacts::new()).await.assert();
    let folders: Vec<_> = (0..16).map(|_| TempDir::new().unwrap()).collect();
    let next = std::cell::Cell::new(0);
    let make = || {
        next.set(next.get() + 1);
        Arc::new(FolderArtifacts::new(folders[next.get() - 1].path().join("artifacts"))) as _
    };
    artifacts(make).await.assert();
}

#[tokio::test]
async fn a_broken_store_of_artifacts_breaks_a_rule() {
    // All of a suite's stores share one folder here, so what one rule leaves the next one finds.
    let folder = TempDir::new().unwrap();
    let suite = artifacts(|| Arc::new(FolderArtifacts::new(folder.path()))).await;
    assert!(suite.rules().iter().any(|(_, found)| found.is_err()));
}

/// A session with one record that names these artifacts.
async fn recorded(store: &dyn SessionStore, session: &SessionId, ids: &[ArtifactId]) {
    let part = |id: &ArtifactId| {
        ContentPart::Artifact(Box::new(Artifact::of_text(id.clone(), ArtifactKind::Text, "head and tail", 4)))
    };
    let output = ToolOutput { parts: ids.iter().map(part).collect(), ..ToolOutput::default() };
    let result = ToolResult {
        call: CallId::new("c1"),
        name: ToolName::new("local/big"),
        status: CallStatus::Ok,
        output,
        duration_ms: 1,
    };
    let claim = store.claim(session).await.unwrap();
    let like = Record::clone(&record(session, claim.epoch, claim.version + 1, "result"));
    let record = Record { fact: Fact::Result(Arc::new(result)), ..like };
    let append = Append {
        session: session.clone(),
        epoch: claim.epoch,
        expected_version: claim.version,
        records: vec![Arc::new(record)],
    };
    assert!(store.append(vec![append]).await.remove(0).is_ok());
    store.release(session, claim.epoch).await;
}

/// A store of another process that ended: its lock is free.
async fn left_behind(root: &Path, session: &SessionId, texts: &[&str]) -> Vec<ArtifactId> {
    let other = FolderArtifacts::new(root);
    let mut ids = Vec::new();
    for text in texts {
        ids.push(other.put(session, content(text)).await.unwrap());
    }
    ended(other).await;
    ids
}

/// Ends what stands for a process. A program that another test starts has a copy of every open file, and so of the lock,
/// until it runs.
async fn ended(process: FolderArtifacts) {
    let alive = process.owner_file();
    drop(process);
    let alive = fs::File::open(alive).unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(30), async {
        while alive.try_lock().is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("its lock is free");
}

#[tokio::test]
async fn what_a_process_put_and_did_not_record_is_removed_after_its_end_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), StoreOptions::default()).unwrap();
    let (root, own) = (folder.path().join("artifacts"), session("Own"));
    let ids = left_behind(&root, &own, &["named", "not named", "put again"]).await;
    // The process ended behind the record of the first one and before it was noted.
    recorded(&*store, &own, &ids[..1]).await;
    let port = store.artifacts().unwrap();
    port.put(&own, content("put again")).await.unwrap();
    let list = async || port.list(&own).await.unwrap().into_iter().map(|stored| stored.id).collect::<Vec<_>>();
    assert_eq!(list().await.len(), 3);
    sweep(Arc::<FileStore>::clone(&store)).await;
    let mut kept = vec![ids[0].clone(), ids[2].clone()];
    kept.sort();
    assert_eq!(list().await, kept, "what a record names, and what a living process has put");
    assert_eq!(port.unrecorded(10).await.unwrap(), [], "it is looked for once");
}

#[tokio::test]
async fn a_process_that_lives_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let (root, own) = (folder.path(), session("own"));
    let living = FolderArtifacts::new(root);
    let id = living.put(&own, content("not recorded yet")).await.unwrap();
    let other = FolderArtifacts::new(root);
    assert_eq!(other.unrecorded(10).await.unwrap(), []);
    other.delete(&own, std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(living.list(&own).await.unwrap().len(), 1, "another process removes nothing of it");
    ended(living).await;
    assert_eq!(other.unrecorded(10).await.unwrap(), [(own.clone(), vec![id.clone()])]);
    other.delete(&own, &[id]).await.unwrap();
    assert_eq!(other.list(&own).await.unwrap(), []);
    assert!(!root.join("s-own").exists(), "an empty folder is not kept");
}

#[tokio::test]
async fn what_is_recorded_while_its_session_is_looked_at_stays() {
    let root = TempDir::new().unwrap();
    let ids = left_behind(root.path(), &session("s"), &["again", "never"]).await;
    let (sweeper, living) = (FolderArtifacts::new(root.path()), FolderArtifacts::new(root.path()));
    let found = sweeper.unrecorded(100).await.unwrap();
    assert_eq!(found[0].1.len(), 2, "{found:?}");
    // The turn of the process that ended goes on in another one, which makes the same content and records it.
    assert_eq!(living.put(&session("s"), content("again")).await.unwrap(), ids[0]);
    living.recorded(&session("s"), &ids[..1]).await;
    sweeper.delete_unrecorded(&session("s"), &found[0].1).await.unwrap();
    let left: Vec<_> = living.list(&session("s")).await.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(left, ids[..1]);
}

#[test]
fn a_process_that_starts_is_not_taken_for_one_that_has_ended() {
    let root = TempDir::new().unwrap();
    std::thread::scope(|threads| {
        for _starter in 0..2 {
            threads.spawn(|| {
                for _start in 0..300 {
                    let marks = Marks::open(root.path()).unwrap();
                    marks.set("s", "x").unwrap();
                    assert!(marks.all().unwrap().iter().all(|(mark, alive)| !marks.is_own(mark) || *alive));
                    let other = Marks::open(root.path()).unwrap();
                    let seen = other.all().unwrap();
                    assert!(seen.iter().any(|(mark, alive)| marks.is_own(mark) && *alive), "it lives, {seen:?}");
                    marks.clear(|mark| marks.is_own(mark)).unwrap();
                }
            });
        }
        threads.spawn(|| {
            let marks = Marks::open(root.path()).unwrap();
            (0..600).for_each(|_| marks.forget_ended().unwrap());
        });
    });
}

#[tokio::test]
async fn a_deletion_that_was_interrupted_is_finished() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), StoreOptions::default()).unwrap();
    let (root, own) = (folder.path().join("artifacts"), session("own"));
    {
        let other = FolderArtifacts::new(&root);
        let id = other.put(&own, content("of a session that is gone")).await.unwrap();
        other.recorded(&own, &[id]).await;
        other.deleting(&own).unwrap();
        // The session's journal is removed, and the process ends.
        ended(other).await;
    }
    sweep(Arc::<FileStore>::clone(&store)).await;
    assert!(!root.join("s-own").exists());
    assert_eq!(names(&root.join("new")), Vec::<String>::new());
}

#[tokio::test]
async fn a_deletion_that_did_not_happen_removes_nothing() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), StoreOptions::default()).unwrap();
    let (root, own) = (folder.path().join("artifacts"), session("own"));
    let ids = {
        let other = FolderArtifacts::new(&root);
        let id = other.put(&own, content("named")).await.unwrap();
        recorded(&*store, &own, std::slice::from_ref(&id)).await;
        other.deleting(&own).unwrap();
        ended(other).await;
        [id]
    };
    sweep(Arc::<FileStore>::clone(&store)).await;
    let port = store.artifacts().unwrap();
    assert_eq!(port.list(&own).await.unwrap()[0].id, ids[0]);
    assert_eq!(names(&root.join("new")), Vec::<String>::new());
}

#[tokio::test]
async fn a_write_that_was_cut_has_no_name_and_is_removed() {
    let folder = TempDir::new().unwrap();
    let (root, own) = (folder.path(), session("own"));
    let id = left_behind(root, &own, &["whole"]).await.remove(0);
    let unfinished = root.join("s-own/.new-0123456789abcdef-0");
    fs::write(&unfinished, "who").unwrap();
    let store = FolderArtifacts::new(root);
    assert_eq!(store.list(&own).await.unwrap().len(), 1, "what has no name yet is not listed");
    store.delete(&own, &[id]).await.unwrap();
    assert!(!unfinished.exists());
}

#[tokio::test]
async fn a_sweep_is_bounded() {
    let folder = TempDir::new().unwrap();
    let texts: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    left_behind(folder.path(), &session("own"), &texts).await;
    let store = FolderArtifacts::new(folder.path());
    let found = store.unrecorded(7).await.unwrap();
    assert_eq!(found.iter().map(|(_, ids)| ids.len()).sum::<usize>(), 7);
}

#[tokio::test]
async fn a_session_is_deleted_with_its_artifacts_in_every_store() {
    let folder = TempDir::new().unwrap();
    let mut stores: Vec<Arc<dyn SessionStore>> =
        vec![MemoryStore::new(), FileStore::open(&folder.path().join("json"), StoreOptions::default()).unwrap()];
    #[cfg(feature = "sqlite")]
    stores.push(crate::store::SqliteStore::open(&folder.path().join("s.db"), StoreOptions::default()).unwrap());
    for store in stores {
        let (own, fork) = (session("own"), session("fork"));
        let port = store.artifacts().unwrap();
        let id = port.put(&own, content("large")).await.unwrap();
        recorded(&*store, &own, std::slice::from_ref(&id)).await;
        port.share(&own, &fork, std::slice::from_ref(&id)).await.unwrap();
        recorded(&*store, &fork, std::slice::from_ref(&id)).await;
        assert!(store.delete(&own).await.unwrap());
        assert_eq!(port.get(&own, &id, 0..9).await.unwrap(), None);
        assert_eq!(port.get(&fork, &id, 0..9).await.unwrap(), Some(b"large".to_vec()), "the fork names it");
        assert!(store.delete(&fork).await.unwrap());
        assert_eq!(port.get(&fork, &id, 0..9).await.unwrap(), None);
        assert!(!store.delete(&fork).await.unwrap(), "there is nothing any more");
    }
}

#[tokio::test]
async fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let (root, own) = (folder.path().join("artifacts"), session("own"));
    let store = FolderArtifacts::new(&root);
    let id = store.put(&own, content("private")).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&root), mode(&root.join("s-own"))), (0o700, 0o700));
    assert_eq!(mode(&root.join("s-own").join(id.as_str())), 0o600);
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Where the second process finds its folder; only there it is set.
const FOLDER: &str = "BOB_TEST_ARTIFACTS_FOLDER";

#[tokio::test]
async fn what_a_killed_process_put_is_removed_unless_a_record_names_it() {
    let own = session("own");
    if let Some(root) = std::env::var_os(FOLDER) {
        let store = FolderArtifacts::new(root);
        for text in ["named", "not named"] {
            store.put(&own, content(text)).await.unwrap();
        }
        // The first line is the harness's own, without an end.
        println!("\nput");
        return std::future::pending().await;
    }
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), StoreOptions::default()).unwrap();
    let path = concat!(module_path!(), "::what_a_killed_process_put_is_removed_unless_a_record_names_it");
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", path.split_once("::").unwrap().1, "--nocapture"])
        .env(FOLDER, folder.path().join("artifacts"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(other.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(told.any(|line| line == "put"), "it says so before it ends");
    let port = store.artifacts().unwrap();
    assert_eq!(port.unrecorded(10).await.unwrap(), [], "the process lives");
    recorded(&*store, &own, &[ArtifactId::of(b"named")]).await;
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(port.unrecorded(10).await.unwrap().len(), 1, "its artifacts are found");
    sweep(Arc::<FileStore>::clone(&store)).await;
    let kept: Vec<_> = port.list(&own).await.unwrap().into_iter().map(|stored| stored.id).collect();
    assert_eq!(kept, [ArtifactId::of(b"named")]);
    assert_eq!(port.unrecorded(10).await.unwrap(), []);
    assert_eq!(names(&folder.path().join("artifacts/owners")).len(), 1, "only the lock of this process is left");
}
