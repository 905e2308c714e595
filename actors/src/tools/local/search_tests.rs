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
    assert!(
        text.contains("\n[only the first 200 of 201 matching lines are shown; ")
            && text.lines().count() == MAX_HITS + 1
    );
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

#[tokio::test]
async fn a_search_that_is_not_wanted_stops() {
    let workspace = garden();
    let arguments = json!({"pattern": "plant"});
    let mut invocation = workspace.invocation("local/search_files", arguments.clone());
    let wanted: SearchFiles = serde_json::from_value(arguments).expect("arguments");
    let unwanted = Unwanted::default();
    invocation.deadline = tokio::time::Instant::now();
    let late = search(&invocation, &wanted, &Arc::default(), &unwanted).expect("what was found").plain();
    assert_eq!(late, "[the time was over before everything was searched; narrow `path` or `glob`]");
    unwanted.0.store(true, std::sync::atomic::Ordering::Relaxed);
    let stopped = search(&invocation, &wanted, &Arc::default(), &unwanted).expect_err("stopped").to_string();
    assert_eq!(stopped, "the search was stopped");
}

#[tokio::test]
async fn context_is_shown_around_matches_and_groups_are_apart() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "one\ntwo\nthree\nfour\nfive\nsix two\n");
    workspace.put("b.txt", "two\nend\n");
    let found = workspace.text(&search_files(Arc::default()), json!({"pattern": "two", "context": 1})).await;
    assert_eq!(
        found,
        "a.txt-1- one\na.txt:2: two\na.txt-3- three\n--\na.txt-5- five\na.txt:6: six two\n--\nb.txt:1: two\nb.txt-2- end"
    );
}

#[tokio::test]
async fn files_are_chosen_by_glob_and_shown_alone_or_counted() {
    let workspace = garden();
    let search = async |arguments| workspace.text(&search_files(Arc::default()), arguments).await;
    assert_eq!(
        search(json!({"pattern": "PLANT", "ignore_case": true, "glob": "*.txt"})).await,
        "notes.txt:1: plant a tree"
    );
    assert_eq!(search(json!({"pattern": "PLANT", "glob": "*.txt"})).await, r#"[no line has "PLANT"]"#);
    let files = search(json!({"pattern": "plant", "output": "files", "glob": "src/**/*.rs"})).await;
    assert_eq!(files, "src/deep/tree.rs\nsrc/main.rs");
    let counts = search(json!({"pattern": "plant", "output": "counts"})).await;
    assert_eq!(counts, "notes.txt: 1\nsrc/deep/tree.rs: 2\nsrc/main.rs: 1");
    let told = workspace.error(&search_files(Arc::default()), json!({"pattern": "a", "glob": "[x"})).await;
    assert!(told.starts_with("\"[x\" is not a glob: "), "{told}");
}

#[tokio::test]
async fn ignore_files_above_the_path_count_and_an_ignored_path_can_be_named() {
    let workspace = garden();
    workspace.put("src/ignored/y.rs", "plant\n");
    let search = async |path: &str| {
        workspace
            .text(&search_files(Arc::default()), json!({"pattern": "plant", "path": path, "output": "files"}))
            .await
    };
    assert_eq!(search("src").await, "src/deep/tree.rs\nsrc/main.rs");
    assert_eq!(search("src/ignored").await, "src/ignored/y.rs");
    assert_eq!(search("ignored/x.rs").await, "ignored/x.rs");
}

#[tokio::test]
async fn a_large_file_is_searched_when_it_is_named() {
    let workspace = Workspace::new();
    let large = usize::try_from(MAX_SEARCHED_BYTES).expect("small") + 1;
    workspace.put("large.txt", format!("{}\nhit\n", "a\n".repeat(large / 2)));
    let found = workspace.text(&search_files(Arc::default()), json!({"pattern": "hit"})).await;
    assert_eq!(
        found,
        "[no line has \"hit\"]\n[1 file is larger than 16 MiB and not searched; name one as `path` to search it]"
    );
    let found = workspace.text(&search_files(Arc::default()), json!({"pattern": "hit", "path": "large.txt"})).await;
    assert_eq!(found, format!("large.txt:{}: hit", large / 2 + 2));
}

#[tokio::test]
async fn of_too_many_hits_the_number_is_told() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "hit\n".repeat(300));
    workspace.put("b.txt", "hit\n".repeat(MAX_COUNTED));
    let search = async |arguments| workspace.text(&search_files(Arc::default()), arguments).await;
    let some = search(json!({"pattern": "hit", "path": "a.txt"})).await;
    assert!(
        some.contains("[only the first 200 of 300 matching lines are shown; narrow"),
        "{}",
        &some[some.len() - 200..]
    );
    let many = search(json!({"pattern": "hit", "context": 3})).await;
    assert!(many.contains("[only the first 200 of more than 10000 matching lines"), "{}", &many[many.len() - 200..]);
    (0..300).for_each(|n| workspace.put(&format!("c/{n:03}"), "hit\n"));
    let files = search(json!({"pattern": "hit", "output": "files"})).await;
    assert!(
        files.contains("[only the first 200 of 302 files with matches are shown"),
        "{}",
        &files[files.len() - 200..]
    );
    workspace.put("wide.txt", format!("{}\n", "x".repeat(400)).repeat(200));
    let wide = search(json!({"pattern": "x", "path": "wide.txt"})).await;
    assert!(wide.len() < MAX_TEXT_BYTES + 200 && wide.contains("of 200 matching lines"), "{}", wide.len());
}

#[tokio::test]
async fn files_are_chosen_by_their_type() {
    let workspace = garden();
    let search = async |arguments| workspace.text(&search_files(Arc::default()), arguments).await;
    let found = search(json!({"pattern": "plant", "type": "rust", "output": "files"})).await;
    assert_eq!(found, "src/deep/tree.rs\nsrc/main.rs");
    let both = search(json!({"pattern": "plant", "type": "rust", "glob": "main.*", "output": "files"})).await;
    assert_eq!(both, "src/main.rs");
    let named = search(json!({"pattern": "plant", "type": "rust", "path": "notes.txt"})).await;
    assert_eq!(named, "notes.txt:1: plant a tree", "a file that is named is searched");
    let told = workspace.error(&search_files(Arc::default()), json!({"pattern": "plant", "type": "pyton"})).await;
    assert!(told.starts_with("there is no type of files \"pyton\"; the nearest are python, "), "{told}");
}

#[tokio::test]
async fn texts_of_other_encodings_are_searched_as_they_are_read() {
    let workspace = Workspace::new();
    workspace.put("little.txt", TextEncoding::Utf16Le.encode("café\r\nthé\r\n").expect("it has all"));
    workspace.put("big.txt", TextEncoding::Utf16Be.encode("thé\n").expect("it has all"));
    workspace.put("western.txt", b"caf\xe9\nth\xe9\n");
    workspace.put("picture", b"\x89th\xe9\0");
    let found = workspace.text(&search_files(Arc::default()), json!({"pattern": "^thé$"})).await;
    assert_eq!(found, "big.txt:1: thé\nlittle.txt:2: thé\nwestern.txt:2: thé");
}

#[tokio::test]
async fn the_end_of_a_line_is_before_a_carriage_return() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "plant\r\nplant it\r\nplant");
    let found = workspace.text(&search_files(Arc::default()), json!({"pattern": "plant$", "context": 1})).await;
    assert_eq!(found, "a.txt:1: plant\na.txt-2- plant it\na.txt:3: plant");
}

#[tokio::test]
async fn a_large_file_is_searched_in_its_encoding() {
    let workspace = Workspace::new();
    let filler = "a line of nothing else\n".repeat(60_000);
    assert!(filler.len() as u64 > MAX_FILE_BYTES);
    let encoded = |text: String, encoding: TextEncoding| encoding.encode(&text).expect("it has them").into_owned();
    for encoding in [TextEncoding::Windows1252, TextEncoding::Utf8, TextEncoding::Utf16Le] {
        workspace.put("first.txt", encoded(format!("caf\u{e9} \u{20ac}\n{filler}"), encoding));
        workspace.put("last.txt", encoded(format!("{filler}caf\u{e9} \u{20ac}\n"), encoding));
        let wanted = json!({"pattern": "CAF\u{c9} .$", "ignore_case": true});
        let found = workspace.text(&search_files(Arc::default()), wanted).await;
        let expected = "first.txt:1: caf\u{e9} \u{20ac}\nlast.txt:60001: caf\u{e9} \u{20ac}";
        assert_eq!(found, expected, "{encoding}");
    }
}
