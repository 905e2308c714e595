use super::*;
use proptest::prelude::*;
use tokio::io::AsyncReadExt;

/// The filtered output of these bytes, read in pieces of this size.
fn sifted(bytes: &[u8], limit: usize, piece: usize) -> String {
    let (mut line, mut sifted) = (Line::new(limit), Vec::new());
    bytes.chunks(piece).for_each(|piece| line.sift(piece, &mut sifted));
    String::from_utf8_lossy(&sifted).into_owned()
}

fn nested(levels: usize, inside: &str) -> String {
    format!("{}{inside}{}", r#"{"a":["#.repeat(levels), "]}".repeat(levels))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
    }
}

#[test]
fn b5_what_lies_too_deep_is_null_and_what_stands_beside_it_stays() {
    for (levels, is_whole) in [(59, true), (60, false), (61, false), (50_000, false), (1_000_000, false)] {
        let line = format!("{{\"deep\":{},\"beside\":[1,\"}}]\"]}}\n", nested(levels, r#""\"]}{[\\""#));
        for piece in [1, 7, 1 << 20].into_iter().filter(|piece| levels < 100_000 || *piece > 1_000) {
            let passed = sifted(line.as_bytes(), 64 << 20, piece);
            let value: Value = serde_json::from_str(&passed).expect("JSON");
            assert_eq!((&value["beside"], passed == line), (&json!([1, "}]"]), is_whole), "{levels}");
            assert_eq!(depth(&value), (levels * 2 + 1).min(DEEPEST));
        }
    }
}

#[test]
fn a_line_leaves_nothing_to_the_next() {
    let good = "{\"fine\":[true]}\n";
    for bad in ["[[[{", "\"half a text", "\"half an escape\\", "]]}}", "[\"", "{\"a\":\""] {
        let deep = "[".repeat(5_000);
        for bad in [bad, &format!("{deep}{bad}")] {
            let passed = sifted(format!("{bad}\n{good}").as_bytes(), 1 << 20, 3);
            assert!(passed.ends_with(&format!("\n{good}")), "{passed}");
        }
    }
}

#[test]
fn an_answer_that_is_too_long_becomes_an_error() {
    let long = format!(r#"{{"content":["{}"]}}"#, "x".repeat(500));
    let late = format!(r#"{{"jsonrpc":"2.0","result":{long},"id":1234567}}"#);
    for (line, id) in [
        (format!(r#"{{"jsonrpc":"2.0","id":1234567,"result":{long}}}"#), "1234567"),
        (format!(r#"{{"id":"a\"b","error":{long}}}"#), r#""a\"b""#),
        (late, "1234567"),
    ] {
        // Wherever the limit falls, also within the number.
        for (limit, piece) in (60..line.len()).flat_map(|limit| [(limit, 1), (limit, 5), (limit, 4096)]) {
            let passed = sifted(format!("{line}\n{{}}\n").as_bytes(), limit, piece);
            let lines: Vec<&str> = passed.lines().collect();
            assert_eq!(lines.len(), 3, "{limit}, {piece}: {passed}");
            assert_eq!((lines[0].trim_end().len() <= limit, lines[0].len()), (true, limit + 1));
            assert!(lines[1].contains(&format!(r#""id":{id},"error":{{"code":-32064,"#)), "{limit}: {passed}");
            assert_eq!(lines[2], "{}");
        }
        assert_eq!(sifted(format!("{line}\n").as_bytes(), line.len(), 5), format!("{line}\n"));
    }
}

#[test]
fn the_error_comes_before_the_end_of_the_line() {
    let unfinished = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{}"#, "x".repeat(500));
    assert!(sifted(unfinished.as_bytes(), 100, 50).ends_with("\n"));
    assert!(sifted(unfinished.as_bytes(), 100, 50).contains(r#""id":7,"error""#));
}

#[test]
fn what_is_no_answer_and_too_long_is_only_dropped() {
    let long = "x".repeat(5_000);
    for line in [
        long.clone(),
        format!("\"{long}"),
        format!("[\"{long}\"]"),
        format!(r#"{{"id":3,"method":"ping","params":{{"a":"{long}"}}}}"#),
        format!(r#"{{"id":null,"result":{{"a":"{long}"}}}}"#),
        format!(r#"{{"id":{{"a":1}},"result":{{"a":"{long}"}}}}"#),
        format!(r#"{{"id":3,"{long}":1,"result":{{"a":"{long}"}}}}"#),
        format!(r#"{{"id":3 "result":{{"a":"{long}"}}}}"#),
    ] {
        let passed = sifted(format!("{line}\n{{}}\n").as_bytes(), 100, 11);
        assert_eq!(passed.lines().count(), 2, "{passed}");
        assert!(passed.ends_with("\n{}\n"));
    }
}

#[tokio::test]
async fn a_sieve_is_a_reader_like_the_one_below_it() {
    let text: String = (0..5_000).map(|number| format!("{{\"number\":{number}}}\n")).collect();
    let mut passed = String::new();
    Sieve::new(text.as_bytes(), 1 << 20).read_to_string(&mut passed).await.expect("it reads");
    assert_eq!(passed, text);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        r#"["\\{}\[\]a-c\n\u{e9}]{0,8}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((r#"["\\{}\[\]a]{0,4}"#, inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn fit_lines_pass_byte_for_byte(values in prop::collection::vec(value(), 1..5), piece in 1_usize..50) {
        let text: String = values.iter().map(|value| format!("{value}\n")).collect();
        prop_assert_eq!(sifted(text.as_bytes(), 1 << 20, piece), text);
    }

    #[test]
    fn pieces_change_nothing(bytes in r#"["\\{}\[\]a:1,\n]{0,200}"#, piece in 1_usize..20, limit in 1_usize..60) {
        prop_assert_eq!(sifted(bytes.as_bytes(), limit, piece), sifted(bytes.as_bytes(), limit, 1 << 20));
    }
}

#[tokio::test]
async fn a_line_is_large_from_a_mebibyte_on_until_it_ends() {
    let text = format!("\"{}\"\n{{}}\n", "x".repeat(2 * LARGE_BYTES));
    let mut sieve = Sieve::new(text.as_bytes(), 64 << 20);
    let is_large = sieve.is_large();
    let (mut read, mut was_large) = (0, Vec::new());
    let mut piece = vec![0; CHUNK_BYTES];
    loop {
        match sieve.read(&mut piece).await.expect("it reads") {
            0 => break,
            bytes => read += bytes,
        }
        was_large.push(is_large.load(Ordering::Relaxed));
    }
    assert_eq!(read, text.len());
    let first = was_large.iter().position(|is_large| *is_large).expect("it is large");
    assert_eq!(first, LARGE_BYTES / CHUNK_BYTES);
    assert_eq!(was_large.last(), Some(&false), "the next line is small");
}
