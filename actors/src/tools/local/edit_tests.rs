use super::*;
use crate::tools::local::fixture::Workspace;
use crate::tools::local::read::read_file;
use serde_json::json;

#[tokio::test]
async fn one_text_is_replaced() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "one\ntwo\nthree\n");
    let arguments = json!({"path": "a.txt", "old": "two", "new": "2"});
    let output = workspace.run(&edit_file(&Arc::default()), arguments).await.expect("edited");
    assert_eq!(workspace.get("a.txt"), "one\n2\nthree\n");
    assert_eq!(output.locations[0].line, Some(2));
    assert_eq!(output.changes[0].before.as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(output.changes[0].after.as_deref(), Some("one\n2\nthree\n"));
    workspace.text(&edit_file(&Arc::default()), json!({"path": "a.txt", "old": "\n2", "new": ""})).await;
    assert_eq!(workspace.get("a.txt"), "one\nthree\n");
}

#[tokio::test]
async fn a_text_that_is_not_there_once_changes_nothing() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "aaa b b éé");
    for (old, expected) in
        [("x", "is not there"), ("b", "2 times"), ("aa", "2 times"), ("é", "2 times"), ("", "is empty")]
    {
        let told = workspace.error(&edit_file(&Arc::default()), json!({"path": "a.txt", "old": old, "new": "y"})).await;
        assert!(told.contains(expected), "{old:?}: {told}");
    }
    workspace.error(&edit_file(&Arc::default()), json!({"path": "a.txt", "old": "aaa", "new": "aaa"})).await;
    workspace.put("large.txt", "a".repeat(usize::try_from(MAX_FILE_BYTES).expect("small") + 1));
    let told = workspace.error(&edit_file(&Arc::default()), json!({"path": "large.txt", "old": "b", "new": "y"})).await;
    assert!(told.contains("at most"), "{told}");
    workspace.put("binary", b"\xff");
    let told = workspace.error(&edit_file(&Arc::default()), json!({"path": "binary", "old": "b", "new": "y"})).await;
    assert!(told.contains("not a text file"), "{told}");
    assert_eq!(workspace.get("a.txt"), "aaa b b éé");
}

#[tokio::test]
async fn several_edits_are_made_together_or_not_at_all() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "one\r\ntwo\r\ntwo\r\n");
    let edit = async |edits| workspace.run(&edit_file(&Arc::default()), json!({"path": "a.txt", "edits": edits})).await;
    let told = edit(json!([{"old": "one", "new": "1"}, {"old": "x", "new": "y"}])).await.unwrap_err().to_string();
    assert_eq!(
        told,
        "\"a.txt\" cannot be edited: edit 2 of 2: the text in `old` is not there; read the file again; nothing was changed"
    );
    assert_eq!(workspace.get("a.txt"), "one\r\ntwo\r\ntwo\r\n");
    let output = edit(json!([{"old": "two", "new": "2", "replace_all": true}, {"old": "one\n2", "new": "1\n2"}])).await;
    let output = output.expect("edited");
    assert_eq!(workspace.get("a.txt"), "1\r\n2\r\n2\r\n");
    assert_eq!(output.plain(), "replaced 3 texts in a.txt at lines 1, 2, 3");
    assert_eq!(output.changes.len(), 1, "one change of one file");
    assert_eq!(output.changes[0].before.as_deref(), Some("one\r\ntwo\r\ntwo\r\n"));
    assert_eq!(output.changes[0].after.as_deref(), Some("1\r\n2\r\n2\r\n"));
}

#[tokio::test]
async fn an_edit_is_written_in_one_way() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "one one");
    let one = json!({"old": "one", "new": "1", "replace_all": true});
    for (arguments, expected) in [
        (json!({"path": "a.txt"}), "give `old` and `new`"),
        (json!({"path": "a.txt", "old": "one"}), "give `old` and `new`"),
        (json!({"path": "a.txt", "old": "one", "new": "1", "edits": [one]}), "not both"),
        (json!({"path": "a.txt", "edits": [one], "replace_all": true}), "no meaning"),
        (json!({"path": "a.txt", "edits": [{"old": "one"}]}), "new"),
    ] {
        let told = workspace.error(&edit_file(&Arc::default()), arguments).await;
        assert!(told.contains(expected), "{told}");
    }
    let arguments = json!({"path": "a.txt", "old": "one", "new": "1", "replace_all": true});
    let told = workspace.text(&edit_file(&Arc::default()), arguments).await;
    assert_eq!((told.as_str(), workspace.get("a.txt").as_str()), ("replaced 2 texts in a.txt, all at line 1", "1 1"));
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_edited() {
    let (workspace, seen) = (Workspace::new(), Arc::default());
    workspace.put("a.txt", "one\ntwo\n");
    let arguments = json!({"path": "a.txt", "old": "two", "new": "2"});
    workspace.text(&read_file(&seen), json!({"path": "a.txt", "limit": 1})).await;
    workspace.put("a.txt", "1\ntwo\n");
    let told = workspace.error(&edit_file(&seen), arguments.clone()).await;
    assert!(told.contains("has changed since") && told.contains("-one\n+1\n"), "{told}");
    assert_eq!(workspace.get("a.txt"), "1\ntwo\n");
    workspace.text(&edit_file(&seen), arguments).await;
    assert_eq!(workspace.get("a.txt"), "1\n2\n");
    workspace.text(&edit_file(&seen), json!({"path": "a.txt", "old": "1", "new": "one"})).await;
    assert_eq!(workspace.get("a.txt"), "one\n2\n", "its own edits are seen");
}

#[tokio::test]
async fn a_file_keeps_its_encoding() {
    for (encoding, name) in [
        (TextEncoding::Utf16Le, "UTF-16LE"),
        (TextEncoding::Utf16Be, "UTF-16BE"),
        (TextEncoding::Windows1252, "Windows-1252"),
    ] {
        let (workspace, seen) = (Workspace::new(), Arc::default());
        let bytes = |text: &str| encoding.encode(text).expect("it has all").into_owned();
        workspace.put("a.txt", bytes("café\r\n“two”\r\n"));
        let read = workspace.text(&read_file(&seen), json!({"path": "a.txt"})).await;
        assert_eq!(read, format!("1\tcafé\n2\t“two”\n[the file is {name}]"));
        let arguments = json!({"path": "a.txt", "old": "café\n", "new": "thé\n€\n"});
        let output = workspace.run(&edit_file(&seen), arguments).await.expect("edited");
        assert_eq!(output.plain(), format!("replaced one text in a.txt at line 1, in {name}"));
        let now = std::fs::read(workspace.path("a.txt")).expect("there");
        assert_eq!(now, bytes("thé\r\n€\r\n“two”\r\n"));
        let change = &output.changes[0];
        assert_eq!(change.content_before().unwrap().unwrap(), bytes("café\r\n“two”\r\n"));
        assert_eq!(change.content_after().unwrap().unwrap(), now);
        assert!(!change.is_rough && change.before.as_deref().is_some_and(|before| before.ends_with("“two”\r\n")));

        // Another program changed it: what changed is told as text.
        workspace.put("a.txt", bytes("thé\r\n€\r\n“2”\r\n"));
        let told = workspace.error(&edit_file(&seen), json!({"path": "a.txt", "old": "€", "new": "$"})).await;
        assert!(told.contains("-“two”\r\n+“2”\nmake the call again"), "{told}");
    }
}

#[tokio::test]
async fn what_an_encoding_does_not_have_is_not_written() {
    let workspace = Workspace::new();
    workspace.put("a.txt", b"caf\xe9 and tea\n");
    let told = workspace.error(&edit_file(&Arc::default()), json!({"path": "a.txt", "old": "tea", "new": "☕"})).await;
    assert_eq!(
        told,
        "\"a.txt\" cannot be edited: it is Windows-1252, which does not have '☕'; nothing was changed; use other \
         characters, or convert it to UTF-8 first"
    );
    let told =
        workspace.error(&edit_file(&Arc::default()), json!({"path": "a.txt", "old": "é and", "new": "Ã©"})).await;
    assert!(told.contains("the text would not be Windows-1252 any more; nothing was changed"), "{told}");
    assert_eq!(std::fs::read(workspace.path("a.txt")).expect("there"), b"caf\xe9 and tea\n");
}
