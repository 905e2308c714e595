//! The schema of the events: every kind and all output conforms to it, and it changes only with its version.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that unwraps fails where it stands")]

#[cfg(feature = "genai")]
#[path = "events/late.rs"]
mod late;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bob_actors::feed::contract::every_kind;
use bob_messages::event::SCHEMA;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::home::Home;

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
fn assert_fits(validator: &Validator, schema: &Value, event: &Value) {
    let errors: Vec<_> = validator.iter_errors(event).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{event:#}\n{errors:#?}");
    let kind = event["type"].as_str().unwrap();
    let one = schema["oneOf"].as_array().unwrap().iter().find(|one| one["title"] == kind).expect("its kind");
    let known: BTreeSet<_> = one["properties"].as_object().unwrap().keys().collect();
    let unknown: Vec<_> = event.as_object().unwrap().keys().filter(|key| !known.contains(key)).collect();
    assert!(unknown.is_empty(), "{kind} has keys that the schema does not name: {unknown:?}");
}

#[test]
fn every_kind_of_event_fits_the_schema_and_every_kind_in_it_exists() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mut seen = BTreeSet::new();
    for event in every_kind() {
        assert_fits(&validator, &schema, &event.to_json());
        seen.insert(event.to_json()["type"].as_str().unwrap().to_owned());
    }
    let named: BTreeSet<_> =
        schema["oneOf"].as_array().unwrap().iter().map(|one| one["title"].as_str().unwrap().to_owned()).collect();
    assert_eq!(seen, named);
    for wrong in ["seq", "type", "turn_id"] {
        let mut event = every_kind().remove(0).to_json();
        event.as_object_mut().unwrap().remove(wrong);
        assert!(!validator.is_valid(&event), "an event without {wrong} does not fit");
    }
}

#[test]
fn the_schema_changes_with_its_version_only() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/events/schema-{SCHEMA}.json"));
    let kept = fs::read_to_string(&kept).unwrap_or_else(|error| panic!("{}: {error}; keep a copy", kept.display()));
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert!(
        kept == schema(),
        "docs/events.schema.json is no longer version {SCHEMA}: raise bob_messages::event::SCHEMA and keep the new one as \
         tests/events/schema-N.json. What is only added and may be absent can go into the kept file as well"
    );
    assert_eq!(schema()["$id"], format!("urn:bob:events:{SCHEMA}"));
}

#[test]
fn what_the_program_prints_fits_what_it_says_of_it() {
    let call = json!({ "calls": [{ "name": "local/list_dir", "arguments": { "path": "." } }] });
    let home = Home::scripted(&json!([{ "replies": [call, { "text": "There you are." }] }]));
    let printed = home.run(["events-schema"]);
    let said: Value = serde_json::from_str(&printed.stdout).expect("a schema");
    assert_eq!((printed.code, &said), (Some(0), &schema()));
    let run = home.run(["run", "list", "--output", "stream-json"]);
    let validator = jsonschema::validator_for(&said).unwrap();
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.len() > 8, "{}\n{}", run.stdout, run.stderr);
    events.iter().for_each(|event| assert_fits(&validator, &said, event));
    // A run that ends before there was a turn has its one line, too.
    let refused = home.run(["run", "list", "--session", "not/an/id", "--output", "stream-json"]);
    assert_eq!(refused.stdout.lines().count(), 1, "{}", refused.stdout);
    assert_fits(&validator, &said, &serde_json::from_str(&refused.stdout).unwrap());
}
