//! What stands in the folder beside the messages.

use super::*;
use crate::store::identity::FolderIdentity;
use bob_messages::inbox::InboxRequest;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn message(request: &str) -> InboxMessage {
    let cancel = InboxRequest::Cancel { of: RequestId::new("of") };
    InboxMessage::new(SessionId::parse("one").unwrap(), RequestId::new(request), 1, cancel)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A folder of messages, and the store of which they are.
struct Place {
    folder: TempDir,
    store: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), store: TempDir::new().unwrap() }
    }

    fn inbox(&self) -> FolderInbox {
        let identity = FolderIdentity::new(self.store.path().to_owned(), None);
        FolderInbox::new(self.folder.path().to_owned(), Arc::new(identity))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn name_of(request: &str) -> String {
    file_of(&message(request).session, &RequestId::new(request))
}

/// That an inbox has no message, and leaves what is there.
async fn has_none(place: &Place, inbox: &FolderInbox, what: &str) {
    let session = message("r1").session;
    let before = names(place.folder.path());
    for _again in 0..2 {
        assert_eq!(inbox.take(&session).await, Ok(Vec::new()), "{what}");
        assert_eq!(inbox.due(10, &BTreeSet::new()).await, Ok(Vec::new()), "{what}");
        assert_eq!(inbox.overview().await, Ok(StoreOverview::default()), "{what}");
        assert_eq!(inbox.standing(message("r1").key()).await, Ok(InboxStanding::Gone), "{what}");
        let refusal = Some(AgentError::Policy("no".to_owned()));
        assert_eq!(inbox.settle(message("r1").key(), refusal).await, Ok(false), "{what}");
    }
    assert_eq!(names(place.folder.path()), before, "{what}");
}

#[tokio::test]
async fn a_file_of_somebody_else_is_not_taken_and_left_where_it_is() {
    let (theirs, older) = (Place::new(), r#"{"number":1,"request":"r1","message":"{}"}"#);
    assert_eq!(theirs.inbox().put(message("r1")).await, Ok(true));
    let foreign = fs::read(theirs.file(&name_of("r1"))).unwrap();
    let signed: serde_json::Value = serde_json::from_slice(&foreign).unwrap();
    for (what, content) in [
        ("of another store", foreign),
        ("of an older program", older.into()),
        ("no text", vec![0xff, 0xfe, 0x80]),
        ("empty", Vec::new()),
        ("without a sum", serde_json::json!({ "sum": "", "kept": signed["kept"] }).to_string().into()),
    ] {
        let mine = Place::new();
        fs::write(mine.file(&name_of("r1")), &content).unwrap();
        fs::write(mine.file(&format!("{}{REFUSED}", name_of("r1"))), &content).unwrap();
        has_none(&mine, &mine.inbox(), what).await;
        // Also in the inbox of a process that has an identity by now.
        let inbox = mine.inbox();
        assert_eq!(inbox.put(message("r2")).await, Ok(true), "{what}");
        let taken = inbox.take(&message("r2").session).await.unwrap();
        assert_eq!(taken, [InboxEntry::from(message("r2"))], "{what}");
        assert_eq!(inbox.settle(message("r2").key(), None).await, Ok(true), "{what}");
        has_none(&mine, &inbox, what).await;
        // What is sent again takes its place.
        assert_eq!(inbox.put(message("r1")).await, Ok(true), "{what}");
        assert_eq!(inbox.put(message("r1")).await, Ok(false), "{what}");
        assert_eq!(inbox.take(&message("r1").session).await.unwrap(), [InboxEntry::from(message("r1"))], "{what}");
        assert_eq!(inbox.standing(message("r1").key()).await, Ok(InboxStanding::Waiting), "{what}");
    }
}

#[tokio::test]
async fn a_message_that_was_changed_or_has_another_name_is_none() {
    let place = Place::new();
    let inbox = place.inbox();
    assert_eq!(inbox.put(message("r0")).await, Ok(true));
    let text = fs::read_to_string(place.file(&name_of("r0"))).unwrap();
    fs::rename(place.file(&name_of("r0")), place.file(&name_of("r1"))).unwrap();
    has_none(&place, &inbox, "another name").await;
    has_none(&place, &place.inbox(), "another name, for a process that never saw it").await;
    fs::remove_file(place.file(&name_of("r1"))).unwrap();
    let changed = text.replace("of", "on");
    assert_ne!(changed, text);
    fs::write(place.file(&name_of("r0")), changed).unwrap();
    assert_eq!(inbox.take(&message("r0").session).await, Ok(Vec::new()));
    assert_eq!(inbox.due(10, &BTreeSet::new()).await, Ok(Vec::new()));
    // It is read again when it is another file.
    fs::remove_file(place.file(&name_of("r0"))).unwrap();
    fs::write(place.file(&name_of("r0")), &text).unwrap();
    assert_eq!(inbox.take(&message("r0").session).await.unwrap(), [InboxEntry::from(message("r0"))]);
    assert_eq!(inbox.due(10, &BTreeSet::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_that_was_refused_does_not_wait_again_under_the_other_name() {
    let place = Place::new();
    let inbox = place.inbox();
    assert_eq!(inbox.put(message("r0")).await, Ok(true));
    let key = InboxKey { session: message("r0").session, request: RequestId::new("r0") };
    assert_eq!(inbox.settle(key.clone(), Some(AgentError::Invalid("no".to_owned()))).await, Ok(true));
    assert!(matches!(inbox.standing(key).await, Ok(InboxStanding::Refused(_))));
    fs::rename(place.file(&format!("{}.refused", name_of("r0"))), place.file(&name_of("r0"))).unwrap();
    has_none(&place, &inbox, "renamed").await;
    has_none(&place, &place.inbox(), "renamed, for a process that never saw it").await;
}

#[tokio::test]
async fn a_link_a_folder_and_a_thousand_foreign_files_are_in_nobodys_way() {
    let (theirs, place) = (Place::new(), Place::new());
    assert_eq!(theirs.inbox().put(message("r1")).await, Ok(true));
    std::os::unix::fs::symlink(theirs.file(&name_of("r1")), place.file(&name_of("r1"))).unwrap();
    fs::create_dir(place.file(&name_of("r2"))).unwrap();
    for number in 0..=MOST_WAITING {
        fs::write(place.file(&name_of(&format!("x{number}"))), "{}").unwrap();
    }
    let inbox = place.inbox();
    has_none(&place, &inbox, "foreign").await;
    assert_eq!(inbox.put(message("r3")).await, Ok(true));
    assert_eq!(inbox.take(&message("r3").session).await.unwrap(), [InboxEntry::from(message("r3"))]);
}

#[tokio::test]
async fn a_deletion_takes_what_somebody_else_left_along() {
    let place = Place::new();
    for end in ["", REFUSED, DAMAGED] {
        fs::write(place.file(&format!("{}{end}", name_of("r1"))), "theirs").unwrap();
    }
    place.inbox().forget(&message("r1").session).unwrap();
    assert_eq!(names(place.folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn what_processes_left_behind_is_removed_in_time() {
    let place = Place::new();
    let inbox = place.inbox();
    assert_eq!(inbox.put(message("r1")).await, Ok(true));
    let waits = name_of("r1");
    let day = Duration::from_secs(24 * 60 * 60);
    for (name, age) in [
        ("7~1-0.new", day * 2),
        ("7~2-0.new", day / 2),
        ("one~a.refused", day * 2),
        ("one~b.damaged", day * 20),
        ("one~c.damaged", day * 40),
    ] {
        File::create(place.file(name)).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }
    let due = inbox.due(10, &BTreeSet::new()).await.unwrap();
    assert_eq!(due.len(), 1, "{due:?}");
    let mut left = vec!["7~2-0.new".to_owned(), "one~b.damaged".to_owned(), waits];
    left.sort();
    assert_eq!(names(place.folder.path()), left);
}
