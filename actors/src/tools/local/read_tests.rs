use super::*;
use crate::tools::local::fixture::Workspace;
use serde_json::json;

async fn read(workspace: &Workspace, arguments: serde_json::Value) -> String {
    workspace.text(&read_file(&Arc::default()), arguments).await
}

#[tokio::test]
async fn a_file_is_read_whole_with_the_numbers_of_its_lines() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "one\n\ntwo é\n");
    let output = workspace.run(&read_file(&Arc::default()), json!({"path": "a.txt"})).await.expect("it is there");
    assert_eq!(output.plain(), "1\tone\n2\t\n3\ttwo é");
    assert_eq!(output.locations.len(), 1);
    workspace.put("windows.txt", "\u{feff}one\r\ntwo");
    assert_eq!(read(&workspace, json!({"path": "windows.txt"})).await, "1\tone\n2\ttwo");
    workspace.put("empty.txt", "");
    assert_eq!(read(&workspace, json!({"path": "empty.txt"})).await, "[the file is empty]");
}

#[tokio::test]
async fn a_range_of_lines_is_read_and_what_is_not_shown_is_told() {
    let workspace = Workspace::new();
    workspace.put("a.txt", (1..=10).map(|n| format!("line {n}\n")).collect::<String>());
    let range = async |offset: u64, limit: u64| {
        read(&workspace, json!({"path": "a.txt", "offset": offset, "limit": limit})).await
    };
    assert_eq!(range(1, 2).await, "1\tline 1\n2\tline 2\n[lines 1 to 2 of 10; read on with \"offset\": 3]");
    assert_eq!(range(3, 2).await, "3\tline 3\n4\tline 4\n[lines 3 to 4 of 10; read on with \"offset\": 5]");
    assert_eq!(range(9, 2).await, "9\tline 9\n10\tline 10\n[lines 9 to 10; the file ends here]");
    assert_eq!(range(9, 9).await, "9\tline 9\n10\tline 10\n[lines 9 to 10; the file ends here]");
    assert!(!range(1, 10).await.contains('['), "it is all there");
    assert_eq!(range(11, 1).await, "[the file has 10 lines; there is no line 11]");
    assert_eq!(range(500, 1).await, "[the file has 10 lines; there is no line 500]");
    workspace.put("no-end.txt", "one\ntwo");
    let text = read(&workspace, json!({"path": "no-end.txt", "limit": 1})).await;
    assert_eq!(text, "1\tone\n[lines 1 to 1 of 2; read on with \"offset\": 2]");
}

/// What the notices say is followed to the end of the file; all that is read on the way.
async fn read_on(workspace: &Workspace, path: &str) -> (Vec<String>, usize) {
    let (mut lines, mut calls, mut arguments) = (Vec::<String>::new(), 0, json!({"path": path}));
    loop {
        calls += 1;
        let text = read(workspace, arguments.clone()).await;
        assert!(text.len() < MAX_TEXT_BYTES + 200, "{}", text.len());
        let (shown, notice) = text.rsplit_once('\n').filter(|(_, last)| last.starts_with('[')).unwrap_or((&text, ""));
        let goes_on = arguments["column"].as_u64().is_some();
        for (at, line) in shown.lines().enumerate() {
            let (number, line) = line.split_once('\t').expect("a number");
            match lines.last_mut() {
                Some(last) if at == 0 && goes_on => last.push_str(line),
                Some(_) | None => lines.push(line.to_owned()),
            }
            assert_eq!(number, lines.len().to_string());
        }
        let Some((_, on)) = notice.split_once("read on with ") else { return (lines, calls) };
        arguments = serde_json::from_str(&format!("{{{}}}", on.trim_end_matches(']'))).expect("arguments");
        arguments["path"] = json!(path);
    }
}

#[tokio::test]
async fn a_large_file_is_read_anywhere_by_following_the_notices() {
    let workspace = Workspace::new();
    let text: Vec<_> = (0..30_000).map(|n| format!("{n} {}", "é".repeat(n % 40))).collect();
    workspace.put("large.txt", text.join("\r\n"));
    let (lines, calls) = read_on(&workspace, "large.txt").await;
    assert!(lines == text && calls > 15, "{} lines in {calls} calls", lines.len());
    let last = read(&workspace, json!({"path": "large.txt", "offset": 29_999})).await;
    assert_eq!(
        last,
        format!("29999\t{}\n30000\t{}\n[lines 29999 to 30000; the file ends here]", text[29_998], text[29_999])
    );

    let long =
        ["short".to_owned(), "aé".repeat(100_000), "after".to_owned(), "b".repeat(MAX_TEXT_BYTES * 2), String::new()];
    workspace.put("long.txt", long.join("\n"));
    let (lines, _) = read_on(&workspace, "long.txt").await;
    assert!(lines == long[..4], "{:?}", lines.iter().map(String::len).collect::<Vec<_>>());
}

/// A file of so many bytes that take no room on the disk but the last ones.
fn sparse(workspace: &Workspace, path: &str, bytes: u64, end: &str) {
    use std::io::{Seek, SeekFrom, Write};
    let mut file = std::fs::File::create(workspace.path(path)).expect("a file");
    file.seek(SeekFrom::Start(bytes)).and_then(|_| file.write_all(end.as_bytes())).expect("written");
}

#[tokio::test]
async fn of_a_file_larger_than_is_counted_the_bytes_are_told() {
    let workspace = Workspace::new();
    sparse(&workspace, "huge.txt", MAX_COUNTED_BYTES + 10, "\nthe end\n");
    std::fs::OpenOptions::new()
        .write(true)
        .open(workspace.path("huge.txt"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"one\ntwo\n"))
        .expect("written");
    let text = read(&workspace, json!({"path": "huge.txt", "limit": 1})).await;
    assert_eq!(text, "1\tone\n[lines 1 to 1 of a file of 67108883 bytes; read on with \"offset\": 2]");
    let text = read(&workspace, json!({"path": "huge.txt", "offset": 4})).await;
    assert_eq!(text, "4\tthe end\n[lines 4 to 4; the file ends here]");
    let text = read(&workspace, json!({"path": "huge.txt", "offset": 3, "column": MAX_COUNTED_BYTES})).await;
    assert!(text.ends_with("\n4\tthe end\n[lines 3 to 4; the file ends here]"), "{text:?}");
}

#[tokio::test]
async fn a_reading_that_is_not_wanted_stops() {
    let unwanted = Unwanted::default();
    unwanted.0.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut lines = Lines { from: &b"one\ntwo\n"[..], at: 0, unwanted: &unwanted };
    assert!(matches!(lines.skip(1), Err(Stopped::Unwanted)));
}

#[tokio::test]
async fn what_is_no_text_is_refused() {
    let workspace = Workspace::new();
    workspace.put("picture.png", b"\x89PNG\xff\xfe");
    let told = workspace.error(&read_file(&Arc::default()), json!({"path": "picture.png"})).await;
    assert_eq!(told, format!("\"picture.png\" is not a text file: {NO_TEXT}; byte 0 is not UTF-8"));
    workspace.put("cut.txt", b"caf\xc3\xa9 abc\xc3");
    let told = workspace.error(&read_file(&Arc::default()), json!({"path": "cut.txt"})).await;
    assert!(told.contains("byte 9"), "{told}");
    let told = workspace.error(&read_file(&Arc::default()), json!({"path": "."})).await;
    assert!(told.contains("is a folder"), "{told}");
}

#[tokio::test]
async fn a_large_file_of_another_encoding_is_read() {
    let workspace = Workspace::new();
    let lines: String = (1..=100_000).map(|n| format!("thé {n}\r\n")).collect();
    for encoding in [TextEncoding::Utf16Le, TextEncoding::Windows1252] {
        workspace.put("large.txt", encoding.encode(&lines).expect("it has all"));
        let read = read(&workspace, json!({"path": "large.txt", "offset": 99_998, "limit": 2})).await;
        let shown = "99998\tthé 99998\n99999\tthé 99999\n";
        let notice = "[lines 99998 to 99999 of 100000; read on with \"offset\": 100000]";
        assert_eq!(read, format!("{shown}{notice}\n[the file is {encoding}]"));
    }
    workspace.put("large.bin", b"\x01\xe9\n".repeat(500_000));
    let told = workspace.error(&read_file(&Arc::default()), json!({"path": "large.bin", "offset": 3})).await;
    assert!(
        told.contains("neither UTF-8, UTF-16 with a byte order mark, nor Windows-1252; byte 7 is not UTF-8"),
        "{told}"
    );
}

#[tokio::test]
async fn a_large_text_with_a_fault_is_not_shown_as_another_text() {
    let workspace = Workspace::new();
    let lines: String = (1..=100_000).map(|n| format!("thé {n}\n")).collect();
    let error = async |bytes: Vec<u8>, offset: u64| {
        workspace.put("large.txt", bytes);
        let arguments = json!({"path": "large.txt", "offset": offset, "limit": 5_000});
        workspace.error(&read_file(&Arc::default()), arguments).await
    };
    // UTF-8 with one byte that is none, near the lines that are shown, and behind those that fit as Windows-1252.
    for line in ["thé 3\n", "thé 3500\n"] {
        let at = lines.find(line).expect("it is there");
        let bad = [&lines.as_bytes()[..at], b"\xe9", &lines.as_bytes()[at..]].concat();
        let told = error(bad, 2).await;
        assert!(told.contains(&format!("byte {at} is not UTF-8")), "{told}");
    }
    for unit in [0x0000_u16, 0xd83d] {
        let mut bytes = TextEncoding::Utf16Le.encode(&lines).expect("it has all").into_owned();
        bytes.splice(10..12, unit.to_le_bytes());
        let told = error(bytes, 1).await;
        assert!(told.contains("is not a text file"), "{unit:x}: {told}");
    }
    // The sign that stands for what cannot be read is a character as well.
    let signed = lines.replacen("thé 2", "th\u{fffd} 2", 1);
    workspace.put("large.txt", TextEncoding::Utf16Le.encode(&signed).expect("it has all"));
    let shown = read(&workspace, json!({"path": "large.txt", "limit": 2})).await;
    assert!(shown.starts_with("1\tthé 1\n2\tth\u{fffd} 2\n"), "{shown}");
}
