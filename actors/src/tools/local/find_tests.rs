use super::*;
use crate::tools::local::fixture::Workspace;
use serde_json::json;

async fn found(workspace: &Workspace, arguments: serde_json::Value) -> String {
    workspace.text(&find_files(Arc::default()), arguments).await
}

#[tokio::test]
async fn files_and_folders_are_found_by_name_or_path_in_order() {
    let workspace = Workspace::new();
    for path in
        ["src/main.rs", "src/deep/tree.rs", "tree/a.txt", "b.rs", "target/x.rs", ".bob/y.rs", ".git/z.rs", ".env"]
    {
        workspace.put(path, "");
    }
    workspace.put(".gitignore", "/target\n");
    assert_eq!(found(&workspace, json!({"pattern": "*.rs"})).await, "b.rs\nsrc/deep/tree.rs\nsrc/main.rs");
    assert_eq!(found(&workspace, json!({"pattern": "./src/*.rs"})).await, "src/main.rs");
    assert_eq!(found(&workspace, json!({"pattern": "**/*.rs", "path": "src"})).await, "src/deep/tree.rs\nsrc/main.rs");
    assert_eq!(found(&workspace, json!({"pattern": "tree*"})).await, "src/deep/tree.rs\ntree/");
    assert_eq!(found(&workspace, json!({"pattern": "{b,c}.rs"})).await, "b.rs");
    assert_eq!(found(&workspace, json!({"pattern": "*.rs", "path": "target"})).await, "target/x.rs", "it is named");
    assert_eq!(found(&workspace, json!({"pattern": "*.md"})).await, r#"[no file matches "*.md"]"#);
    assert_eq!(found(&workspace, json!({"pattern": ".env"})).await, r#"[no file matches ".env"]"#, "secrets");
    let absolute = workspace.path("src").to_string_lossy().into_owned();
    let below = found(&workspace, json!({"pattern": "main.rs", "path": absolute})).await;
    assert_eq!(below, format!("{absolute}/main.rs"));
}

#[tokio::test]
async fn of_too_many_the_first_are_shown_and_the_others_counted() {
    let workspace = Workspace::new();
    (0..MAX_PATHS + 3).for_each(|n| workspace.put(&format!("{n:04}.txt"), ""));
    let text = found(&workspace, json!({"pattern": "*.txt"})).await;
    assert_eq!(text.lines().count(), MAX_PATHS + 1);
    assert!(text.ends_with("0499.txt\n[3 of 503 are not shown; narrow `pattern` or `path`]"), "{}", &text[4000..]);
}

#[tokio::test]
async fn a_pattern_that_cannot_be_used_is_told() {
    let workspace = Workspace::new();
    for (pattern, expected) in
        [("[a", "is not a glob"), ("/etc/*", "no pattern beneath `path`"), ("", "no pattern beneath")]
    {
        let told = workspace.error(&find_files(Arc::default()), json!({"pattern": pattern})).await;
        assert!(told.contains(expected), "{pattern}: {told}");
    }
    let told = workspace.error(&find_files(Arc::default()), json!({"pattern": "*", "path": "none"})).await;
    assert!(told.contains("there is no"), "{told}");
    let told = workspace.error(&find_files(Arc::default()), json!({"pattern": "*", "path": "../"})).await;
    assert!(told.contains("outside the workspace"), "{told}");
}
