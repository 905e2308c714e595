use super::*;
use crate::tools::local::fixture::Workspace;
use serde_json::json;

fn garden() -> Workspace {
    let workspace = Workspace::new();
    workspace.put("src/main.rs", "fn main() {\n    plant();\n}\n");
    workspace.put("src/deep/tree.rs", "fn plant() {}\r\n// plant it\n");
    workspace.put("notes.txt", "plant a tree\n");
    workspace.put(".gitignore", "ignored/\n");
    workspace.put("ignored/x.rs", "plant\n");
    workspace.put(".git/config", "plant\n");
    workspace.put("binary", b"plant\0\xff");
    workspace
}

#[tokio::test]
async fn lines_are_found_with_their_places() {
    let workspace = garden();
    let output = workspace.run(&search_files(Arc::default()), json!({"pattern": "plant"})).await.expect("a search");
    assert_eq!(
        output.plain(),
        "notes.txt:1: plant a tree\nsrc/deep/tree.rs:1: fn plant() {}\nsrc/deep/tree.rs:2: // plant it\nsrc/main.rs:2:     plant();"
    );
    assert_eq!(output.locations[1], Location { path: "src/deep/tree.rs".to_owned(), line: Some(1) });
}

#[tokio::test]
async fn a_search_is_narrowed_by_its_path() {
    let workspace = garden();
    let within =
        async |path: &str| workspace.text(&search_files(Arc::default()), json!({"pattern": "^fn", "path": path})).await;
    assert_eq!(within("src/deep").await, "src/deep/tree.rs:1: fn plant() {}");
    assert_eq!(within("src/main.rs").await, "src/main.rs:1: fn main() {");
    let absolute = workspace.path("src/deep").to_string_lossy().into_owned();
    assert_eq!(within(&absolute).await, format!("{absolute}/tree.rs:1: fn plant() {{}}"));
    assert_eq!(within("notes.txt").await, r#"[no line has "^fn"]"#);
}

#[tokio::test]
async fn a_link_on_the_way_to_the_folder_is_followed_inside_only() {
    let workspace = garden();
    std::os::unix::fs::symlink("src/deep", workspace.path("short")).expect("a link");
    std::os::unix::fs::symlink(workspace.outside(""), workspace.path("out")).expect("a link");
    let found = workspace.text(&search_files(Arc::default()), json!({"pattern": "it$", "path": "short"})).await;
    assert_eq!(found, "short/tree.rs:2: // plant it");
    let everywhere = workspace.text(&search_files(Arc::default()), json!({"pattern": "secret"})).await;
    assert_eq!(everywhere, r#"[no line has "secret"]"#);
}

#[tokio::test]
async fn hits_are_capped_exactly_and_long_lines_cut() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "hit\n".repeat(MAX_HITS));
    let text = workspace.text(&search_files(Arc::default()), json!({"pattern": "hit"})).await;
    assert_eq!(text.lines().count(), MAX_HITS);
    workspace.put("b.txt", format!("hit {}\n", "é".repeat(MAX_LINE_BYTES)));
    let text = workspace.text(&search_files(Arc::default()), json!({"pattern": "hit"})).await;
    assert!(text.ends_with("narrower]") && text.lines().count() == MAX_HITS + 1);
    let text = workspace.text(&search_files(Arc::default()), json!({"pattern": "hit", "path": "b.txt"})).await;
    assert!(text.ends_with("é […]") && text.len() < MAX_LINE_BYTES + 40, "{}", text.len());
}

#[tokio::test]
async fn a_pattern_that_is_none_is_told() {
    let workspace = garden();
    for pattern in ["(", "a{99999999}", "a\\n b"] {
        let told = workspace.error(&search_files(Arc::default()), json!({"pattern": pattern})).await;
        assert!(told.contains("is not a regular expression"), "{told}");
        assert!(!told.contains('\n'), "{told}");
    }
}

#[test]
fn a_search_nobody_wants_stops() {
    let workspace = garden();
    let place = place(workspace.roots(), ".").expect("the workspace");
    let unwanted = Unwanted::default();
    unwanted.0.store(true, std::sync::atomic::Ordering::Relaxed);
    let stopped = search(&place, "plant", &Arc::default(), &unwanted).expect_err("stopped").to_string();
    assert_eq!(stopped, "the search was stopped");
}
