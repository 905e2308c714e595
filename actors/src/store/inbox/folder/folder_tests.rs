//! What stands in the folder beside the messages.

use super::*;
use bob_messages::inbox::InboxRequest;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

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

#[tokio::test]
async fn a_file_that_is_no_text_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = FolderInbox::new(folder.path().to_owned());
    let (first, second) = (message("r1"), message("r2"));
    assert_eq!(inbox.put(first.clone()).await, Ok(true));
    let name = file_of(&first.session, &first.request_id);
    fs::write(folder.path().join(&name), [0xff, 0xfe, 0x80]).unwrap();
    assert_eq!(inbox.put(second.clone()).await, Ok(true));
    assert_eq!(inbox.take(&second.session).await, Ok(vec![InboxEntry::from(second.clone())]));
    assert!(names(folder.path()).contains(&format!("{name}{DAMAGED}")));
    inbox.forget(&second.session).unwrap();
    assert_eq!(names(folder.path()), Vec::<String>::new(), "a deletion takes what was set aside along");
}

#[tokio::test]
async fn what_processes_left_behind_is_removed_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = FolderInbox::new(folder.path().to_owned());
    assert_eq!(inbox.put(message("r1")).await, Ok(true));
    let waits = file_of(&message("r1").session, &RequestId::new("r1"));
    let day = Duration::from_secs(24 * 60 * 60);
    for (name, age) in [
        ("7~1-0.new", day * 2),
        ("7~2-0.new", day / 2),
        ("one~a.refused", day * 2),
        ("one~b.damaged", day * 20),
        ("one~c.damaged", day * 40),
    ] {
        File::create(folder.path().join(name)).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }
    let due = inbox.due(10, &BTreeSet::new()).await.unwrap();
    assert_eq!(due.len(), 1, "{due:?}");
    let mut left = vec!["7~2-0.new".to_owned(), "one~b.damaged".to_owned(), waits];
    left.sort();
    assert_eq!(names(folder.path()), left);
}
