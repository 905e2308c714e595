use super::*;
use crate::tools::local::fixture::Workspace;
use serde_json::json;

#[tokio::test]
async fn a_file_is_read_whole() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "one\ntwo é\n");
    let output = workspace.run(&read_file(), json!({"path": "a.txt"})).await.expect("it is there");
    assert_eq!(output.plain(), "one\ntwo é\n");
    assert_eq!(output.locations.len(), 1);
    workspace.put("empty.txt", "");
    assert_eq!(workspace.text(&read_file(), json!({"path": "empty.txt"})).await, "[the file is empty]");
}

#[tokio::test]
async fn the_cap_of_a_read_is_exact_and_cuts_no_character() {
    let workspace = Workspace::new();
    let cap = usize::try_from(MAX_FILE_BYTES).expect("small");
    workspace.put("full.txt", "a".repeat(cap));
    assert_eq!(workspace.text(&read_file(), json!({"path": "full.txt"})).await.len(), cap);

    workspace.put("over.txt", format!("{}é", "a".repeat(cap - 1)));
    let output = workspace.run(&read_file(), json!({"path": "over.txt"})).await.expect("its head");
    let [ContentPart::Text { text: notice }, ContentPart::Text { text }] = output.parts.as_slice() else {
        panic!("a notice and the text")
    };
    assert_eq!(*notice, format!("[only the first {} of {} bytes follow]", cap - 1, cap + 1));
    assert_eq!(text.len(), cap - 1);
}

#[tokio::test]
async fn what_is_no_text_is_refused() {
    let workspace = Workspace::new();
    workspace.put("picture.png", b"\x89PNG\xff\xfe");
    let told = workspace.error(&read_file(), json!({"path": "picture.png"})).await;
    assert_eq!(told, r#""picture.png" is not a text file: byte 0 is not UTF-8"#);
    workspace.put("cut.txt", b"abc\xc3");
    let told = workspace.error(&read_file(), json!({"path": "cut.txt"})).await;
    assert!(told.contains("byte 3"), "{told}");
    let told = workspace.error(&read_file(), json!({"path": "."})).await;
    assert!(told.contains("is a folder"), "{told}");
}

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
