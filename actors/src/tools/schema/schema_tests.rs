//! Schemas as people write them, and as nobody should.

use super::*;
use serde_json::{Map, json};
use std::time::{Duration, Instant};

/// Longer than any of this takes on a crowded machine without optimisation, and far below what it would take unbounded.
const SOON: Duration = Duration::from_secs(5);

/// What is said of arguments, in one word.
fn judged(schema: &Value, arguments: &Value) -> &'static str {
    match Checker::read(schema) {
        Err(_) => "broken",
        Ok(checker) => match checker.check(schema, arguments) {
            Ok(()) => "fits",
            Err(Misfit::Complaints(complaints)) => {
                assert!(!complaints.is_empty() && complaints.iter().all(|said| said.len() < 700), "{complaints:?}");
                "misfit"
            }
            Err(Misfit::TooMuch) => "too much",
        },
    }
}

/// Parts that each refer twice to the next one.
fn doubling(levels: usize, keyword: &str) -> Value {
    let mut parts = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        parts.insert(format!("d{level}"), json!({keyword: [next, next]}));
    }
    parts.insert(format!("d{levels}"), json!({"minProperties": 1}));
    json!({"$ref": "#/$defs/d0", "$defs": parts})
}

/// Parts that each refer to the next one.
fn chain(length: usize) -> Value {
    let part = |at: usize| (format!("d{at}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", at + 1)}]}));
    let mut parts: Map<String, Value> = (0..length).map(part).collect();
    parts.insert(format!("d{length}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/d0", "$defs": parts})
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"a": inner}))
}

fn words(count: usize) -> Value {
    (0..count).map(|number| format!("word {number}")).collect()
}

fn patterns(count: usize) -> Value {
    let pattern = |number: usize| (format!("^.*x{number}.*$"), json!({"type": "string"}));
    Value::Object((0..count).map(pattern).collect())
}

#[test]
fn b7_a_hostile_schema_costs_bounded_time_and_no_stack() {
    let field = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    let twice = json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
    let anchored = json!({"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}, {"$dynamicRef": "#x"}]});
    let rows: Vec<(&str, Value, Value, &str)> = vec![
        (
            "catastrophic pattern",
            field(json!({"pattern": "^(a+)+$"})),
            json!({"a": "a".repeat(100_000) + "!"}),
            "misfit",
        ),
        ("nested stars", field(json!({"pattern": "(a*)*(a*)*(a*)*b$"})), json!({"a": "a".repeat(500_000)}), "misfit"),
        ("back reference", field(json!({"pattern": "(a)\\1"})), json!({"a": "aa"}), "broken"),
        ("look ahead", field(json!({"pattern": "(?=(a+)+$)b"})), json!({"a": "aa"}), "broken"),
        ("pattern of megabytes", field(json!({"pattern": "(?:x{999}){999}"})), json!({"a": "x"}), "broken"),
        ("letters in powers", field(json!({"pattern": "(?:\\p{L}{0,60}){0,60}"})), json!({"a": "x"}), "broken"),
        ("hundreds of patterns", json!({"patternProperties": patterns(3_000)}), json!({"k": 1}), "broken"),
        (
            "a pattern as an argument",
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"format": "regex"}}}),
            json!({"a": "(?:\\p{L}{0,90}){0,90}"}),
            "fits",
        ),
        ("itself", json!({"$ref": "#"}), json!({"a": 1}), "fits"),
        ("all of itself", json!({"allOf": [{"$ref": "#"}]}), json!({"a": 1}), "fits"),
        ("not itself", json!({"not": {"$ref": "#"}}), json!({"a": 1}), "misfit"),
        ("itself by name", anchored, json!({"a": 1}), "fits"),
        (
            "a circle",
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            json!({}),
            "fits",
        ),
        ("doubled 30 times, all", doubling(30, "allOf"), json!({"a": 1}), "too much"),
        ("doubled 30 times, any", doubling(30, "anyOf"), json!({}), "too much"),
        ("doubled 30 times, one", doubling(30, "oneOf"), json!({}), "too much"),
        ("doubled at each level", twice, nested(90), "too much"),
        ("a chain of 400", chain(400), json!({}), "broken"),
        ("a chain of 20,000", chain(20_000), json!({}), "broken"),
        ("a chain that is read", chain(200), json!({}), "fits"),
        ("100,000 words", field(json!({"enum": words(100_000)})), json!({"a": "word 99999"}), "fits"),
        ("100,000 words, none of them", field(json!({"enum": words(100_000)})), json!({"a": "word"}), "misfit"),
        (
            "words times words",
            field(json!({"items": {"enum": words(20_000)}})),
            json!({"a": words(20_000)}),
            "too much",
        ),
        ("deep all of", (0..60).fold(json!(true), |inner, _| json!({"allOf": [inner]})), nested(90), "fits"),
        ("no schema at all", json!([1]), json!({}), "broken"),
        ("a type that is none", json!({"type": "objekt"}), json!({}), "broken"),
    ];
    let mut slowest = (Duration::ZERO, "");
    for (name, schema, arguments, expected) in &rows {
        let began = Instant::now();
        assert_eq!(judged(schema, arguments), *expected, "{name}");
        slowest = slowest.max((began.elapsed(), name));
    }
    println!("figure: B7 {} hostile schemas, the slowest {:?} ({})", rows.len(), slowest.0, slowest.1);
    assert!(slowest.0 < SOON, "{slowest:?}");
}

#[test]
fn b7_nothing_is_fetched_for_a_schema() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/schema.json", listener.local_addr().expect("its address"));
    for schema in [
        json!({"$ref": address}),
        json!({"$ref": format!("{address}#/$defs/a")}),
        json!({"$dynamicRef": format!("{address}#x")}),
        json!({"properties": {"a": {"$ref": address}}}),
        json!({"$id": address, "$ref": "other.json"}),
        json!({"properties": {"a": {"$id": address, "$ref": "#/$defs/b"}}}),
        json!({"$schema": address}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "other.json"}),
        json!({"$ref": "//127.0.0.1/x"}),
    ] {
        assert_eq!(judged(&schema, &json!({"a": {}})), "broken", "{schema}");
    }
    listener.set_nonblocking(true).expect("a listener that can be asked");
    assert_eq!(listener.accept().expect_err("nobody came").kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn what_people_write_is_checked_as_it_says() {
    let tree = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/Node",
        "$defs": {"Node": {
            "type": "object", "required": ["name"], "additionalProperties": false,
            "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        }},
    });
    let grown =
        (0..30).fold(json!({"name": "leaf"}), |inner, _| json!({"name": "n", "children": [inner, {"name": "x"}]}));
    assert_eq!(judged(&tree, &grown), "fits");
    assert_eq!(judged(&tree, &json!({"name": "n", "children": [{"name": 1}]})), "misfit");

    let old = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.org/tool",
        "type": "object", "properties": {"a": {"$ref": "#/definitions/List%3Cint%3E"}, "b": {"$ref": "https://example.org/tool#/definitions/c"}},
        "definitions": {"List<int>": {"type": "array", "items": {"type": "integer"}}, "c": {"const": 7}},
    });
    assert_eq!(judged(&old, &json!({"a": [1, 2], "b": 7})), "fits");
    assert_eq!(judged(&old, &json!({"a": [1, "2"]})), "misfit");
    assert_eq!(judged(&old, &json!({"b": 8})), "misfit");

    let named = json!({"properties": {"a": {"$ref": "#text"}}, "$defs": {"t": {"$anchor": "text", "type": "string"}}});
    assert_eq!((judged(&named, &json!({"a": "x"})), judged(&named, &json!({"a": 1}))), ("fits", "misfit"));

    let numbers = json!({"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "number"}}}});
    let many: Vec<u32> = (0..200_000).collect();
    assert_eq!(judged(&numbers, &json!({"rows": many})), "fits");
    let mut odd: Vec<Value> = many.into_iter().map(Value::from).collect();
    odd.push(json!("x"));
    assert_eq!(judged(&numbers, &json!({"rows": odd})), "misfit");
}
