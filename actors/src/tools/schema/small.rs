//! What is checked of a value without the feature `json-schema`: types, choices, bounds of numbers, required and unknown properties.
//!
//! At each level that `properties` and `items` lead to. Every other keyword is passed over, `$ref` and `anyOf` among
//! them: what they would refuse, a tool has to refuse itself. A tool of typed arguments does.

use super::{FEW_STEPS, MAX_COMPLAINTS, Misfit, STEPS_PER_VALUE, clip};
use serde_json::Value;
use std::fmt;

/// A schema is read at each check.
#[derive(Debug)]
pub(in crate::tools) struct Checker;

#[derive(Default)]
struct Check {
    complaints: Vec<String>,
    values: usize,
    steps: usize,
    is_too_much: bool,
}

/// Where a value stands. It is written out for a complaint alone: most arguments fit.
enum Place<'a> {
    Top,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Checker {
    pub(in crate::tools) fn read(schema: &Value) -> Result<Self, String> {
        is_schema(schema, "").map(|()| Self)
    }

    /// Checks arguments against the schema, which must be the one that was read. Errors: what is wrong with them.
    pub(in crate::tools) fn check(&self, schema: &Value, arguments: &Value) -> Result<(), Misfit> {
        let mut check = Check::default();
        check.value(schema, arguments, &Place::Top);
        if check.is_too_much {
            return Err(Misfit::TooMuch);
        }
        match check.complaints.is_empty() {
            true => Ok(()),
            false => Err(Misfit::Complaints(check.complaints)),
        }
    }
}

impl Check {
    fn value(&mut self, schema: &Value, value: &Value, place: &Place<'_>) {
        self.values += 1;
        self.is_too_much |= self.steps > FEW_STEPS.saturating_add(self.values.saturating_mul(STEPS_PER_VALUE));
        if self.is_too_much {
            return;
        }
        if schema == &Value::Bool(false) {
            return self.complain(place, &format!("{} is not allowed", shown(value)));
        }
        if types(schema).next().is_some() && !types(schema).any(|name| is_of(value, name)) {
            let types: Vec<&str> = types(schema).collect();
            return self.complain(place, &format!("{} is not of type {}", shown(value), types.join(" or ")));
        }
        self.choice(schema, value, place);
        match value {
            Value::Object(fields) => {
                self.required(schema, fields, place);
                let known = schema.get("properties").and_then(Value::as_object);
                let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
                    && schema.get("patternProperties").is_none();
                for (name, field) in fields {
                    match known.and_then(|known| known.get(name)) {
                        Some(schema) => self.value(schema, field, &Place::Field(place, name)),
                        None if is_closed => self.complain(place, &format!("{name:?} is not expected")),
                        None => {}
                    }
                }
            }
            Value::Array(items) => {
                // A list of schemas is of the first items one by one; that form is passed over.
                let Some(schema) = schema.get("items").filter(|schema| schema.is_object()) else { return };
                for (at, item) in items.iter().enumerate() {
                    self.value(schema, item, &Place::Item(place, at));
                }
            }
            Value::Number(number) => self.range(schema, number, place),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }

    fn range(&mut self, schema: &Value, number: &serde_json::Number, place: &Place<'_>) {
        let bound = |keyword| schema.get(keyword).and_then(Value::as_f64);
        let Some(float) = number.as_f64() else { return };
        if let Some(least) = bound("minimum").filter(|least| float < *least) {
            self.complain(place, &format!("{number} is less than {least}"));
        }
        if let Some(most) = bound("maximum").filter(|most| float > *most) {
            self.complain(place, &format!("{number} is more than {most}"));
        }
    }

    fn required(&mut self, schema: &Value, fields: &serde_json::Map<String, Value>, place: &Place<'_>) {
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        self.steps += required.len();
        for name in required.iter().filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
            self.complain(place, &format!("{name:?} is required"));
        }
    }

    /// Only with a text, a number and the like is compared: lists and objects would have to be walked for each choice.
    fn choice(&mut self, schema: &Value, value: &Value, place: &Place<'_>) {
        let Some(choices) = schema.get("enum").and_then(Value::as_array) else { return };
        let is_simple = |value: &Value| !value.is_array() && !value.is_object();
        if !is_simple(value) && !choices.iter().all(is_simple) {
            return;
        }
        self.steps += choices.len();
        if !choices.contains(value) {
            let choices: Vec<String> = choices.iter().take(16).map(shown).collect();
            self.complain(place, &format!("{} is none of {}", shown(value), choices.join(", ")));
        }
    }

    fn complain(&mut self, place: &Place<'_>, what: &str) {
        if self.complaints.len() < MAX_COMPLAINTS {
            self.complaints.push(match place {
                Place::Top => clip(what),
                below => format!("{}: {}", clip(&below.to_string()), clip(what)),
            });
        }
    }
}

/// As a JSON Pointer.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => Ok(()),
            Self::Field(above, name) => write!(f, "{above}/{}", name.replace('~', "~0").replace('/', "~1")),
            Self::Item(above, at) => write!(f, "{above}/{at}"),
        }
    }
}

/// The types that a schema names; none when it leaves them open.
fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let names = match schema.get("type") {
        Some(Value::Array(names)) => names.as_slice(),
        Some(name @ Value::String(_)) => std::slice::from_ref(name),
        _open => &[],
    };
    names.iter().filter_map(Value::as_str)
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        // As in JSON Schema, 2.0 is an integer.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _no_type => false,
    }
}

fn is_schema(schema: &Value, place: &str) -> Result<(), String> {
    let Value::Object(keywords) = schema else {
        return if schema.is_boolean() { Ok(()) } else { Err(clip(&format!("{place}: {schema} is no schema"))) };
    };
    let known = ["null", "boolean", "string", "array", "object", "number", "integer"];
    if let Some(wrong) = types(schema).find(|name| !known.contains(name)) {
        return Err(clip(&format!("{place}/type: {wrong:?} is no type")));
    }
    if let Some(Value::Object(properties)) = keywords.get("properties") {
        properties.iter().try_for_each(|(name, part)| is_schema(part, &format!("{place}/properties/{name}")))?;
    }
    match keywords.get("items") {
        Some(items) if !items.is_array() => is_schema(items, &format!("{place}/items")),
        _no_single_schema => Ok(()),
    }
}

/// A value as it is written, without its middle if it is long.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        short => super::super::clip::clip(&short.to_string(), 80),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaints(schema: &Value, value: &Value) -> Vec<String> {
        match Checker::read(schema).unwrap().check(schema, value) {
            Ok(()) => Vec::new(),
            Err(Misfit::Complaints(complaints)) => complaints,
            Err(Misfit::TooMuch) => vec!["too much".to_owned()],
        }
    }

    fn order() -> Value {
        json!({
            "type": "object",
            "required": ["item", "count"],
            "additionalProperties": false,
            "properties": {
                "item": {"type": "string"},
                "count": {"type": "integer"},
                "size": {"enum": ["s", "m"]},
                "share": {"minimum": 0, "maximum": 1},
                "notes": {"type": ["array", "null"], "items": {"type": "object", "properties": {"a/b": {"type": "string"}}}},
            },
        })
    }

    #[test]
    fn what_fits_is_taken() {
        for value in [
            json!({"item": "tea", "count": 2}),
            json!({"item": "tea", "count": 2.0, "size": "m", "notes": null}),
            json!({"item": "tea", "count": 2, "share": 0.5}),
            json!({"item": "tea", "count": 2, "notes": [{"a/b": "x", "more": 1}, {}]}),
        ] {
            assert_eq!(complaints(&order(), &value), Vec::<String>::new(), "{value}");
        }
        assert_eq!(complaints(&json!(true), &json!({"any": 1})), Vec::<String>::new());
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
        for (value, said) in [
            (json!("tea"), vec!["\"tea\" is not of type object"]),
            (
                json!({"item": 7, "count": 2.5}),
                vec!["/item: 7 is not of type string", "/count: 2.5 is not of type integer"],
            ),
            (json!({"item": "tea"}), vec!["\"count\" is required"]),
            (json!({"item": "tea", "count": 1, "colour": "red"}), vec!["\"colour\" is not expected"]),
            (json!({"item": "tea", "count": 1, "size": "xl"}), vec!["/size: \"xl\" is none of \"s\", \"m\""]),
            (
                json!({"item": "tea", "count": 1, "notes": [{}, {"a/b": []}]}),
                vec!["/notes/1/a~1b: a list is not of type string"],
            ),
            (json!({"item": "tea", "count": 1, "share": -1}), vec!["/share: -1 is less than 0"]),
            (json!({"item": "tea", "count": 1, "share": 1.5}), vec!["/share: 1.5 is more than 1"]),
            (json!({"item": "tea", "count": 1, "notes": "x"}), vec!["/notes: \"x\" is not of type array or null"]),
        ] {
            assert_eq!(complaints(&order(), &value), said, "{value}");
        }
    }

    #[test]
    fn a_model_is_told_few_and_short_complaints() {
        let value: Value = (0..50).map(|n| (format!("x{n}"), json!("y".repeat(10_000)))).collect();
        let said = complaints(&json!({"additionalProperties": {"type": "string"}, "required": ["z"]}), &value);
        assert_eq!(said, ["\"z\" is required"]);
        let said = complaints(&json!({"additionalProperties": false}), &value);
        assert_eq!(said.len(), MAX_COMPLAINTS);
        assert!(said.iter().all(|text| text.len() < 400), "{said:?}");
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for (schema, place) in [
            (json!(7), ""),
            (json!({"type": "strin"}), "/type"),
            (json!({"properties": {"a": {"items": {"type": ["string", "text"]}}}}), "/properties/a/items/type"),
        ] {
            let why = Checker::read(&schema).unwrap_err();
            assert!(why.starts_with(place), "{why}");
        }
    }

    #[test]
    fn a_schema_that_costs_too_much_is_told_so_and_not_followed_to_its_end() {
        let names: Vec<String> = (0..2_000).map(|n| format!("n{n}")).collect();
        let schema = json!({"items": {"enum": names}});
        let value = Value::Array(vec![json!("n1999"); 100_000]);
        let mut check = Check::default();
        check.value(&schema, &value, &Place::Top);
        assert_eq!(complaints(&schema, &value), ["too much"]);
        assert!(check.is_too_much && check.steps < 2 * FEW_STEPS, "{} steps", check.steps);
    }
}
