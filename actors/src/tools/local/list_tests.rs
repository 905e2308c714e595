use super::*;
use crate::tools::local::fixture::Workspace;
use serde_json::json;

#[tokio::test]
async fn a_folder_is_listed_in_order_with_folders_marked() {
    let workspace = Workspace::new();
    workspace.put("b.txt", "");
    workspace.put("a/inner.txt", "");
    workspace.put(".hidden", "");
    workspace.put("new\nline", "");
    for arguments in [json!({}), json!({"path": "."}), json!({"path": ""})] {
        assert_eq!(workspace.text(&list_dir(), arguments).await, ".hidden\na/\nb.txt\nnew\\nline");
    }
    assert_eq!(workspace.text(&list_dir(), json!({"path": "a"})).await, "inner.txt");
    let told = workspace.error(&list_dir(), json!({"path": "b.txt"})).await;
    assert!(told.contains("not a folder"), "{told}");
    std::fs::create_dir(workspace.path("empty")).expect("a folder");
    assert_eq!(workspace.text(&list_dir(), json!({"path": "empty"})).await, "[the folder is empty]");
}

#[tokio::test]
async fn a_large_folder_is_cut_with_a_notice() {
    let workspace = Workspace::new();
    (0..MAX_ENTRIES).for_each(|n| workspace.put(&format!("{n:05}"), ""));
    assert!(!workspace.text(&list_dir(), json!({})).await.contains('['));
    workspace.put("zzz", "");
    let text = workspace.text(&list_dir(), json!({})).await;
    assert_eq!(text.lines().count(), MAX_ENTRIES + 1);
    assert!(text.ends_with("[1 of 1001 entries are not shown]"), "{}", &text[text.len() - 60..]);
}

#[tokio::test]
async fn unknown_arguments_are_refused() {
    let workspace = Workspace::new();
    let told = workspace.error(&list_dir(), json!({"folder": "."})).await;
    assert!(told.contains("folder"), "{told}");
}
