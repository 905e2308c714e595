//! Records of older and newer formats, and of kinds that are not known.

use super::*;
use crate::ids::ModelName;
use serde_json::json;

/// Records of format 0, which there never was, said `begun` where today's say `started`.
fn zero_to_one(record: &mut Value) -> Result<(), String> {
    if record["kind"] == "begun" {
        record["kind"] = "started".into();
        let model = record["body"].get("with").cloned().ok_or("it began with nothing")?;
        record["body"] = json!({ "model": model });
    }
    Ok(())
}

const FROM_ZERO: Formats = Formats::new(0, &[Step::Changes(zero_to_one), Step::Adds]);

fn text(format: u32, kind: &str, body: &Value) -> Vec<u8> {
    let record = json!({
        "format": format, "id": "1-1", "session": "s", "version": 1, "epoch": 1, "turn": null, "at": 7,
        "kind": kind, "body": body, "more": "an unknown field",
    });
    serde_json::to_vec(&record).unwrap()
}

fn started() -> Value {
    json!({"model": "scripted:m", "more": 1})
}

#[test]
fn kinds_are_those_that_are_written() {
    let kinds = Fact::kinds();
    assert!(["options", "withdrawn", "approval_asked", "skills_selected"].iter().all(|kind| kinds.contains(kind)));
    assert!(!kinds.contains(&""), "{kinds:?}");
    assert_eq!((FORMAT, kinds.len()), (4, 21), "a new kind of fact needs a new format: see the head of format.rs");
}

#[test]
fn every_format_there_was_is_read_and_unknown_fields_are_ignored() {
    let model = ModelName::parse("scripted:m").unwrap();
    for format in Formats::KNOWN.all() {
        let read = Formats::KNOWN.read(&text(format, "started", &started())).unwrap();
        assert_eq!((read.format, &read.fact), (format, &Fact::Started { model: model.clone(), selected: None }));
        assert_eq!(Formats::KNOWN.brought_up(&text(format, "started", &started())), Ok(None), "it stands as it is");
    }
    let old = text(0, "begun", &json!({"with": "scripted:m"}));
    let read = FROM_ZERO.read(&old).unwrap();
    assert_eq!(
        (read.format, &read.fact),
        (1, &Fact::Started { model, selected: None }),
        "the last step left it as it was"
    );
    let brought_up = FROM_ZERO.brought_up(&old).unwrap().unwrap();
    assert_eq!(Formats::KNOWN.read(&brought_up), Ok(read));
}

#[test]
fn what_is_newer_is_too_new_and_no_damage() {
    for kind in ["started", "what_ever_comes"] {
        let newer = text(FORMAT + 7, kind, &json!({"other": 1}));
        assert_eq!(Formats::KNOWN.read(&newer), Err(BadRecord::TooNew(FORMAT + 7)), "{kind}");
    }
    for format in Formats::KNOWN.all() {
        let unknown = text(format, "what_ever_comes", &json!({"other": 1}));
        assert_eq!(Formats::KNOWN.read(&unknown), Err(BadRecord::TooNew(FORMAT + 1)), "an unknown kind");
    }
}

#[test]
fn what_is_no_record_is_damaged() {
    let bad = [
        text(1, "started", &json!({})),
        text(0, "started", &started()),
        b"[]".to_vec(),
        b"{".to_vec(),
        b"{\"format\":1}".to_vec(),
        b"{\"format\":-1,\"kind\":\"what_ever_comes\"}".to_vec(),
    ];
    for text in bad {
        let read = Formats::KNOWN.read(&text);
        assert!(matches!(read, Err(BadRecord::Damaged(_))), "{read:?} for {}", String::from_utf8_lossy(&text));
    }
    let without = FROM_ZERO.read(&text(0, "begun", &json!({})));
    assert_eq!(without, Err(BadRecord::Damaged("it began with nothing".to_owned())));
}
