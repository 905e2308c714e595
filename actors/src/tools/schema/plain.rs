//! Which schemas are plain: everything they say is checked by [`quick`](super::quick), too.
//!
//! What `quick` takes then fits by JSON Schema. What it refuses may still fit (`1.0` where `1` is a choice), so that the
//! library has the last word about it.

use serde_json::{Map, Value};

const TYPES: [&str; 7] = ["null", "boolean", "string", "array", "object", "number", "integer"];

/// Below this each whole number is a float of its own, so that comparing with it as one is exact.
///
/// At this bound itself it is not: the next whole number becomes the same float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Whether each keyword at each level is one whose whole meaning `quick` checks, and is well formed.
///
/// `format` is one of them, since the newest dialect, which an absent `$schema` means, takes it for a remark.
pub(super) fn covers(schema: &Value) -> bool {
    let newest = ["https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#"];
    let dialect = schema.get("$schema");
    dialect.is_none_or(|dialect| dialect.as_str().is_some_and(|dialect| newest.contains(&dialect)))
        && is_plain(schema, true)
}

fn is_plain(schema: &Value, is_top: bool) -> bool {
    let Value::Object(keywords) = schema else { return false };
    keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        "$schema" => is_top,
        "title" | "description" | "format" => value.is_string(),
        "default" => true,
        "type" => is_type(value),
        "enum" => is_choice(value),
        "minimum" | "maximum" => value.as_f64().is_some_and(|bound| bound.abs() < EXACT),
        "required" => is_names(value),
        "additionalProperties" => value.is_boolean(),
        "properties" => value.as_object().is_some_and(are_plain),
        "items" => is_plain(value, false),
        _other => false,
    })
}

fn are_plain(properties: &Map<String, Value>) -> bool {
    properties.values().all(|property| is_plain(property, false))
}

fn is_type(value: &Value) -> bool {
    let is_known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(names) => !names.is_empty() && names.iter().all(is_known) && differ(names),
        name => is_known(name),
    }
}

/// Lists and objects among choices are not compared by `quick`.
fn is_choice(value: &Value) -> bool {
    value.as_array().is_some_and(|choices| {
        !choices.is_empty() && choices.iter().all(|choice| !choice.is_array() && !choice.is_object())
    })
}

fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string) && differ(names))
}

/// Whether no two are equal; of a long list that is not known here.
fn differ(values: &[Value]) -> bool {
    values.len() <= 64 && values.iter().enumerate().all(|(at, value)| !values[..at].contains(value))
}

#[cfg(test)]
mod tests {
    use super::super::{full, quick, small};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-2i64..3).prop_map(Value::from),
            prop::sample::select(vec![0.0, 1.0, 1.5, -2.0, 1e300]).prop_map(Value::from),
            prop::sample::select(vec![u64::MAX, (1 << 53) - 1, 1 << 53, (1 << 53) + 1]).prop_map(Value::from),
            prop::sample::select(vec!["", "a", "b", "1"]).prop_map(Value::from),
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        scalar().prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(
                    prop::sample::select(vec!["a", "b", "c"]).prop_map(String::from),
                    inner,
                    0..3
                )
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn kind() -> impl Strategy<Value = Value> {
        let names = prop::sample::subsequence(TYPES.to_vec(), 1..3);
        names.prop_map(|names| if names.len() == 1 { json!(names[0]) } else { json!(names) })
    }

    /// A schema of plain keywords, some of them with a value that does not belong there.
    fn schema() -> impl Strategy<Value = Value> {
        let leaf =
            kind().prop_map(|kind| json!({"type": kind, "format": "uint32", "description": "one", "default": [1]}));
        leaf.prop_recursive(3, 16, 3, |inner| {
            let names = prop::sample::subsequence(vec!["a", "b", "c"], 0..3);
            let object = (prop::collection::vec(inner.clone(), 0..3), names, any::<Option<bool>>());
            let object = object.prop_map(|(parts, required, is_open)| {
                let properties: Map<String, Value> = ["a", "b", "c"].map(String::from).into_iter().zip(parts).collect();
                let mut schema = json!({"type": "object", "properties": properties, "required": required});
                if let Some(is_open) = is_open {
                    schema["additionalProperties"] = json!(is_open);
                }
                schema
            });
            prop_oneof![
                4 => object,
                2 => inner.clone().prop_map(|items| json!({"items": items})),
                1 => (-2i32..2, prop::sample::select(vec![0.5, EXACT - 1.0, EXACT])).prop_map(|(least, most)| json!({"minimum": least, "maximum": most})),
                2 => prop::collection::vec(scalar(), 1..4).prop_map(|choices| json!({"enum": choices})),
                1 => (prop::sample::select(vec!["type", "enum", "required", "properties", "items", "title", "anyOf"]), value(), inner)
                    .prop_map(|(keyword, odd, mut schema)| { schema[keyword] = odd; schema }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        /// The oracle is the library, asked about every value.
        #[test]
        fn what_is_taken_without_the_library_fits(schema in schema(), values in prop::collection::vec(value(), 8)) {
            prop_assume!(covers(&schema));
            let library = jsonschema::validator_for(&schema);
            prop_assert!(library.is_ok(), "{schema}: {:?}", library.err());
            let library = library.unwrap();
            let checker = full::Checker::read(&schema).unwrap();
            let quick = quick::Quick::read(&schema);
            for value in values {
                let fits = library.is_valid(&value);
                if quick.takes(&value) {
                    prop_assert!(fits, "{schema} {value}");
                }
                prop_assert_eq!(quick.takes(&value), small::Checker.check(&schema, &value).is_ok(), "{} {}", schema, value);
                prop_assert_eq!(checker.check(&schema, &value).is_ok(), fits, "{} {}", schema, value);
            }
        }
    }

    #[test]
    fn a_keyword_that_says_more_is_left_to_the_library() {
        let plain = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Order", "type": "object", "required": ["item"],
            "properties": {"item": {"type": ["string", "null"]}, "sizes": {"type": "array", "items": {"enum": ["s", "m"]}}},
        });
        assert!(covers(&plain));
        for (keyword, value) in [
            ("$ref", json!("#/$defs/a")),
            ("minimum", json!(u64::MAX)),
            ("maximum", json!(EXACT)),
            ("minimum", json!(-EXACT)),
            ("exclusiveMinimum", json!(0)),
            ("anyOf", json!([{}])),
            ("additionalProperties", json!({"type": "string"})),
            ("patternProperties", json!({})),
            ("$schema", json!("http://json-schema.org/draft-07/schema#")),
            ("type", json!("strin")),
            ("required", json!(["a", "a"])),
            ("items", json!([{}])),
            ("enum", json!([[1]])),
        ] {
            let mut more = plain.clone();
            more[keyword] = value;
            assert!(!covers(&more), "{keyword}");
        }
    }
}
