use crate::tools::local::fixture::{SECRET, Workspace};
use crate::tools::local::{read, search, write};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ways out of the workspace, with whatever must be there for them.
fn ways_out(workspace: &Workspace) -> Vec<String> {
    let outside = workspace.outside("secret.txt");
    symlink(&outside, workspace.path("absolute-link")).expect("a link");
    symlink("../secret.txt", workspace.path("relative-link")).expect("a link");
    symlink("..", workspace.path("up")).expect("a link");
    std::fs::create_dir(workspace.path("sub")).expect("a folder");
    symlink("../relative-link", workspace.path("sub/chain")).expect("a link");
    let root = workspace.roots()[0].clone();
    vec![
        "../secret.txt".to_owned(),
        "./../secret.txt".to_owned(),
        "sub/../../secret.txt".to_owned(),
        "up/secret.txt".to_owned(),
        "absolute-link".to_owned(),
        "relative-link".to_owned(),
        "sub/chain".to_owned(),
        outside.to_string_lossy().into_owned(),
        format!("{root}/../secret.txt"),
        format!("{root}-other"),
        "/etc/passwd".to_owned(),
        "/proc/self/environ".to_owned(),
        "/".to_owned(),
        "..".to_owned(),
    ]
}

#[tokio::test]
async fn no_tool_reaches_out_of_the_workspace() {
    let workspace = Workspace::new();
    for way in ways_out(&workspace) {
        let refusals = [
            workspace.error(&read::read_file(&Arc::default()), json!({"path": way})).await,
            workspace.error(&write::write_file(&Arc::default()), json!({"path": way, "content": "x"})).await,
            workspace
                .error(
                    &super::super::edit::edit_file(&Arc::default()),
                    json!({"path": way, "old": "secret", "new": "x"}),
                )
                .await,
            workspace.error(&search::search_files(Arc::default()), json!({"path": way, "pattern": "secret"})).await,
            workspace.error(&super::super::list::list_dir(), json!({"path": way})).await,
        ];
        for refusal in refusals {
            assert!(!refusal.contains(SECRET), "{way}: {refusal}");
            assert!(refusal.contains("outside") || refusal.contains("not a folder"), "{way}: {refusal}");
        }
    }
    assert_eq!(std::fs::read_to_string(workspace.outside("secret.txt")).expect("still there"), SECRET);
    let beside: Vec<_> = std::fs::read_dir(workspace.outside("")).expect("a folder").flatten().collect();
    assert_eq!(beside.len(), 2, "{beside:?}");
}

#[tokio::test]
async fn paths_inside_are_found_in_every_spelling() {
    let mut workspace = Workspace::new();
    workspace.put("sub/a.txt", "inside");
    symlink("sub/a.txt", workspace.path("link")).expect("a link");
    let real = workspace.outside("second");
    std::fs::create_dir(&real).expect("a folder");
    std::fs::write(real.join("b.txt"), "in the second").expect("a file");
    let named = workspace.outside("second-by-link");
    symlink(&real, &named).expect("a link");
    workspace.add_root(&named);

    let root = workspace.roots()[0].clone();
    for path in ["sub/a.txt", "./sub/a.txt", "sub/../sub/./a.txt", "link", &format!("{root}/sub/a.txt")] {
        assert_eq!(
            workspace.text(&read::read_file(&Arc::default()), json!({"path": path})).await,
            "1\tinside",
            "{path}"
        );
    }
    for folder in [&named, &real] {
        let path = folder.join("b.txt");
        assert_eq!(workspace.text(&read::read_file(&Arc::default()), json!({"path": path})).await, "1\tin the second");
    }
    let refused = workspace.error(&read::read_file(&Arc::default()), json!({"path": "b.txt"})).await;
    assert!(refused.contains("there is no"), "{refused}");
}

#[tokio::test]
async fn what_is_no_file_is_refused_without_waiting() {
    let workspace = Workspace::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        workspace.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(workspace.path("socket")).expect("a socket");
    for path in ["pipe", "socket"] {
        for refusal in [
            workspace.error(&read::read_file(&Arc::default()), json!({"path": path})).await,
            workspace
                .error(&super::super::edit::edit_file(&Arc::default()), json!({"path": path, "old": "a", "new": "b"}))
                .await,
            workspace.error(&write::write_file(&Arc::default()), json!({"path": path, "content": "x"})).await,
        ] {
            assert!(refusal.contains("not a regular file") || refusal.contains("cannot be used"), "{path}: {refusal}");
        }
        let found = workspace.text(&search::search_files(Arc::default()), json!({"path": path, "pattern": "x"})).await;
        assert!(found.contains("no line"), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_swapped_in_a_loop_never_leads_out() {
    let workspace = Workspace::new();
    workspace.put("inside.txt", "inside");
    let (swapping, target) = (Arc::new(AtomicBool::new(true)), workspace.path("swapped"));
    let (inside, outside) = (workspace.path("inside.txt"), workspace.outside("secret.txt"));
    let scratch = workspace.path("scratch");
    let keep_on = Arc::clone(&swapping);
    let swapper = std::thread::spawn(move || {
        for round in 0.. {
            if !keep_on.load(Ordering::Relaxed) {
                break;
            }
            drop(std::fs::remove_file(&scratch));
            if round % 2 == 0 {
                std::fs::hard_link(&inside, &scratch).expect("a name");
            } else {
                symlink(&outside, &scratch).expect("a link");
            }
            std::fs::rename(&scratch, &target).expect("swapped");
        }
    });
    for _ in 0..500 {
        if let Ok(output) = workspace.run(&read::read_file(&Arc::default()), json!({"path": "swapped"})).await {
            assert_eq!(output.plain(), "1\tinside");
        }
        let found =
            workspace.run(&search::search_files(Arc::default()), json!({"pattern": "secret of", "path": "."})).await;
        assert!(found.is_ok_and(|found| found.plain().contains("no line")));
    }
    swapping.store(false, Ordering::Relaxed);
    swapper.join().expect("the swapper ends");
}

#[tokio::test]
async fn a_missing_file_is_told_with_its_neighbours() {
    let workspace = Workspace::new();
    let told = workspace.error(&read::read_file(&Arc::default()), json!({"path": "notes.txt"})).await;
    assert_eq!(told, r#"there is no "notes.txt"; its folder is empty"#);
    workspace.put("readme.md", "");
    workspace.put("notes.md", "");
    let told = workspace.error(&read::read_file(&Arc::default()), json!({"path": "notes.txt"})).await;
    assert_eq!(told, r#"there is no "notes.txt"; its folder has notes.md, readme.md"#);
    (0..20).for_each(|n| workspace.put(&format!("{n}-other"), ""));
    let told = workspace.error(&read::read_file(&Arc::default()), json!({"path": "notes.txt"})).await;
    assert_eq!(told, r#"there is no "notes.txt"; did you mean notes.md?"#);
    let told = workspace.error(&read::read_file(&Arc::default()), json!({"path": "nowhere/at/all"})).await;
    assert_eq!(told, r#"there is no "nowhere/at/all""#);
}

#[tokio::test]
async fn a_session_without_a_folder_is_told_so() {
    for roots in [vec![], vec!["/nowhere/to/be/found".to_owned()]] {
        let refused = super::place(&roots, "a.txt").err().expect("nothing to work in").to_string();
        assert!(refused.contains("no folder") || refused.contains("cannot be opened"), "{refused}");
    }
    let zero = super::place(&["/".to_owned()], "a\0b").err().expect("no such path").to_string();
    assert!(zero.contains("zero byte"), "{zero}");
}
