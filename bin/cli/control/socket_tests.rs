use super::*;
use std::os::unix::fs::symlink;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[tokio::test]
async fn a_socket_is_private_also_in_a_folder_that_was_not() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("store.db-control");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let (_listener, socket) = listen(&folder).await.unwrap();
    assert_eq!((mode(&folder), mode(&socket.0)), (0o700, 0o600));
    assert_eq!(sockets(&folder), [folder.join(format!("{}.sock", std::process::id()))]);
    assert!(connect(&socket.0).await.is_some());
    drop(socket);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "it leaves nothing");
}

#[tokio::test]
async fn what_dead_processes_left_is_removed_and_a_namesake_is_not() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("f");
    let (_first_listens, first) = listen(&folder).await.unwrap();
    let dead = folder.join("1.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let (_second_listens, second) = listen(&folder).await.unwrap();
    assert!(!dead.exists());
    assert_eq!(sockets(&folder).len(), 2, "{:?}", sockets(&folder));
    assert_ne!(first.0, second.0);
}

#[tokio::test]
async fn a_long_path_is_no_hindrance() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("a-folder-with-a-long-name-".repeat(8));
    let (_listener, socket) = listen(&folder).await.unwrap();
    assert!(socket.0.as_os_str().len() > 200);
    assert!(connect(&socket.0).await.is_some());
}

#[tokio::test]
async fn somebody_elses_folder_is_not_used() {
    let scratch = tempfile::tempdir().unwrap();
    let (real, link) = (scratch.path().join("real"), scratch.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let why = listen(&link).await.unwrap_err();
    assert!(why.contains("not a folder of this user"), "{why}");
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}
