//! `run --output-schema` and `batch` lines with a schema.

use serde_json::{Value, json};

use crate::home::Home;

const SCHEMA: &str = r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}"#;

fn home(replies: Value) -> Home {
    let home = Home::scripted(&json!([{ "replies": replies }]));
    home.scratch.write("schema.json", SCHEMA);
    home
}

#[test]
fn a_run_prints_json_that_fits() {
    let home = home(json!([{ "text": "{ \"n\": \"7\" }" }, { "text": "{ \"n\": 7 }" }]));
    let run = home.run(["run", "--output-schema", "schema.json", "how many?"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "{\"n\":7}\n"), "{run:?}");
    let (code, line) = home.json(["--output-schema", "schema.json", "how many?"]);
    assert_eq!((code, &line["content"], &line["steps"]), (Some(0), &json!("{\"n\":7}"), &json!(2)));
}

#[test]
fn a_model_that_never_fits_ends_the_run_with_its_code() {
    let home = home(json!([{ "text": "seven" }]));
    let (code, line) = home.json(["--output-schema", "schema.json", "how many?"]);
    assert_eq!((code, &line["error"]["kind"]), (Some(5), &json!("llm")), "{line}");
}

#[test]
fn a_wrong_schema_is_a_usage_error_with_its_place() {
    let home = home(json!([{ "text": "{}" }]));
    for (text, complaint) in [
        ("{\n  \"type\": }", "schema.json:2:11: expected value"),
        (r#"{"type": "strin"}"#, "no JSON schema that can be used"),
        ("[]", "must be a JSON object"),
    ] {
        home.scratch.write("schema.json", text);
        let run = home.run(["run", "--output-schema", "schema.json", "--session", "s", "how many?"]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains(complaint), "{complaint}: {run:?}");
    }
    assert_eq!(home.run(["run", "--output-schema", "nowhere.json", "x"]).code, Some(2));
    assert_eq!(home.run(["sessions", "show", "s"]).code, Some(2), "nothing was begun");
}

#[test]
fn lines_of_a_batch_have_schemas_of_their_own() {
    let home = home(json!([{ "text": "{\"n\": 7}" }]));
    let lines = [
        json!({"session": "a", "prompt": "x", "output_schema": {"required": ["n"]}}),
        json!({"session": "b", "prompt": "x", "output_schema": {"required": ["m"]}}),
        json!({"session": "c", "prompt": "x", "output_schema": {"type": 3}}),
        json!({"session": "d", "prompt": "x"}),
    ];
    home.scratch.write("lines.jsonl", lines.map(|line| line.to_string()).join("\n"));
    let run = home.run(["batch", "lines.jsonl"]);
    let mut results: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    results.sort_by_key(|result| result["line"].as_u64());
    let seen: Vec<_> =
        results.iter().map(|result| (result["content"].as_str().unwrap(), result["error"]["kind"].as_str())).collect();
    assert_eq!(seen[0], ("{\"n\":7}", None));
    assert_eq!(seen[1].1, Some("llm"));
    assert_eq!(seen[2].1, Some("invalid"));
    assert_eq!(seen[3], ("{\"n\": 7}", None));
}
