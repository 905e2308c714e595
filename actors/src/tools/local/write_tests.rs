use super::*;
use crate::tools::local::fixture::Workspace;
use crate::tools::local::read::read_file;
use bob_messages::tools::FileChange;
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

fn names(workspace: &Workspace) -> Vec<String> {
    let entries = std::fs::read_dir(workspace.path("")).expect("a folder");
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_new_file_is_made_with_its_folders() {
    let workspace = Workspace::new();
    let arguments = json!({"path": "a/b/c.txt", "content": "hello"});
    let output = workspace.run(&write_file(&Arc::default()), arguments).await.expect("written");
    assert_eq!(workspace.get("a/b/c.txt"), "hello");
    let change = FileChange {
        path: "a/b/c.txt".to_owned(),
        before: None,
        after: Some("hello".to_owned()),
        ..FileChange::default()
    };
    assert_eq!(output.changes, [change]);
    assert_eq!(output.plain(), "created a/b/c.txt (5 bytes)");
    assert_eq!(names(&workspace), ["a"]);
}

#[tokio::test]
async fn an_old_file_is_replaced_and_keeps_its_mode() {
    let workspace = Workspace::new();
    workspace.put("run.sh", "old");
    let mode = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(workspace.path("run.sh"), mode).expect("a mode");
    std::fs::hard_link(workspace.path("run.sh"), workspace.path("other-name")).expect("a name");
    let output = workspace
        .run(&write_file(&Arc::default()), json!({"path": "run.sh", "content": "new"}))
        .await
        .expect("written");
    assert_eq!(output.changes[0].before.as_deref(), Some("old"));
    assert_eq!(workspace.get("run.sh"), "new");
    assert_eq!(std::fs::metadata(workspace.path("run.sh")).expect("there").mode() & 0o777, 0o750);
    assert_eq!(workspace.get("other-name"), "old");
    assert_eq!(names(&workspace), ["other-name", "run.sh"]);
}

#[tokio::test]
async fn writing_through_a_link_keeps_the_link() {
    let workspace = Workspace::new();
    workspace.put("real/a.txt", "old");
    symlink("real/a.txt", workspace.path("link")).expect("a link");
    symlink("nowhere", workspace.path("dangling")).expect("a link");
    workspace.text(&write_file(&Arc::default()), json!({"path": "link", "content": "new"})).await;
    assert_eq!(workspace.get("real/a.txt"), "new");
    assert!(std::fs::symlink_metadata(workspace.path("link")).expect("there").is_symlink());
    let told = workspace.error(&write_file(&Arc::default()), json!({"path": "dangling", "content": "new"})).await;
    assert!(told.contains("link to nothing"), "{told}");
}

#[tokio::test]
async fn a_way_up_from_a_folder_that_is_not_there_leads_to_no_file() {
    let workspace = Workspace::new();
    workspace.put("src/main.rs", "old");
    let write = write_file(&Arc::default());
    let told = workspace.error(&write, json!({"path": "missing/../src/main.rs", "content": "new"})).await;
    assert!(told.contains("goes up from a folder that is not there; use src/main.rs"), "{told}");
    assert_eq!(workspace.get("src/main.rs"), "old");
    workspace.text(&write, json!({"path": "missing/../src/new.rs", "content": "new"})).await;
    workspace.text(&write, json!({"path": "src/../other.rs", "content": "new"})).await;
    assert_eq!(workspace.get("src/new.rs"), "new");
    assert_eq!(names(&workspace), ["other.rs", "src"], "no folder is made on the way");
}

#[tokio::test]
async fn what_cannot_be_written_is_told() {
    let workspace = Workspace::new();
    workspace.put("file", "x");
    std::fs::create_dir(workspace.path("folder")).expect("a folder");
    for (path, expected) in [
        ("folder", "is a folder"),
        (".", "is a folder"),
        ("new/", "does not name a file"),
        ("file/inner", "not a folder"),
        (&"x".repeat(300), "cannot be used"),
    ] {
        let told = workspace.error(&write_file(&Arc::default()), json!({"path": path, "content": ""})).await;
        assert!(told.contains(expected), "{path}: {told}");
    }
    assert_eq!(names(&workspace), ["file", "folder"]);
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_written_over() {
    let (workspace, seen) = (Workspace::new(), Arc::default());
    workspace.put("a.txt", "one\n");
    workspace.text(&read_file(&seen), json!({"path": "a.txt"})).await;
    workspace.put("a.txt", "another one\n");
    let arguments = json!({"path": "a.txt", "content": "mine"});
    let told = workspace.error(&write_file(&seen), arguments.clone()).await;
    assert!(told.contains("has changed since") && told.contains("+another one"), "{told}");
    assert_eq!(workspace.get("a.txt"), "another one\n");
    let output = workspace.run(&write_file(&seen), arguments).await.expect("it was told what changed");
    assert_eq!(output.changes[0].before.as_deref(), Some("another one\n"));
    workspace.text(&write_file(&seen), json!({"path": "a.txt", "content": "mine, too"})).await;
}

#[tokio::test]
async fn a_file_is_written_in_the_encoding_it_has() {
    let workspace = Workspace::new();
    workspace.put("a.txt", TextEncoding::Utf16Le.encode("café").expect("it has all"));
    workspace.put("b.txt", b"caf\xe9");
    let write = async |path: &str, content: &str| {
        let arguments = json!({"path": path, "content": content});
        let output = workspace.run(&write_file(&Arc::default()), arguments).await.expect("written");
        let now = std::fs::read(workspace.path(path)).expect("there");
        assert_eq!(output.changes[0].content_after().unwrap().unwrap(), now, "{output:?}");
        assert!(!output.changes[0].is_rough);
        (output.plain(), now)
    };
    assert_eq!(
        write("a.txt", "té").await,
        ("replaced a.txt (6 bytes), in UTF-16LE".into(), b"\xff\xfet\0\xe9\0".into())
    );
    assert_eq!(write("b.txt", "the é").await, ("replaced b.txt (5 bytes), in Windows-1252".into(), b"the \xe9".into()));
    let told = "replaced b.txt (3 bytes), in UTF-8; it was Windows-1252, which does not have all of it";
    assert_eq!(write("b.txt", "☕").await, (told.into(), "☕".into()));
}

#[tokio::test]
async fn what_would_read_differently_in_the_encoding_of_the_file_is_written_in_utf8() {
    let workspace = Workspace::new();
    for (before, content, was) in [
        // Most of it is outside ASCII, it looks like UTF-8, and it has a character that no text has.
        (&b"caf\xe9 au lait"[..], "Größe", TextEncoding::Windows1252),
        (b"caf\xe9 au lait", "Ã©", TextEncoding::Windows1252),
        (b"\xff\xfea\0", "a\0b", TextEncoding::Utf16Le),
    ] {
        workspace.put("a.txt", before);
        let arguments = json!({"path": "a.txt", "content": content});
        let output = workspace.run(&write_file(&Arc::default()), arguments).await.expect("written");
        assert_eq!(workspace.get("a.txt"), content);
        let change = &output.changes[0];
        assert_eq!((change.after.as_deref(), change.encoding_before), (Some(content), was));
        assert_eq!(change.content_after().unwrap().unwrap(), content.as_bytes());
        let told = format!(", in UTF-8; it was {was}, in which it would be read as another text");
        assert!(output.plain().ends_with(&told), "{}", output.plain());
    }
}
